"""Detection of hung ranks by repeated polling of their processes and heartbeats. No torch here.

Silent work is judged by proc(5): R, D, or bytes read. Libraries that wait for other ranks wake up now and then, so more than
half of the last polls must show activity. A wait for an accelerator may spin, and ranks therefore report it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from aiperf.system import processes
from aiperf.train.heartbeat import ON_DEVICE, OPEN_ENDED, STORAGE, HeartbeatFile, Stage
from aiperf.train.ranks.protocol import RankStatus

_BRIEF_SECONDS = 2.0
"""Shorter stages are not polled."""
STORAGE_SECONDS = 1800.0
"""Longest time of one request to a disk or a file server, in seconds. After it the storage is considered dead."""
_LOOKS = 10
_ENOUGH = 6
"""Horovod's thread wakes up about every millisecond and is observed awake in one poll of twenty."""


class ProcessProgress:
    """Activity of one rank's process and its children (compilers), judged from repeated polls."""

    def __init__(self, pid: int, now: float) -> None:
        self._pid = pid
        self._looks: deque[bool] = deque([True] * _LOOKS, maxlen=_LOOKS)
        self._read: tuple[tuple[str, ...], ...] = ()
        self._last = self._moved = now

    def look(self, stage: Stage, since: float, now: float) -> None:
        """In the first 2 s of a stage, and while the rank waits for a command, it counts as active without a poll."""
        if stage is Stage.IDLE or now - since < _BRIEF_SECONDS:  # earlier polls belong to another stage
            self._looks.extend([True] * _LOOKS)
            self._last = self._moved = now
            return
        family = list(processes.family(self._pid))
        read = tuple(processes.storage_reads(pid) for pid in family)
        states = "".join(processes.thread_states(pid) for pid in family)
        if read != self._read or "R" in states:
            self._moved = now
        waits = "D" in states and now - self._moved < STORAGE_SECONDS
        self._looks.append(self._moved == now or waits)
        self._read = read
        if sum(self._looks) >= _ENOUGH:
            self._last = now

    def quiet_for(self, now: float) -> float:
        """Seconds since at least 6 of the last 10 polls found the process active."""
        return now - self._last


OPEN_ENDED_FACTOR = 10
"""Limit of a stage that waits for an accelerator, as a multiple of the announced time (`trainer.start_seconds`)."""
DEVICE_STARTS, DEVICE_WAITS = 2, 10
"""Limit of one wait for a device: the larger of 2 × `trainer.start_seconds` and 10 × the rank's longest wait before."""


class Watch:
    """Detection of hung ranks of one start. It must be polled several times a second."""

    def __init__(self, heartbeats: HeartbeatFile, *, on_accelerators: bool = False, start_seconds: float = inf) -> None:
        """`on_accelerators`: ranks spin while they wait, so stages are limited to OPEN_ENDED_FACTOR × the announced time."""
        self._device_seconds = DEVICE_STARTS * start_seconds
        self._on_accelerators = on_accelerators
        self._heartbeats = heartbeats
        self._fewest = -1
        self._caught_up = 0.0
        """Time at which the last rank reached the exchange that the others wait in. Their own time begins then."""

    def hung(self, ranks: Sequence[RankStatus], seconds: float, now: float) -> tuple[int, str] | None:
        """Return (rank that hangs, its activity as text). None if no rank hangs.

        A rank hangs if it has been stopped (SIGSTOP) for `seconds`, or if it has been silent for longer than it announced
        while no other rank has reached fewer exchanges: ranks that are ahead become overdue without being the cause. In a
        stage without a known duration its process must also be without any activity for as long.
        """
        stages = self._heartbeats.stages()
        meetings = self._heartbeats.meetings()
        overdue = self._heartbeats.overdue(now)
        at_work = [status for status in ranks if stages[status.rank][0] is not Stage.IDLE]
        fewest = min((meetings[status.rank] for status in at_work), default=-1)
        if fewest != self._fewest:
            self._fewest, self._caught_up = fewest, now
        behind = {status.rank for status in at_work if meetings[status.rank] == fewest and self._is_late(status, now)}
        late = [rank for rank in overdue if rank in behind]
        late += [rank for rank in behind if rank not in late and self._waits_too_long(rank, now)]
        asleep = max(ranks, key=lambda status: status.stopped_seconds)
        if not late and asleep.stopped_seconds < seconds:
            return None
        if asleep.stopped_seconds > 0:
            return asleep.rank, f"is stopped (SIGSTOP or a debugger), {self._where(asleep.rank, now)}"
        rank = min(late, key=lambda each: (self._heartbeats.steps()[each], late.index(each)))
        where = self._where(rank, now)
        match stages[rank][0]:
            case _ if self._waits_too_long(rank, now):
                waited = now - self._heartbeats.device_wait(rank)[0]
                return rank, f"hangs: {where}, and its accelerator has not answered for {waited:.0f} s"
            case Stage.STEPS:
                return rank, f"hangs: no sign of life within the time it had announced, {where}"
            case _ if self._is_over_the_limit(rank, now):
                return rank, f"hangs: {where}, more than {OPEN_ENDED_FACTOR} × trainer.start_seconds"
            case stage if stage in STORAGE:
                return rank, f"waits for storage: {where}, and nothing moves there"
            case _:
                return rank, f"hangs: {where}, and nothing goes on in it"

    def slowest(self, now: float) -> tuple[int, str]:
        """Return (rank that is furthest behind, its activity as text). `now`: time.monotonic()."""
        stages, meetings = self._heartbeats.stages(), self._heartbeats.meetings()
        at_work = [rank for rank, (stage, _) in enumerate(stages) if stage is not Stage.IDLE] or list(
            range(len(stages))
        )
        rank = min(at_work, key=lambda each: (meetings[each], stages[each][1]))
        stage, since = stages[rank]
        storage = "waits for storage: it " if stage in STORAGE else ""
        return rank, f"{storage}{stage.doing} since {now - since:.0f} s"

    def _waits_too_long(self, rank: int, now: float) -> bool:
        since, longest = self._heartbeats.device_wait(rank)
        limit = max(self._device_seconds, DEVICE_WAITS * longest)
        return self._on_accelerators and now - max(since, self._caught_up) >= limit

    def _is_late(self, status: RankStatus, now: float) -> bool:
        if self._waits_too_long(status.rank, now):
            return True
        announced = self._heartbeats.announced()[status.rank]
        if now - self._caught_up < announced:
            return False
        is_open_ended = self._heartbeats.stages()[status.rank][0] in OPEN_ENDED
        return not is_open_ended or status.quiet_seconds >= announced or self._is_over_the_limit(status.rank, now)

    def _is_over_the_limit(self, rank: int, now: float) -> bool:
        stage, since = self._heartbeats.stages()[rank]
        limit = OPEN_ENDED_FACTOR * self._heartbeats.announced()[rank]
        return self._on_accelerators and stage in ON_DEVICE and now - max(since, self._caught_up) >= limit

    def _where(self, rank: int, now: float) -> str:
        stage, since = self._heartbeats.stages()[rank]
        if stage is Stage.STEPS or stage is Stage.IDLE:
            return f"at step {self._heartbeats.steps()[rank]}"
        return f"it {stage.doing} since {now - since:.0f} s"
