"""How a network's training step may be launched, and which way pays for a trial: measured, not believed.

The ways are eager, as CUDA graphs, compiled (torch.compile), or both. `auto` tries a way where so much work lies ahead that
its usual gain would repay its usual cost; it keeps the fastest, and what it measured is what it expects of the next trial.
On CPUs `auto` never compiles: eager channels_last is as fast there (ratio 1.0 for ResNet-50 at 224×224, torch 2.13, 2-core
AVX-512 machine, where compiling took 35–59 s). How a way is carried out is `launch.py`; no torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from aiperf.errors import BadConfiguration


@dataclass(frozen=True, slots=True)
class Way:
    """How a training step is launched."""

    compiled: bool = False
    """By torch.compile."""
    cuda_graphs: bool = False
    """All kernels of a forward or a backward pass by one call; else each by its own."""


EAGER = Way()


def ways(compile: str, cuda_graphs: str, *, on_cuda: bool) -> tuple[Way, ...]:
    """Those that `trainer.compile` and `trainer.cuda_graphs` leave open, the one that costs least to prepare first.

    Raises BadConfiguration for CUDA graphs without CUDA.

    >>> ways("auto", "auto", on_cuda=False)
    (Way(compiled=False, cuda_graphs=False),)
    """
    if cuda_graphs == "on" and not on_cuda:
        raise BadConfiguration(
            "trainer.cuda_graphs='on' needs an accelerator with CUDA; found a CPU: take 'off' or 'auto'"
        )
    compiling = _open(compile, on_cuda=on_cuda)
    graphs = _open(cuda_graphs, on_cuda=on_cuda)
    return tuple(Way(compiled, graphed) for compiled, graphed in product(compiling, graphs))


def _open(choice: str, *, on_cuda: bool) -> tuple[bool, ...]:
    if choice == "auto":
        return (False, True) if on_cuda else (False,)
    return (choice == "on",)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a way costs and gains, as last measured on this worker."""

    seconds: float
    """To prepare it and to measure its step."""
    share: float
    """Its step time as a share of eager's; infinite where it cannot be had."""


GUESSES: Mapping[Way, Expectation] = {
    EAGER: Expectation(0.0, 1.0),
    Way(cuda_graphs=True): Expectation(3.0, 0.97),
    # for a ResNet-50, rather too much than too little
    Way(compiled=True): Expectation(90.0, 0.87),
    Way(compiled=True, cuda_graphs=True): Expectation(90.0, 0.85),
}
"""Before the first measurement; none was made on an accelerator yet."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """Of all ways."""

    of: Mapping[Way, Expectation]

    def next_to_try(self, ways: Sequence[Way], measured: Mapping[Way, float], steps_ahead: int) -> Way | None:
        """The way, of those not measured yet, that promises to save most of the time ahead, its own cost taken off; None where
        none promises to save any. `measured`: seconds of a step, eager's among them.

        >>> expected = Expectations({EAGER: Expectation(0, 1.0), Way(compiled=True): Expectation(60, 0.8)})
        >>> [expected.next_to_try((EAGER, Way(compiled=True)), {EAGER: 0.1}, steps) for steps in (2999, 3001)]
        [None, Way(compiled=True, cuda_graphs=False)]
        """
        fastest = min(measured.values())

        def saved(way: Way) -> float:
            expected = self.of[way]
            return (fastest - measured[EAGER] * expected.share) * steps_ahead - expected.seconds

        best = max((way for way in ways if way not in measured), key=saved, default=None)
        return best if best is not None and saved(best) > 0.0 else None

    def learn(self, way: Way, seconds: float, eager_step: float, step: float) -> Expectations:
        """After a measurement. `step`: infinite where the way could not be had."""
        return replace(self, of={**self.of, way: Expectation(seconds, step / eager_step)})
