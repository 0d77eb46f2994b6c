"""Choice of the mode in which a training step is executed: eager, by regions, CUDA graphs, compiled. No torch here.

On CPUs `auto` never compiles: eager channels_last is as fast there (ratio 1.0 for ResNet-50 at 224×224, torch 2.13, 2-core
AVX-512 machine, where compiling took 35–59 s).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import frexp, inf
from statistics import fmean

from aiperf.errors import conflict
from aiperf.train.trainer_config import TrainerConf


@dataclass(frozen=True, slots=True)
class ExecutionMode:
    """Mode in which a training step is executed. It is eager if all fields are False."""

    compiled: bool = False
    cuda_graphs: bool = False
    """One call launches all kernels of a forward or a backward pass. False: each kernel is launched separately."""
    regions: bool = False
    """Normalisation, addition and ReLU are compiled as one function, convolutions are not (`aiperf/train/regions.py`)."""

    @property
    def needs_compiler(self) -> bool:
        return self.compiled or self.regions


EAGER = ExecutionMode()
REGIONAL = ExecutionMode(regions=True)
FASTER_BY_REGIONS: frozenset[str] = frozenset()
"""Accelerators on which `auto` tries regions, as torch names them: `tools.first_contact` measured 1.15 × eager or more. None
was measured yet."""


def modes_of(conf: TrainerConf, accelerator: str) -> tuple[ExecutionMode, ...]:
    """Return the execution modes that the options trainer.compile and trainer.cuda_graphs allow, the cheapest to prepare first.

    `accelerator`: its name by torch, '' for a processor.

    >>> modes_of(TrainerConf(), "")
    (ExecutionMode(compiled=False, cuda_graphs=False, regions=False),)
    """
    on_cuda = accelerator != ""
    if conf.cuda_graphs == "on" and not on_cuda:
        raise conflict("trainer.cuda_graphs='on'", "a CPU", "Take 'off' or 'auto'")
    if conf.compile == "regions":
        return (REGIONAL,)
    modes = [
        ExecutionMode(compiled, graphed)
        for compiled in _open(conf.compile, on_cuda=on_cuda)
        for graphed in _open(conf.cuda_graphs, on_cuda=on_cuda)
    ]
    if conf.compile == "auto" and conf.channels_last and accelerator in FASTER_BY_REGIONS:
        modes.insert(1, REGIONAL)
    return tuple(modes)


def _open(choice: str, *, on_cuda: bool) -> tuple[bool, ...]:
    if choice == "auto":
        return (False, True) if on_cuda else (False,)
    return (choice == "on",)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Cost and gain of an execution mode: measured on this worker in a trial, a mean of such, or a guess."""

    seconds: float
    """Seconds to prepare the mode and to measure its step."""
    share: float
    """Step time relative to eager. Infinite if the mode does not work."""


GUESSES: Mapping[ExecutionMode, Expectation] = {
    EAGER: Expectation(0.0, 1.0),
    ExecutionMode(cuda_graphs=True): Expectation(3.0, 0.97),
    REGIONAL: Expectation(30.0, 0.8),
    # for a ResNet-50, rather too much than too little
    ExecutionMode(compiled=True): Expectation(90.0, 0.87),
    ExecutionMode(compiled=True, cuda_graphs=True): Expectation(90.0, 0.85),
}
"""Expectations before the first measurement. None was measured on an accelerator yet."""


GRAPHS_BELOW_SECONDS = 0.01
"""`auto` tries CUDA graphs for shorter eager steps only: in longer ones the host launches kernels ahead of the device."""
LAST = 3
"""Measurements whose mean is the expectation."""
FORGOTTEN_AFTER = 10
"""Trials after which a mode that did not work is expected to work again: the cause may be gone, such as a full disk."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """Expected cost and gain of each mode, from networks with step times within a factor of 2: it may pay for large ones."""

    guesses: Mapping[ExecutionMode, Expectation]
    """Expectations without a measurement of the class."""
    measured: Mapping[tuple[ExecutionMode, int], tuple[tuple[int, Expectation], ...]] = field(default_factory=dict)
    """Numbers of trials with their last measurements, by mode and class."""
    trial: int = 0

    def next_to_try(
        self, modes: Sequence[ExecutionMode], measured: Mapping[ExecutionMode, float], steps_ahead: int
    ) -> ExecutionMode | None:
        """Return the mode that is expected to save most time after its own cost. None if none saves time.

        >>> expected = Expectations({EAGER: Expectation(0, 1.0), ExecutionMode(compiled=True): Expectation(60, 0.8)})
        >>> [expected.next_to_try((EAGER, ExecutionMode(compiled=True)), {EAGER: 0.1}, steps) for steps in (2999, 3001)]
        [None, ExecutionMode(compiled=True, cuda_graphs=False, regions=False)]
        """
        fastest = min(measured.values())

        def saved(mode: ExecutionMode) -> float:
            expected = self.of(mode, measured[EAGER])
            return (fastest - measured[EAGER] * expected.share) * steps_ahead - expected.seconds

        is_short = measured[EAGER] < GRAPHS_BELOW_SECONDS or all(mode.cuda_graphs for mode in modes)
        untried = (mode for mode in modes if mode not in measured and (is_short or not mode.cuda_graphs))
        best = max(untried, key=saved, default=None)
        return best if best is not None and saved(best) > 0.0 else None

    def of(self, mode: ExecutionMode, eager_step: float) -> Expectation:
        known = [
            each
            for trial, each in self.measured.get((mode, _class(eager_step)), ())
            if each.share < inf or self.trial - trial < FORGOTTEN_AFTER
        ]
        if not known:
            return self.guesses[mode]
        return Expectation(fmean(each.seconds for each in known), fmean(each.share for each in known))

    def next_trial(self) -> Expectations:
        return replace(self, trial=self.trial + 1)

    def learn(self, mode: ExecutionMode, seconds: float, eager_step: float, step: float) -> Expectations:
        """`step` is infinite if the mode did not work."""
        key = mode, _class(eager_step)
        known = (*self.measured.get(key, ()), (self.trial, Expectation(seconds, step / eager_step)))
        return replace(self, measured={**self.measured, key: known[-LAST:]})


def _class(eager_step: float) -> int:
    return frexp(eager_step)[1]
