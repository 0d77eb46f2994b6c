"""The modes in which a network's training step can be executed, and which of them pays for a trial, by measurement.

The ways are eager, with fused normalisations (`fused/`), as CUDA graphs, fused and graphed, compiled (torch.compile, which
fuses by itself), or compiled and graphed. `auto` tries a way where so much work lies ahead that
its usual gain would repay its usual cost; it keeps the fastest, and what it measured is what it expects of the next trial.
On CPUs `auto` never compiles: eager channels_last is as fast there (ratio 1.0 for ResNet-50 at 224×224, torch 2.13, 2-core
AVX-512 machine, where compiling took 35–59 s). How a mode is carried out is `execution.py`; no torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from aiperf.errors import BadConfiguration
from aiperf.train.fused import Fusion, missing
from aiperf.train.trainer_config import TrainerConf


@dataclass(frozen=True, slots=True)
class ExecutionMode:
    """How a training step is launched."""

    compiled: bool = False
    """By torch.compile."""
    cuda_graphs: bool = False
    """Whether one call launches all kernels of a forward or a backward pass; otherwise each kernel is launched by itself."""
    fused: Fusion = "no"
    """Not together with `compiled`."""


EAGER = ExecutionMode()


def modes(
    compile: str, cuda_graphs: str, *, on_cuda: bool, fused: str = "off", cannot_fuse: str | None = None
) -> tuple[ExecutionMode, ...]:
    """Those that `trainer.compile`, `.cuda_graphs` and `.fused` leave open, the one that costs least to prepare first.

    `cannot_fuse`: why nothing can be fused by hand here, None where it can. Raises BadConfiguration for what cannot be had.

    >>> modes("auto", "auto", on_cuda=False)
    (ExecutionMode(compiled=False, cuda_graphs=False, fused='no'),)
    """
    if cuda_graphs == "on" and not on_cuda:
        raise BadConfiguration(
            "trainer.cuda_graphs='on' needs an accelerator with CUDA; found a CPU: take 'off' or 'auto'"
        )
    if fused in ("norm", "conv"):
        if compile == "on":
            raise BadConfiguration(
                f"trainer.fused={fused!r} is for what torch.compile does not compile; found trainer.compile='on': "
                "take compile=off or fused=off"
            )
        if cannot_fuse is not None:
            raise BadConfiguration(f"trainer.fused={fused!r} cannot be had: {cannot_fuse}; take 'off' or 'auto'")
    graphs = _open(cuda_graphs, on_cuda=on_cuda)
    by_hand = _fusions(fused, can=on_cuda and cannot_fuse is None)
    uncompiled = [ExecutionMode(False, graphed, fusion) for fusion, graphed in product(by_hand, graphs)]
    compiled = [ExecutionMode(True, graphed) for graphed in graphs]
    # what is to be fused by hand is not left to the compiler
    compiling = (False,) if fused in ("norm", "conv") else _open(compile, on_cuda=on_cuda)
    return tuple(
        mode for choice, some in ((False, uncompiled), (True, compiled)) if choice in compiling for mode in some
    )


def modes_of(conf: TrainerConf, *, on_cuda: bool) -> tuple[ExecutionMode, ...]:
    """Those that a configuration leaves open here. Raises BadConfiguration."""
    return modes(
        conf.compile, conf.cuda_graphs, on_cuda=on_cuda, fused=conf.fused, cannot_fuse=missing(on_cuda=on_cuda)
    )


def _open(choice: str, *, on_cuda: bool) -> tuple[bool, ...]:
    if choice == "auto":
        return (False, True) if on_cuda else (False,)
    return (choice == "on",)


def _fusions(choice: str, *, can: bool) -> tuple[Fusion, ...]:
    match choice:
        case "norm":
            return ("norm",)
        case "conv":
            return ("conv",)
        case "auto" if can:
            return ("no", "norm", "conv")
        case _:
            return ("no",)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a way costs and gains, as last measured on this worker."""

    seconds: float
    """To prepare it and to measure its step."""
    share: float
    """Its step time as a share of eager's; infinite where it cannot be had."""


GUESSES: Mapping[ExecutionMode, Expectation] = {
    EAGER: Expectation(0.0, 1.0),
    ExecutionMode(cuda_graphs=True): Expectation(3.0, 0.97),
    ExecutionMode(fused="norm"): Expectation(10.0, 0.9),
    ExecutionMode(fused="conv"): Expectation(15.0, 0.88),
    ExecutionMode(cuda_graphs=True, fused="norm"): Expectation(13.0, 0.88),
    ExecutionMode(cuda_graphs=True, fused="conv"): Expectation(18.0, 0.86),
    # for a ResNet-50, rather too much than too little
    ExecutionMode(compiled=True): Expectation(90.0, 0.87),
    ExecutionMode(compiled=True, cuda_graphs=True): Expectation(90.0, 0.85),
}
"""Before the first measurement; none was made on an accelerator yet."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """Of all ways."""

    of: Mapping[ExecutionMode, Expectation]

    def next_to_try(
        self, modes: Sequence[ExecutionMode], measured: Mapping[ExecutionMode, float], steps_ahead: int
    ) -> ExecutionMode | None:
        """The way, of those not measured yet, that promises to save most of the time ahead, its own cost taken off; None where
        none promises to save any. `measured`: seconds of a step, eager's among them.

        >>> expected = Expectations({EAGER: Expectation(0, 1.0), ExecutionMode(compiled=True): Expectation(60, 0.8)})
        >>> [expected.next_to_try((EAGER, ExecutionMode(compiled=True)), {EAGER: 0.1}, steps) for steps in (2999, 3001)]
        [None, ExecutionMode(compiled=True, cuda_graphs=False, fused='no')]
        """
        fastest = min(measured.values())

        def saved(mode: ExecutionMode) -> float:
            expected = self.of[mode]
            return (fastest - measured[EAGER] * expected.share) * steps_ahead - expected.seconds

        best = max((mode for mode in modes if mode not in measured), key=saved, default=None)
        return best if best is not None and saved(best) > 0.0 else None

    def learn(self, mode: ExecutionMode, seconds: float, eager_step: float, step: float) -> Expectations:
        """After a measurement. `step`: infinite where the way could not be had."""
        return replace(self, of={**self.of, mode: Expectation(seconds, step / eager_step)})
