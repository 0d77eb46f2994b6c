"""What a run keeps to: its schedule and its limits, as they are configured and as its first event says them.

So a journal alone says how the run had to be decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted
from aiperf.option_limits import LONGEST_SECONDS, hold


@dataclass
class ScheduleConf:
    """How long a run lasts, and how its rounds lengthen."""

    duration_seconds: float = field(default=43200.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """Length of the run, declared beforehand."""
    warmup_seconds: float = field(default=3600.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Where the valid window begins."""
    epochs: list[int] = field(
        default_factory=lambda: [15, 30, 45, 60], metadata={"least": 1, "most": 1_000_000, "fewest": 1}
    )
    """Most epochs of a worker's round 1, 2, …; the last holds for all rounds after."""
    patience: int = field(default=6, metadata={"least": 1, "most": 1_000_000, "unit": "epochs"})
    """Epochs without improvement after which a trial of round 1 ends."""
    patience_step: int = field(default=2, metadata={"least": 0, "most": 1_000_000, "unit": "epochs"})
    """Added with each round."""
    largest_patience: int = field(default=20, metadata={"least": 1, "most": 1_000_000, "unit": "epochs"})
    """Patience grows no further."""
    improvement: float = field(default=0.001, metadata={"least": 0, "most": 10})
    """By how much validation cross-entropy must fall to count as improved. It begins near ln(classes), 7 of 1000."""
    warmup_rounds: int = field(default=3, metadata={"least": 0, "most": 1_000_000})
    """Rounds after which tuning begins."""
    stop: str = field(default="duration", metadata={"among": ("duration", "converged")})
    """duration; converged: the run ends before that once its score has come to rest (docs/benchmark.md), and is not ranked."""
    stop_precision: float = field(default=0.01, metadata={"above": 0, "below": 1})
    """With stop=converged: half width of the score's 95 % interval, and difference of the window's halves, as shares of it."""
    stop_after_seconds: float = field(default=3600.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """With stop=converged: the least length of the valid window."""

    def __post_init__(self) -> None:
        hold(self, "schedule")

    def check(self) -> None:
        """Raises BadConfiguration for numbers that make no schedule together."""
        if sorted(self.epochs) != list(self.epochs):
            raise BadConfiguration(
                f"schedule.epochs are the rounds' limits, none below the one before; found {list(self.epochs)}: sort them"
            )
        if not self.warmup_seconds < self.duration_seconds:
            raise BadConfiguration(
                "a valid window lies between warm-up and end: schedule.warmup_seconds < schedule.duration_seconds; "
                f"found {self.warmup_seconds:g} and {self.duration_seconds:g}: lengthen the run, or shorten its warm-up"
            )
        if self.stop == "converged" and self.warmup_seconds + self.stop_after_seconds >= self.duration_seconds:
            raise BadConfiguration(
                "a run can converge before its declared end: schedule.warmup_seconds + schedule.stop_after_seconds < "
                f"schedule.duration_seconds; found {self.warmup_seconds:g} + {self.stop_after_seconds:g} and "
                f"{self.duration_seconds:g}: lower schedule.stop_after_seconds, or leave schedule.stop out"
            )


@dataclass
class LimitsConf:
    """What bounds a run besides its time."""

    spares: int = field(default=1, metadata={"least": 0, "most": 100})
    """Proposals that stand by for each worker, for trials that end without warning or before the next proposal is there. They
    are asked for once a trial of the run has finished, and anew when they are used."""
    attempts: int = field(default=3, metadata={"least": 1, "most": 1_000_000})
    """Attempts of a trial that may end with its worker; then it is given up."""
    silence_seconds: float = field(default=600.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """A worker that says nothing for so long while it trains is regarded as gone."""
    rejections: int = field(default=100, metadata={"least": 1, "most": 1_000_000})
    """After so many requests of one worker in a row that came to nothing it asks once more for each trial that finishes. When
    that holds for all workers and nothing is under way, the search has nothing left to propose, and the run ends."""
    trials: int | None = field(default=None, metadata={"least": 1})
    """End after so many finished trials; none: with the time alone."""
    progress_seconds: float = field(default=5.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """How long an interval of work is to last, about; longer where there are many workers (progress_per_second)."""
    progress_per_second: float = field(default=50.0, metadata={"least": 0.01, "most": 1_000_000})
    """So many intervals a second, of all workers together, are not exceeded by much: with more workers intervals widen."""

    def __post_init__(self) -> None:
        hold(self, "limits")


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
