"""Time of a traced training step by kernels and phases of the exchange, and numbers lost in 16-bit types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from aiperf.journal.events import GradientCounts, StepsProfiled


@dataclass(frozen=True, slots=True)
class StepPart:
    """Class of kernels or phase of the gradient exchange, with its time in a training step."""

    name: str
    seconds: float
    """Seconds per step."""
    share: float
    """Share of all parts."""


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """Mean times of training steps that a profiler traced on rank 0 (first process of a worker)."""

    trial: int
    attempt: int
    first_step: int
    steps: int
    ranks: int
    device: str
    """cuda: kernels of the accelerator, without idle time. cpu: all time of the steps."""
    seconds: float
    """Seconds per traced step, including waits for input."""
    reference_seconds: float
    """Seconds per step without a trace, measured immediately before."""
    profiler_seconds: float
    """Time to start and stop the trace and to read it."""
    kernels: tuple[StepPart, ...]
    exchange: tuple[StepPart, ...]
    """Measured phases. Empty if nothing was exchanged, or if no record of the exchange exists."""
    exchange_source: str
    exchange_bytes: float
    """Bytes that all ranks together send per step if the all-reduce is optimal in bandwidth: ranks · bytes · 2(n−1)/n."""
    exchange_bytes_per_second: float | None
    """These bytes ÷ `reference_seconds` (HPC AI500, Figure 8)."""
    numbers: dict[str, dict[str, float | None]]
    """Shares of lost numbers by kind of layer and field of GradientCounts. None without such numbers."""

    @property
    def slowdown(self) -> float | None:
        """Extra time of a traced step as a share of an untraced one. 0: equal times. None without an untraced step."""
        return self.seconds / self.reference_seconds - 1 if self.reference_seconds else None


def step_breakdown(event: StepsProfiled) -> StepBreakdown:
    reference = event.reference_seconds / max(1, event.reference_steps)
    sent = 2.0 * (event.ranks - 1) * event.exchange_bytes
    return StepBreakdown(
        trial=event.trial,
        attempt=event.attempt,
        first_step=event.first_step,
        steps=event.steps,
        ranks=event.ranks,
        device=event.device,
        seconds=event.seconds / event.steps,
        reference_seconds=reference,
        profiler_seconds=event.profiler_seconds,
        kernels=parts(event.kernels, event.steps),
        exchange=parts(event.exchange, event.steps),
        exchange_source=event.exchange_source,
        exchange_bytes=sent,
        exchange_bytes_per_second=sent / reference if reference else None,
        numbers={kind: _lost_shares(counts) for kind, counts in event.numbers.items()},
    )


def parts(seconds: Mapping[str, float], steps: int) -> tuple[StepPart, ...]:
    """Return seconds per step and shares. 0 steps (a trace without annotations) count as one."""
    total = math.fsum(seconds.values())
    return tuple(StepPart(name, each / max(1, steps), each / total if total else 0.0) for name, each in seconds.items())


def _lost_shares(counts: GradientCounts) -> dict[str, float | None]:
    wholes = {"lost_updates": counts.updates}
    lost = (name for name in counts.__struct_fields__ if name not in ("gradients", "updates"))
    return {
        name: getattr(counts, name) / whole if (whole := wholes.get(name, counts.gradients)) else None for name in lost
    }
