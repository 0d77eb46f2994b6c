"""Check of the end of a run with `schedule.stop=converged`: apply the rule again to the work reported so far.

The driver applies the rule at configured times to the work reported by then. It ends the run at the first of these times at
which the score has converged. An end at any other time contradicts the rule, and so does a run that continues.
"""

from __future__ import annotations

from aiperf.accounting.convergence import ConvergenceResult, StopRule, rest_at
from aiperf.accounting.work_log import WorkLog
from aiperf.errors import AiperfError
from aiperf.journal.events import EpochFinished, Progress, RunEnded, RunResumed, RunStarted, WorkerJoined, WorkerLost
from aiperf.rules.limits import LimitsConf, limits_of, progress_seconds, schedule_of
from aiperf.units import share
from aiperf.verify.check import Check, CheckResult, handles

LAW = "a run ends as converged if and only if schedule.stop=converged and the score converged by the work reported until then"
LATE_SECONDS = 120.0
"""Longest delay of the driver's own test in seconds. After it, the test was not made."""


class Converged(Check):
    """Check the time at which a run ended as converged."""

    def __init__(self, work_log: WorkLog) -> None:
        """Keep `work_log`: the work of all lines before the current one."""
        self._work_log = work_log
        self._notes = CheckResult("convergence", LAW, "tests")
        self._rule: StopRule | None = None
        self._limits: LimitsConf | None = None
        self._duration = 0.0
        self._workers: set[int] = set()
        self._tested: float | None = None
        """Time of the last test in seconds."""
        self._reached: tuple[float, float] | None = None
        """Time of a test with a converged score, and time of the line from which the driver could know."""

    @handles(RunStarted)
    def _started(self, line: int, event: RunStarted) -> None:
        try:
            schedule, self._limits = schedule_of(event), limits_of(event)
        except (AiperfError, LookupError, ValueError) as error:
            self._notes.not_checked = f"this release cannot read the schedule ({error})"
            return
        self._duration = event.duration_seconds
        if schedule.stop == "converged":
            self._rule = StopRule(event.warmup_seconds, schedule.stop_after_seconds, schedule.stop_precision)

    @handles(WorkerJoined)
    def _joined(self, line: int, event: WorkerJoined) -> None:
        self._workers.add(event.worker)

    @handles(WorkerLost)
    def _lost(self, line: int, event: WorkerLost) -> None:
        self._workers.discard(event.worker)

    @handles(RunResumed)
    def _resumed(self, line: int, event: RunResumed) -> None:
        self._workers.clear()
        # The new driver starts its tests again.
        self._tested = self._reached = None

    @handles(Progress, EpochFinished)
    def _interval(self, line: int, event: Progress | EpochFinished) -> None:
        if self._rule is None:
            return
        if self._reached is not None and event.at - self._reached[1] > LATE_SECONDS:
            # A driver's turn writes several lines. Its test may have used more than the lines before the first of them.
            (look, _), self._reached = self._reached, None
            if self._rest(look).is_reached:
                self._notes.add(
                    line, f"the score had converged at {look:g} s, but the run continues at {event.at:.3f} s"
                )
        due = self._last_look(event.at)
        if due is not None and due != self._tested:
            self._tested = due
            self._notes.examined += 1
            if self._rest(due).is_reached:
                self._reached = (due, event.at)

    @handles(RunEnded)
    def _ended(self, line: int, event: RunEnded) -> None:
        self._reached = None
        if event.reason != "converged":
            return
        if self._rule is None:
            if self._limits is not None:
                self._notes.add(line, "it ended as converged, but its configuration has schedule.stop=duration")
            return
        # The driver read its clock after the previous line, and before it wrote this one.
        looks = {self._last_look(self._work_log.at), self._last_look(event.at)}
        tests = [self._rest(look) for look in looks if look is not None]
        self._notes.examined += 1
        if not any(rest.is_reached for rest in tests):
            found = "no test was due" if not tests else "; ".join(map(_description, tests))
            self._notes.add(line, f"it ended as converged at {event.at:.3f} s; {found}")

    def _last_look(self, at: float) -> float | None:
        """Return the time of the last test before `at` for which all work had been reported, or None."""
        assert self._rule is not None and self._limits is not None, "checked by the caller"
        reported_until = at - 2 * progress_seconds(self._limits, len(self._workers))
        return self._rule.last_look(min(reported_until, self._duration))

    def _rest(self, look: float) -> ConvergenceResult:
        assert self._rule is not None, "checked by the caller"
        return rest_at(self._work_log, self._rule, look)


def _description(rest: ConvergenceResult) -> str:
    half = "none" if rest.half_width is None else share(rest.half_width, 2)
    return (
        f"at {rest.window.end:g} s the half width of the interval is {half} of the score, the halves of the window differ by "
        f"{share(abs(rest.drift), 2)}, allowed {share(rest.precision, 2)}; workers still in rounds 1 to 3: "
        f"{rest.in_short_rounds}"
    )
