"""Which rank it was, when several show that something is wrong: those that wait for a dead one fail too. No torch here."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

from aiperf.train.ranks.any_rank import AnyRank
from aiperf.train.ranks.heartbeat import HeartbeatFile
from aiperf.train.ranks.protocol import Failed

_KILLED, _FAILED, _ENDED, _NOTICED = range(4)


def suspicion(process: AnyRank) -> int:
    """The less, the likelier it is the cause."""
    if process.signal is not None and process.signal != signal.SIGABRT:
        return _KILLED  # from outside, or by the kernel for its memory
    if process.failed is not None and not process.failed.is_peer:
        return _FAILED
    if process.failed is None and process.has_ended():
        return _ENDED  # Gloo and Horovod may abort when a peer is gone
    return _NOTICED


def is_clear(processes: Sequence[AnyRank]) -> bool:
    """Whether one of them shows more than that another is gone. All are asked how they are before any is judged."""
    for process in processes:
        process.has_ended()
    return any(suspicion(process) in (_KILLED, _FAILED) for process in processes)


def culprit(processes: Sequence[AnyRank], heartbeats: HeartbeatFile) -> AnyRank:
    """Of processes of which one has ended or failed, the one that caused it."""
    for process in processes:
        process.has_ended()
    meetings = heartbeats.meetings()
    # where all only noticed that another is gone, it is the one that the others were ahead of
    return min(processes, key=lambda process: (suspicion(process), meetings[process.rank]))


def failure(process: AnyRank, name: str) -> Failed:
    """Why it failed, with its name."""
    if process.failed is not None:
        return replace(process.failed, reason=f"{name} failed: {process.failed.reason}")
    return Failed(f"{name} {process.end_in_words()}")
