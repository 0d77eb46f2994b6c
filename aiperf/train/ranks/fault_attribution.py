"""Choice of the failed rank when several ranks report errors.

Ranks that wait for a dead one fail too. No torch here.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

from aiperf.train.ranks.heartbeat import HeartbeatFile
from aiperf.train.ranks.protocol import Failed
from aiperf.train.ranks.rank_handle import AnyRank

_KILLED, _FAILED, _ENDED, _NOTICED = range(4)


def suspicion(process: AnyRank) -> int:
    """Return the rank's position among the suspects. A lower number is a more likely cause."""
    if process.signal is not None and process.signal != signal.SIGABRT:
        return _KILLED  # from outside, or by the kernel for its memory
    if process.failed is not None and not process.failed.is_peer:
        return _FAILED
    if process.failed is None and process.has_ended():
        return _ENDED  # Gloo and Horovod may abort when a peer is gone
    return _NOTICED


def is_clear(processes: Sequence[AnyRank]) -> bool:
    """Return whether a rank shows more than the loss of another rank. All processes are polled before any is judged."""
    for process in processes:
        process.has_ended()
    return any(suspicion(process) in (_KILLED, _FAILED) for process in processes)


def culprit(processes: Sequence[AnyRank], heartbeats: HeartbeatFile) -> AnyRank:
    """Return the process that caused the failure. At least one has ended or failed."""
    for process in processes:
        process.has_ended()
    meetings = heartbeats.meetings()
    # if all only noticed the loss of another rank, the one with the fewest exchanges is the cause
    return min(processes, key=lambda process: (suspicion(process), meetings[process.rank]))


def failure(process: AnyRank, name: str) -> Failed:
    """Return the failure of a process, with its name."""
    if process.failed is not None:
        return replace(process.failed, reason=f"{name} failed: {process.failed.reason}")
    return Failed(f"{name} {process.end_in_words()}")
