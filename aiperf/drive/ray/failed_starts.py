"""Rules for repeated starts of workers after failures, and for the end of a run without workers. Independent of Ray.

A place is tried again without limit, after pauses that double. Before the first worker is up the run ends if each place has
used its tries or has failed finally: no work is lost then. Later a failure at one place never ends the work at others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aiperf.drive.ray.slots import Slot
from aiperf.errors import AiperfError, NoWorkers


@dataclass(frozen=True, slots=True)
class StartLaw:
    """Limits of time and number for the starts of workers (process groups that train networks)."""

    tries: int = 3
    """Tries at each place before a run without workers ends."""
    first_pause_seconds: float = 10.0
    """Pause after the second failure in a row. The first failure is followed by another try at once."""
    longest_pause_seconds: float = 600.0
    long_life_seconds: float = 60.0
    """A worker that was up for this time resets the failures of its place."""
    place_seconds: float = 300.0
    """Limit for a worker's actor to get its place, from its request or from the last start of another actor on its
    node."""
    start_seconds: float = 3600.0
    """Limit for the start of a worker's ranks."""
    alone_seconds: float = 600.0
    """Maximum time of a run without any worker after all are lost."""

    def pause(self, failures: int) -> float:
        """Return the seconds from the last of `failures` consecutive failures at a place to the next try.

        >>> [StartLaw().pause(failures) for failures in (1, 2, 3, 4, 100)]
        [0.0, 10.0, 20.0, 40.0, 600.0]
        """
        if failures < 2:
            return 0.0
        # the exponent is bounded, or it overflows after a thousand failures
        return float(min(self.longest_pause_seconds, self.first_pause_seconds * 2 ** min(failures - 2, 64)))


@dataclass(frozen=True, slots=True)
class Failure:
    """Latest failures to start a worker at one place (node resources for one worker)."""

    count: int
    """Failures in a row."""
    at: float
    reason: str
    error: AiperfError | None
    """Error that the user can fix. None if no such error is known."""
    is_final: bool = False
    """True if the place must never be tried again."""


class Starts:
    """Record of failed starts at each place (node resources for one worker), for all workers of a run."""

    def __init__(self, law: StartLaw, now: float) -> None:
        """`law`: limits. `now`: current time. The time without a worker is counted from it."""
        self._law = law
        self._failures: dict[Slot, Failure] = {}
        self._has_been_up = False
        self._last_up = now
        self._last: Failure | None = None

    def up(self, now: float) -> None:
        """Record that at least one worker is up at time `now`."""
        self._has_been_up = True
        self._last_up = now

    def failed(
        self, slot: Slot, now: float, reason: str, error: AiperfError | None = None, *, is_final: bool = False
    ) -> Failure:
        """`error`: error that the user can fix, else None. `is_final`: the place must never be tried again."""
        before = self._failures.get(slot)
        self._last = Failure((before.count if before else 0) + 1, now, reason, error, is_final)
        self._failures[slot] = self._last
        return self._last

    def lost(self, slot: Slot, now: float, lived: float, reason: str, error: AiperfError | None) -> None:
        """Record the loss of a worker that was up for `lived` seconds. `error`: error that the user can fix, or None."""
        if lived >= self._law.long_life_seconds:
            self._failures.pop(slot, None)
        self.failed(slot, now, reason, error)

    def may(self, slot: Slot, now: float) -> bool:
        """Return True if a worker may be started at the place `slot` at `now`, in seconds of the clock of all calls."""
        failure = self._failures.get(slot)
        if failure is None:
            return True
        failures = failure.count
        if failure.error is not None and not self._has_been_up:
            failures = max(failures, self._law.tries)  # somebody has to fix it, and the others' fate may end the run
        return not failure.is_final and now - failure.at >= self._law.pause(failures)

    def hopeless(self, wanted: Collection[Slot], now: float) -> NoWorkers | None:
        """Return the error that ends the run because no worker can be started. None if the run may continue."""
        if self._has_been_up:
            return self._left_alone(now)
        if not wanted or not all(self._is_given_up(slot) for slot in wanted):
            return None  # a place that has used its tries is still tried again, without delaying others
        failures = [self._failures[slot] for slot in wanted]
        reasons = sorted({failure.reason for failure in failures})
        if len(reasons) == 1 and (error := failures[0].error) is not None:
            return NoWorkers(str(error))
        return NoWorkers(
            f"a run needs at least one worker, but none could be started at {len(failures)} places, in up to {self._law.tries} "
            f"tries at each. {'; '.join(reasons[:3])}{' …' if len(reasons) > 3 else ''}. Remove this cause, then resume the run"
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
        why = "no host can hold one" if self._last is None else f"last failure: {self._last.reason}"
        return NoWorkers(
            f"a run needs at least one worker, but all are lost, and none came up for {alone:.0f} s ({why}). "
            "Remove this cause, then resume the run"
        )
