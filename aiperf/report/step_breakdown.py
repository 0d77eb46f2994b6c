"""Time breakdown of a training step: kernels, gradient exchange, and numbers that 16-bit types lose, as shares.

The input is the event StepsProfiled, a trace or a timeline. Sources of the rows: HPC AI500 V2.0, Figure 6 and Table 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from aiperf.journal.events import GradientCounts, StepsProfiled
from aiperf.train.tracing.exchange_timeline import PHASES
from aiperf.train.tracing.kernel_classes import FRAMEWORK, OTHER, PAPER_CLASSES

HOROVOD = "Horovod timeline"
"""Source of the exchange's phases whose intervals do not overlap with each other by definition, so that they have shares."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """Class of kernels or phase of the exchange. None marks a value that was not measured."""

    name: str
    seconds: float | None
    """Seconds per step."""
    share: float | None
    """Share of all parts. None also for phases that contain each other."""


@dataclass(frozen=True, slots=True)
class LostShares:
    """Shares of the numbers of a kind of layer that 16-bit types would lose. None without such numbers."""

    kind: str
    gradients: int
    """Counted elements of gradients, of all examined steps: those that are not 0 in FP32."""
    fp16_zero: float | None
    fp16_subnormal: float | None
    fp16_infinite: float | None
    bf16_zero: float | None
    bf16_subnormal: float | None
    bf16_infinite: float | None
    lost_updates: float | None
    """Share of the updates below half a last place of the weight in BF16."""


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """Traced steps of rank 0."""

    trial: int
    attempt: int
    first_step: int
    steps: int
    ranks: int
    device: str
    """cuda: kernels of the accelerator, without idle time. cpu: all time of the steps."""
    seconds: float
    """Seconds per traced step, including waits for input."""
    reference_seconds: float | None
    """Seconds per step immediately before. None if there was no step."""
    slowdown: float | None
    """Traced ÷ reference step, less 1."""
    profiler_seconds: float
    """Time to start and stop the trace and to read it."""
    kernels: tuple[StepPart, ...]
    exchange: tuple[StepPart, ...]
    """Empty if nothing was exchanged, or if no record of the exchange exists."""
    exchange_source: str
    exchange_bytes: float
    """Bytes that all ranks together send per step, by a ring or tree that is optimal in bandwidth: ranks · S · 2(n−1)/n."""
    exchange_bytes_per_second: float
    """These bytes ÷ seconds per step: the bandwidth that the training consumes (HPC AI500, Figure 8)."""
    numbers: tuple[LostShares, ...]


def step_breakdown(event: StepsProfiled) -> StepBreakdown:
    """Return the breakdown of traced steps."""
    step = event.seconds / event.steps
    reference = event.reference_seconds / event.reference_steps if event.reference_steps else None
    sent = 2.0 * (event.ranks - 1) * event.exchange_bytes
    usual = reference or step
    return StepBreakdown(
        trial=event.trial,
        attempt=event.attempt,
        first_step=event.first_step,
        steps=event.steps,
        ranks=event.ranks,
        device=event.device,
        seconds=step,
        reference_seconds=reference,
        slowdown=step / reference - 1 if reference else None,
        profiler_seconds=event.profiler_seconds,
        kernels=kernel_parts(event.kernels, event.steps, event.device),
        exchange=exchange_parts(event.exchange, event.steps, event.exchange_source),
        exchange_source=event.exchange_source,
        exchange_bytes=sent,
        exchange_bytes_per_second=sent / usual if usual else 0.0,
        numbers=tuple(_lost(kind, counts) for kind, counts in event.numbers.items()),
    )


def kernel_parts(seconds: Mapping[str, float], steps: int, device: str) -> tuple[StepPart, ...]:
    """Return the classes of kernels. A class without kernels has 0 s. `steps`: 0 counts as one."""
    names = (*PAPER_CLASSES, *([FRAMEWORK] if device == "cpu" else []), OTHER)
    return _parts({**dict.fromkeys(names, 0.0), **seconds}, steps)


def exchange_parts(seconds: Mapping[str, float], steps: int, source: str) -> tuple[StepPart, ...]:
    """Return the phases of the exchange. Phases that the source does not report are not measured."""
    if source == HOROVOD and seconds:
        return _parts({**dict.fromkeys(PHASES, None), **seconds}, steps)
    return tuple(StepPart(name, each / max(1, steps), None) for name, each in seconds.items())


def _parts(seconds: Mapping[str, float | None], steps: int) -> tuple[StepPart, ...]:
    total = math.fsum(each for each in seconds.values() if each is not None)
    return tuple(
        StepPart(name, None, None)
        if each is None
        else StepPart(name, each / max(1, steps), each / total if total else 0.0)
        for name, each in seconds.items()
    )


def _lost(kind: str, counts: GradientCounts) -> LostShares:
    def share(lost: int, of: int) -> float | None:
        return lost / of if of else None

    return LostShares(
        kind=kind,
        gradients=counts.gradients,
        fp16_zero=share(counts.fp16_zero, counts.gradients),
        fp16_subnormal=share(counts.fp16_subnormal, counts.gradients),
        fp16_infinite=share(counts.fp16_infinite, counts.gradients),
        bf16_zero=share(counts.bf16_zero, counts.gradients),
        bf16_subnormal=share(counts.bf16_subnormal, counts.gradients),
        bf16_infinite=share(counts.bf16_infinite, counts.gradients),
        lost_updates=share(counts.lost_updates, counts.updates),
    )
