"""Which rank it was, when several show that something is wrong: those that wait for a dead one fail too. No torch here."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

from aiperf.train.processes import RankProcess
from aiperf.train.pulse import Pulse
from aiperf.train.wire import Failed


def culprit(processes: Sequence[RankProcess]) -> RankProcess:
    """Of processes of which one has ended or failed, the one that caused it."""

    def suspicion(process: RankProcess) -> int:
        if process.signal is not None and process.signal != signal.SIGABRT:
            return 0  # killed from outside, or by the kernel for its memory
        if process.failed is not None and not process.failed.is_peer:
            return 1
        if process.has_ended() and process.failed is None:
            return 2  # Gloo and Horovod may abort when a peer is gone
        return 3

    return min(processes, key=suspicion)


def failure(process: RankProcess, name: str) -> Failed:
    """Why it failed, with its name."""
    if process.failed is not None:
        return replace(process.failed, reason=f"{name} failed: {process.failed.reason}")
    return Failed(f"{name} {process.end_in_words()}")


def hung(
    processes: Sequence[RankProcess], pulse: Pulse, seconds: float, start_seconds: float, now: float
) -> tuple[int, str] | None:
    """The rank that hangs and how, None when all are alive.

    Hung is who has been stopped for so many seconds, or is silent for longer than it announced while no other is behind it.
    Ranks wait for each other in each exchange: those that have come further are overdue too, perhaps earlier, and no cause; not
    for longer than `start_seconds`, though, for whatever the one behind them may have announced.
    """
    stopped = {process.rank: process.stopped_for(now) for process in processes}
    meetings, steps = pulse.meetings(), pulse.steps()
    asleep = max(stopped, key=lambda rank: stopped[rank])
    overdue = [rank for rank in pulse.overdue(now) if meetings[rank] == min(meetings)]
    overdue = overdue or list(pulse.overdue(now - start_seconds))
    if not overdue and stopped[asleep] < seconds:
        return None
    if stopped[asleep] > 0:
        return asleep, f"is stopped (SIGSTOP or a debugger), at step {steps[asleep]}"
    rank = min(overdue, key=lambda each: (steps[each], overdue.index(each)))
    return rank, f"hangs: no sign of life within the time it had announced, at step {steps[rank]}"
