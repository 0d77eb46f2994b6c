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


def hung(processes: Sequence[RankProcess], pulse: Pulse, seconds: float, now: float) -> tuple[int, str] | None:
    """The rank that hangs and how, None when all are alive.

    Hung is who has been stopped for so many seconds, or is silent for longer than it announced. The others wait for it in the
    exchange and are soon overdue too: it is the one that is stopped, else the one that did the fewest steps.
    """
    stopped = {process.rank: process.stopped_for(now) for process in processes}
    overdue = pulse.overdue(now)
    if not overdue and max(stopped.values()) < seconds:
        return None
    steps = pulse.steps()
    asleep = max(stopped, key=lambda rank: stopped[rank])
    if stopped[asleep] > 0:
        return asleep, f"is stopped (SIGSTOP or a debugger), at step {steps[asleep]}"
    rank = min(overdue, key=lambda each: (steps[each], overdue.index(each)))
    return rank, f"hangs: no sign of life within the time it had announced, at step {steps[rank]}"
