"""Gradient exchange of workers with several ranks (processes): its minimum time at the measured bandwidth, and waiting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aiperf.accounting.intervals import Real, Window, share_inside
from aiperf.report.fold import Collected


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """Gradient exchange of all workers with several ranks in the valid window."""

    ranks: tuple[int, ...]
    """Numbers of ranks of these workers, each once."""
    bus_bytes_per_second: float
    """Bus bandwidth that ranks measured at their start with the gradients of the starting network."""
    transports: tuple[str, ...]
    """How NCCL connected the first ranks with the others, each once, such as 'NVLink'."""
    exchanged_bytes: float
    """Bytes of the gradients of all steps of one rank."""
    least_seconds: float
    """Minimum time at that bandwidth: bytes · 2(n − 1)/n ÷ bus bandwidth (Patarasu and Yuan 2009)."""
    visible_seconds: float
    """Communication that the backward pass did not hide."""
    waiting_seconds: float
    """Visible communication above the bound, of all intervals: waiting for the slowest rank."""
    busy_seconds: float
    """Time in steps."""


def gradient_bytes(parameters: int, config: Mapping[str, Any]) -> int:
    """Return the bytes of one step's gradients as sent: 4 per parameter, or 2 with trainer.fp16_compression."""
    return parameters * (2 if config.get("trainer", {}).get("fp16_compression") else 4)


def all_reduce_seconds(size: float, ranks: int, bus_bytes_per_second: float) -> float:
    """Return the seconds of an all-reduce at a bus bandwidth: size · 2(n − 1)/n ÷ bandwidth.

    `size`: bytes of each rank. `ranks`: number n of processes.

    >>> all_reduce_seconds(1000, 4, 1500)
    1.0
    """
    return size * 2 * (ranks - 1) / ranks / bus_bytes_per_second


def exchange_facts(run: Collected, inside: Window) -> ExchangeFacts | None:
    """Gradient exchange inside the window, over all workers with several ranks. None without such work or a bus bandwidth."""
    together = {number: joined for number, joined in run.workers.items() if joined.ranks > 1}
    bus = {number: joined.machine.get("measured_bus_bytes_per_second") for number, joined in together.items()}
    columns = run.work_log.intervals
    part = share_inside(columns.start, columns.end, inside) * np.isin(columns.worker, list(together))
    if None in bus.values() or not part.any():
        return None
    trials = sorted(run.trials)
    size = np.array([gradient_bytes(run.trials[each].proposal.parameters, run.started.config) for each in trials])
    batch = np.array([run.trials[each].batch_size for each in trials])
    trial, ranks = np.searchsorted(trials, columns.trial), columns.ranks
    speed = np.array([bus.get(worker) or math.inf for worker in columns.worker.tolist()])
    exchanged: Real = part * columns.training_images / (batch[trial] * ranks) * size[trial]
    least: Real = exchanged * 2 * (ranks - 1) / ranks / speed
    visible: Real = part * columns.communication
    sums = (exchanged, least, visible, np.maximum(0.0, visible - least), part * columns.busy)
    return ExchangeFacts(
        tuple(sorted({joined.ranks for joined in together.values()})),
        min(each for each in bus.values() if each is not None),
        tuple(sorted({str(how) for each in together.values() if (how := each.machine.get("exchange_transport"))})),
        *(math.fsum(each.tolist()) for each in sums),
    )
