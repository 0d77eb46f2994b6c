"""What a run keeps to: its schedule and its limits, as they are configured and as its first event says them.

So a journal alone says how the run had to be decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted


@dataclass
class ScheduleConf:
    """How long a run lasts, and how its rounds lengthen."""

    duration_seconds: float = 43200.0
    """Length of the run, declared beforehand."""
    warmup_seconds: float = 3600.0
    """Where the valid window begins."""
    epochs: list[int] = field(default_factory=lambda: [15, 30, 45, 60])
    """Most epochs of a worker's round 1, 2, …; the last holds for all rounds after."""
    patience: int = 6
    """Epochs without improvement after which a trial of round 1 ends."""
    patience_step: int = 2
    """Added with each round."""
    largest_patience: int = 20
    """Patience grows no further."""
    improvement: float = 0.001
    """By how much validation cross-entropy must fall to count as improved."""
    warmup_rounds: int = 3
    """Rounds after which tuning begins."""
    stop: str = "duration"
    """duration; converged: the run ends before that once its score has come to rest (docs/benchmark.md), and is not ranked."""
    stop_precision: float = 0.01
    """With stop=converged: half width of the score's 95 % interval, and difference of the window's halves, as shares of it."""
    stop_after_seconds: float = 3600.0
    """With stop=converged: the least length of the valid window."""

    def check(self) -> None:
        """Raises BadConfiguration for a number that makes no schedule."""
        if not self.epochs or min(self.epochs) < 1 or sorted(self.epochs) != list(self.epochs):
            raise BadConfiguration(
                "schedule.epochs are the rounds' limits, each at least 1 and none below the one before; "
                f"found {list(self.epochs)}"
            )
        if not 0 <= self.warmup_seconds < self.duration_seconds:
            raise BadConfiguration(
                "a valid window lies between warm-up and end: 0 <= schedule.warmup_seconds < schedule.duration_seconds; "
                f"found {self.warmup_seconds:g} and {self.duration_seconds:g}"
            )
        self._check_stop()
        if self.patience < 1 or self.patience_step < 0 or self.largest_patience < 1 or self.warmup_rounds < 0:
            raise BadConfiguration("schedule: patience and largest_patience are at least 1, the others at least 0")

    def _check_stop(self) -> None:
        if self.stop not in ("duration", "converged"):
            raise BadConfiguration(f"schedule.stop is 'duration' or 'converged'; found {self.stop!r}")
        if not 0 < self.stop_precision < 1:
            raise BadConfiguration(f"schedule.stop_precision lies between 0 and 1; found {self.stop_precision!r}")
        if not self.stop_after_seconds > 0:
            raise BadConfiguration(f"schedule.stop_after_seconds is above 0; found {self.stop_after_seconds!r}")
        if self.stop == "converged" and self.warmup_seconds + self.stop_after_seconds >= self.duration_seconds:
            raise BadConfiguration(
                "a run can converge before its declared end: schedule.warmup_seconds + schedule.stop_after_seconds < "
                f"schedule.duration_seconds; found {self.warmup_seconds:g} + {self.stop_after_seconds:g} and "
                f"{self.duration_seconds:g}: lower schedule.stop_after_seconds, or leave schedule.stop out"
            )


@dataclass
class LimitsConf:
    """What bounds a run besides its time."""

    spares: int = 1
    """Proposals that stand by for each worker, for trials that end without warning or before the next proposal is there. They
    are asked for once a trial of the run has finished, and anew when they are used."""
    attempts: int = 3
    """Attempts of a trial that may end with its worker; then it is given up."""
    silence_seconds: float = 600.0
    """A worker that says nothing for so long while it trains is regarded as gone."""
    rejections: int = 100
    """After so many requests of one worker in a row that came to nothing it asks once more for each trial that finishes. When
    that holds for all workers and nothing is under way, the search has nothing left to propose, and the run ends."""
    trials: int | None = None
    """End after so many finished trials; none: with the time alone."""
    progress_seconds: float = 5.0
    """How long an interval of work is to last, about; longer where there are many workers (progress_per_second)."""
    progress_per_second: float = 50.0
    """So many intervals a second, of all workers together, are not exceeded by much: with more workers intervals widen."""

    def check(self) -> None:
        """Raises BadConfiguration for a number that makes no run."""
        if self.spares < 0:
            raise BadConfiguration(f"limits.spares is at least 0; found {self.spares!r}")
        for name in ("attempts", "rejections", "trials"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise BadConfiguration(f"limits.{name} is at least 1; found {number!r}")
        for name in ("silence_seconds", "progress_seconds", "progress_per_second"):
            if not getattr(self, name) > 0:
                raise BadConfiguration(f"limits.{name} is above 0; found {getattr(self, name)!r}")


def limits_of(started: RunStarted) -> LimitsConf:
    """The limits that the configuration in the journal's first line sets.

    One of rules 1 to 3 has `buffer` instead of `spares`, how many proposals were always made ahead: it decided when they were
    asked for and nothing that a reader looks at, and no run of those rules is gone on with.
    """
    return msgspec.convert(started.config["limits"], LimitsConf)


def schedule_of(started: RunStarted) -> ScheduleConf:
    """The schedule that the configuration in the journal's first line sets. When the run ends, and where its window begins, the
    line says itself."""
    schedule = msgspec.convert(started.config["schedule"], ScheduleConf)
    schedule.check()
    return schedule


def progress_seconds(limits: LimitsConf, workers: int) -> float:
    """How long a worker's intervals are to last, about: max(5 s, workers/50 s) unless the configuration says otherwise.

    Epochs that are shorter than that have one interval each, whatever the number of workers.
    """
    return max(limits.progress_seconds, workers / limits.progress_per_second)
