"""The supervisor's watch over its ranks: who of them hangs, look by look. No torch here."""

from __future__ import annotations

from collections.abc import Sequence

from aiperf.train.ranks.any_rank import AnyRank
from aiperf.train.ranks.heartbeat import HeartbeatFile
from aiperf.train.ranks.process_progress import AnyProgress
from aiperf.train.stages import DOING, OPEN_ENDED, STORAGE, Stage


class Watch:
    """Over the ranks of one start. To be asked several times a second."""

    def __init__(self, heartbeats: HeartbeatFile, progress: Sequence[AnyProgress]) -> None:
        """`progress`: of the ranks' processes, by rank, which somebody looks at (`process_progress.look_at`)."""
        self._heartbeats = heartbeats
        self._progress = progress
        self._fewest = -1
        self._caught_up = 0.0
        """When the rank that was behind came to where the others wait: their own time begins then."""

    def hung(self, processes: Sequence[AnyRank], seconds: float, now: float) -> tuple[int, str] | None:
        """The rank that hangs and how, None when all are alive.

        Hung is who has been stopped for so many `seconds`, or is silent for longer than it announced while no other is behind
        it. Who is at something that takes as long as it takes (a slow file system, a compiler) is silent only when nothing at
        all has gone on in it for as long. Ranks wait for each other in each exchange: those that have come further are overdue
        too, perhaps earlier, and no cause, whatever the one behind them takes its time for.
        """
        stages, meetings, overdue = (
            self._heartbeats.stages(),
            self._heartbeats.meetings(),
            self._heartbeats.overdue(now),
        )
        at_work = [process.rank for process in processes if stages[process.rank][0] is not Stage.IDLE]
        fewest = min((meetings[rank] for rank in at_work), default=-1)
        if fewest != self._fewest:
            self._fewest, self._caught_up = fewest, now
        late = [rank for rank in overdue if rank in at_work and meetings[rank] == fewest and self._is_late(rank, now)]
        stopped = {process.rank: process.stopped_for(now) for process in processes}
        asleep = max(stopped, key=lambda rank: stopped[rank])
        if not late and stopped[asleep] < seconds:
            return None
        if stopped[asleep] > 0:
            return asleep, f"is stopped (SIGSTOP or a debugger), {self._where(asleep, now)}"
        rank = min(late, key=lambda each: (self._heartbeats.steps()[each], late.index(each)))
        where = self._where(rank, now)
        match stages[rank][0]:
            case Stage.STEPS:
                return rank, f"hangs: no sign of life within the time it had announced, {where}"
            case stage if stage in STORAGE:
                return rank, f"waits for storage: {where}, and nothing moves there"
            case _:
                return rank, f"hangs: {where}, and nothing goes on in it"

    def slowest(self, now: float) -> tuple[int, str]:
        """The rank that is furthest behind, and what it is at."""
        stages, meetings = self._heartbeats.stages(), self._heartbeats.meetings()
        at_work = [rank for rank, (stage, _) in enumerate(stages) if stage is not Stage.IDLE] or list(
            range(len(stages))
        )
        rank = min(at_work, key=lambda each: (meetings[each], stages[each][1]))
        stage, since = stages[rank]
        storage = "waits for storage: it " if stage in STORAGE else ""
        return rank, f"{storage}{DOING[stage]} since {now - since:.0f} s"

    def _is_late(self, rank: int, now: float) -> bool:
        announced = self._heartbeats.announced()[rank]
        if now - self._caught_up < announced:
            return False
        is_open_ended = self._heartbeats.stages()[rank][0] in OPEN_ENDED
        return not is_open_ended or self._progress[rank].quiet_for(now) >= announced

    def _where(self, rank: int, now: float) -> str:
        stage, since = self._heartbeats.stages()[rank]
        if stage is Stage.STEPS or stage is Stage.IDLE:
            return f"at step {self._heartbeats.steps()[rank]}"
        return f"it {DOING[stage]} since {now - since:.0f} s"
