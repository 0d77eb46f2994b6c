"""The moment at which a run's score came to rest (`schedule.stop=converged`): the rule is asked again, of the work so far.

The driver asks at moments that stand in the configuration, of what it had been told by then, and ends the run at the first of
them at which the score has come to rest. So an end at another moment was chosen, and so was going on.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.accounting.convergence import Rest, StopRule, rest_at
from aiperf.accounting.work_log import WorkLog
from aiperf.errors import AiperfError
from aiperf.journal.events import EpochFinished, Progress, RunEnded, RunResumed, RunStarted, WorkerJoined, WorkerLost
from aiperf.rules.limits import LimitsConf, limits_of, progress_seconds, schedule_of
from aiperf.units import share
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "a run with schedule.stop=converged ends when its score has come to rest, by the work told until then, and no other does"
LATE_SECONDS = 120.0
"""A driver that is asked later than that, by everything that its clock shows, did not ask."""


class Converged:
    """A check."""

    def __init__(self, work_log: WorkLog) -> None:
        """`work_log`: of the lines before the one that is shown."""
        self._work_log = work_log
        self._notes = Notes("convergence", LAW, "looks")
        self._rule: StopRule | None = None
        self._limits: LimitsConf | None = None
        self._duration = 0.0
        self._workers: set[int] = set()
        self._asked: float | None = None
        """The last look."""
        self._reached: tuple[float, float] | None = None
        """A look at which the score had come to rest, and the line's time from which that was known."""

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {
            RunStarted: self._started,
            WorkerJoined: self._joined,
            WorkerLost: self._lost,
            RunResumed: self._resumed,
            Progress: self._interval,
            EpochFinished: self._interval,
            RunEnded: self._ended,
        }

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        try:
            schedule, self._limits = schedule_of(event), limits_of(event)
        except (AiperfError, LookupError, ValueError) as error:
            self._notes.not_checked = f"the schedule is none of this release ({error})"
            return
        self._duration = event.duration_seconds
        if schedule.stop == "converged":
            self._rule = StopRule(event.warmup_seconds, schedule.stop_after_seconds, schedule.stop_precision)

    def _joined(self, line: int, event: WorkerJoined) -> None:
        self._workers.add(event.worker)

    def _lost(self, line: int, event: WorkerLost) -> None:
        self._workers.discard(event.worker)

    def _resumed(self, line: int, event: RunResumed) -> None:
        self._workers.clear()
        # Another driver, which asks anew.
        self._asked = self._reached = None

    def _interval(self, line: int, event: Progress | EpochFinished) -> None:
        if self._rule is None:
            return
        if self._reached is not None and event.at - self._reached[1] > LATE_SECONDS:
            # What a turn hears of together is told in several lines: it may have seen more than stood before the first.
            (look, _), self._reached = self._reached, None
            if self._rest(look).is_reached:
                self._notes.add(
                    line, LAW, f"the score had come to rest at {look:g} s, and the run goes on at {event.at:.3f} s"
                )
        due = self._last_look(event.at)
        if due is not None and due != self._asked:
            self._asked = due
            self._notes.examined += 1
            if self._rest(due).is_reached:
                self._reached = (due, event.at)

    def _ended(self, line: int, event: RunEnded) -> None:
        self._reached = None
        if event.reason != "converged":
            return
        if self._rule is None:
            if self._limits is not None:
                self._notes.add(line, LAW, "it ended as converged; its configuration has schedule.stop=duration")
            return
        # The driver looked at its clock after the line before, and before it wrote this one.
        looks = {self._last_look(self._work_log.at), self._last_look(event.at)}
        seen = [self._rest(look) for look in looks if look is not None]
        self._notes.examined += 1
        if not any(rest.is_reached for rest in seen):
            found = "no look at it was due" if not seen else "; ".join(map(_words, seen))
            self._notes.add(line, LAW, f"it ended as converged at {event.at:.3f} s; {found}")

    def _last_look(self, at: float) -> float | None:
        """The last look that the rule has before this time, of which all work had been told."""
        assert self._rule is not None and self._limits is not None, "its caller has looked"
        told = at - 2 * progress_seconds(self._limits, len(self._workers))
        return self._rule.last_look(min(told, self._duration))

    def _rest(self, look: float) -> Rest:
        assert self._rule is not None, "its caller has looked"
        return rest_at(self._work_log, self._rule, look)


def _words(rest: Rest) -> str:
    half = "none" if rest.half_width is None else share(rest.half_width, 2)
    return (
        f"at {rest.window.end:g} s the half width of its interval is {half} of the score and the halves of its window are "
        f"{share(abs(rest.drift), 2)} apart, allowed {share(rest.precision, 2)}"
    )
