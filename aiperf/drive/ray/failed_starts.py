"""Which places get another try after what became of the tries before, and when there is no hope left. Knows no Ray.

A place is tried again however often it has failed, after pauses that double. Before the first worker is up, the run ends as
soon as every place has had its tries, or has failed of an error that the user can fix: no work is lost by it, and the user
learns of it at once. Once a worker is up, what happens at one place never ends the work at the others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aiperf.drive.ray.slots import Slot
from aiperf.errors import AiperfError, NoWorkers


@dataclass(frozen=True, slots=True)
class StartLaw:
    """How often, and for how long, a worker is tried for."""

    tries: int = 3
    """At each place, before a run without any worker is given up."""
    first_pause_seconds: float = 10.0
    """After the second failure in a row; the first is followed by another try at once."""
    longest_pause_seconds: float = 600.0
    long_life_seconds: float = 60.0
    """A worker that was up for so long did not fail of its start: its place is as good as new."""
    place_seconds: float = 300.0
    """A worker's actor may take so long to get its place."""
    start_seconds: float = 3600.0
    """And its ranks so long to stand. They have shorter limits of their own; this is for a process that was stopped."""
    alone_seconds: float = 600.0
    """A run whose workers are all gone waits so long for another."""
    at_once: int = 64
    """So many actors may wait for their places at a time: each is a process, and the head starts them all."""
    crowd_seconds: float = 10.0
    """One that has waited so long counts no more among those: a node without room keeps nobody else from starting."""

    def pause(self, failures: int) -> float:
        """Seconds between the last of so many failures in a row and the next try.

        >>> [StartLaw().pause(failures) for failures in (1, 2, 3, 4, 100)]
        [0.0, 10.0, 20.0, 40.0, 600.0]
        """
        if failures < 2:
            return 0.0
        # the exponent is bounded, or it overflows after a thousand failures
        return float(min(self.longest_pause_seconds, self.first_pause_seconds * 2 ** min(failures - 2, 64)))


@dataclass(frozen=True, slots=True)
class Failure:
    """What became of the last tries at a place."""

    count: int
    """In a row."""
    at: float
    reason: str
    error: AiperfError | None
    """The error that the user can fix; None: no such error is known."""
    is_final: bool = False
    """The place is never tried again."""


class Starts:
    """The tries at each place. Times are of any one clock."""

    def __init__(self, law: StartLaw, now: float) -> None:
        self._law = law
        self._failures: dict[Slot, Failure] = {}
        self._has_been_up = False
        self._last_up = now
        self._last: Failure | None = None

    def up(self, now: float) -> None:
        """At least one worker is up."""
        self._has_been_up = True
        self._last_up = now

    def failed(
        self, slot: Slot, now: float, reason: str, error: AiperfError | None = None, *, is_final: bool = False
    ) -> Failure:
        """A worker did not come up, was not wanted as it is, or was gone after a short life."""
        before = self._failures.get(slot)
        self._last = Failure((before.count if before else 0) + 1, now, reason, error, is_final)
        self._failures[slot] = self._last
        return self._last

    def lost(self, slot: Slot, now: float, lived: float, reason: str, error: AiperfError | None) -> None:
        """A worker that was up for `lived` seconds is gone."""
        if lived >= self._law.long_life_seconds:
            self._failures.pop(slot, None)
        self.failed(slot, now, reason, error)

    def may(self, slot: Slot, now: float) -> bool:
        """Whether a worker is to be tried for there now."""
        failure = self._failures.get(slot)
        if failure is None:
            return True
        failures = failure.count
        if failure.error is not None and not self._has_been_up:
            failures = max(failures, self._law.tries)  # somebody has to fix it, and the others' fate may end the run
        return not failure.is_final and now - failure.at >= self._law.pause(failures)

    def hopeless(self, wanted: Collection[Slot], now: float) -> NoWorkers | None:
        """Why the run cannot go on, if so. `wanted`: all places there are. Of one error that the user can fix it has the
        words: whatever the error, the run has begun, and stops as one without workers does, with its report."""
        if self._has_been_up:
            return self._left_alone(now)
        if not wanted or not all(self._is_given_up(slot) for slot in wanted):
            return None  # a place that has had its tries is tried again, and keeps nobody waiting
        failures = [self._failures[slot] for slot in wanted]
        reasons = sorted({failure.reason for failure in failures})
        if len(reasons) == 1 and (error := failures[0].error) is not None:
            return NoWorkers(str(error))
        return NoWorkers(
            f"a run needs at least one worker; none could be started at {len(failures)} places, in up to {self._law.tries} "
            f"tries at each. {'; '.join(reasons[:3])}{' …' if len(reasons) > 3 else ''}"
        )

    def _is_given_up(self, slot: Slot) -> bool:
        failure = self._failures.get(slot)
        return failure is not None and (
            failure.is_final or failure.error is not None or failure.count >= self._law.tries
        )

    def _left_alone(self, now: float) -> NoWorkers | None:
        alone = now - self._last_up
        if alone < self._law.alone_seconds:
            return None
        why = "no host holds one" if self._last is None else f"the last: {self._last.reason}"
        return NoWorkers(f"a run needs at least one worker; all are gone, and for {alone:.0f} s none came up ({why})")
