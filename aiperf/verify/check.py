"""Base of the checks of a journal, their findings, and the result of a verification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args, get_type_hints

from aiperf.accounting.score import Score
from aiperf.journal import events
from aiperf.journal.events import AnyEvent
from aiperf.rules.state import Run

Certainty = Literal["contradiction", "cannot be determined"]
"""'contradiction': no run can write both. 'cannot be determined': not decided by the journal on this machine."""

MOST = 20
"""Maximum number of findings of a check that are kept. The others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    law: str
    found: str
    line: int | None
    certainty: Certainty = "contradiction"


@dataclass(slots=True)
class CheckResult:
    name: str
    law: str
    unit: str
    """Noun for the examined objects, in plural."""
    examined: int = 0
    of: int | None = None
    """Number of all objects if a sample was examined. None if all were examined."""
    not_checked: str | None = None
    """Objects that were not examined, with the reason. None if all were examined."""
    contradictions: int = 0
    untold: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(
        self, line: int | None, found: str, certainty: Certainty = "contradiction", *, law: str | None = None
    ) -> None:
        """Count a finding, and store the first MOST of each certainty. `law`: the broken rule, None for that of the check."""
        if certainty == "contradiction":
            self.contradictions += 1
            number = self.contradictions
        else:
            self.untold += 1
            number = self.untold
        if number <= MOST:
            self.findings.append(Finding(self.name, law or self.law, found, line, certainty))

    def close(self) -> CheckResult:
        """Return this result. A check that examined nothing of what exists, without a reason, is a contradiction."""
        if self.of and not self.examined and self.not_checked is None:
            self.add(None, f"0 of {self.of} {self.unit} were examined")
        return self


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a journal (the event log of a run)."""

    path: str
    run: str | None
    lines: int
    chain: str
    """Hash of the last line. It determines the sample, so a repetition draws the same sample."""
    is_whole: bool
    """True if every line is readable and has the hash that follows from the previous line."""
    sample: tuple[int, ...]
    checks: tuple[CheckResult, ...]
    score: Score | None
    """Score recomputed from the journal. None if it could not be computed."""
    has_seals: bool
    """True if the journal has the SHA-256 of a checkpoint, so that weights must show the quality."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def contradictions(self) -> int:
        return sum(check.contradictions for check in self.checks)

    @property
    def untold(self) -> int:
        return sum(check.untold for check in self.checks)

    @property
    def is_sound(self) -> bool:
        return not self.contradictions


def handlers(of: object) -> Iterator[tuple[type, Callable[..., None]]]:
    """Yield (class of event, bound method) of the own methods on_… of an object, by the type of their argument `event`."""
    for name, method in vars(type(of)).items():
        if name.startswith("on_"):
            kind = get_type_hints(method)["event"]
            yield from ((each, getattr(of, name)) for each in get_args(kind) or (kind,))


class Check(ABC):
    """Check of one rule. Methods on_… are called with (number of the line from 1, its event)."""

    _notes: CheckResult

    def checked(self) -> CheckResult:
        return self._notes.close()


class StateCheck(Check):
    looks_at_epochs = False
    """True if `before` is called with EpochFinished too. Most lines of this pass are such events."""

    @abstractmethod
    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """Examine an event. `run`: state before it."""


def whole_epoch(images: int, batch_size: int, ranks: int) -> int:
    """Return the number of training images that an epoch processes, which fill whole steps.

    `images`: size of the training set. `batch_size`: images per rank and step. A set smaller than one step is one step
    (docs/benchmark.md).

    >>> whole_epoch(1000, 128, 2), whole_epoch(100, 128, 2)
    (768, 100)
    """
    step = batch_size * ranks
    return images // step * step or images


@dataclass(slots=True)
class OpenAttempt:
    """Attempt that runs, or that was lost and is not retried yet."""

    worker: int
    ranks: int
    batch_size: int
    batches: set[int]
    """All batch sizes of the attempt. The message of an epoch's end may arrive after that of a smaller batch."""
    worked: float
    """End of its last interval in seconds. Before the first: time of its preparation or order."""
    has_worked: bool = False
    training_images: int = 0
    """Training images in the current epoch so far."""
    validation_images: int = 0
    received: float = 0.0
    """Time of its last message in seconds, as seen by the driver's rules."""


@dataclass(slots=True)
class Attempts:
    """Running attempts by trial, before the current line. After its checks, pass each event to `handlers(attempts)`."""

    running: dict[int, OpenAttempt] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    """Ranks of each worker, also of lost ones."""
    skipped: int = 0
    """Known corrupt images."""

    def on_received(
        self,
        event: events.CheckpointWritten | events.CheckpointNotWritten | events.TrialHeartbeat | events.StepsProfiled,
    ) -> None:
        self.running[event.trial].received = event.at

    def on_progress(self, event: events.Progress) -> None:
        attempt = self.running[event.trial]
        attempt.worked, attempt.has_worked, attempt.received = event.end, True, event.at
        attempt.training_images += event.training_images
        attempt.validation_images += event.validation_images

    def on_epoch(self, event: events.EpochFinished) -> None:
        attempt = self.running[event.trial]
        if event.interval is not None:
            attempt.worked, attempt.has_worked = event.interval.end, True
        attempt.training_images = attempt.validation_images = 0
        attempt.received = event.at

    def on_started(self, event: events.TrialStarted) -> None:
        ranks, batch = self.ranks[event.worker], event.batch_size
        self.running[event.trial] = OpenAttempt(event.worker, ranks, batch, {batch}, event.at, received=event.at)

    def on_prepared(self, event: events.TrialPrepared) -> None:
        attempt = self.running[event.trial]
        attempt.ranks, attempt.received = event.ranks, event.at
        if not attempt.has_worked:
            attempt.worked = event.at

    def on_reduced(self, event: events.BatchReduced) -> None:
        attempt = self.running[event.trial]
        attempt.batch_size = event.to_batch_size
        attempt.batches.add(event.to_batch_size)
        attempt.received = event.at
        attempt.training_images = attempt.validation_images = 0

    def on_joined(self, event: events.WorkerJoined) -> None:
        self.ranks[event.worker] = event.ranks

    def on_skipped(self, event: events.ImagesSkipped) -> None:
        self.skipped = max(self.skipped, event.images)
