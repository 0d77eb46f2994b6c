"""Base of a check, its findings, and the result of a verification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from aiperf.accounting.score import Score
from aiperf.journal.events import AnyEvent
from aiperf.rules.state import Run

Certainty = Literal["contradiction", "cannot be determined"]
"""'contradiction': no run by these rules can write both. 'cannot be determined': not settled by the journal on this machine."""

MOST = 20
"""Maximum number of findings of a check that are kept. The others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A law that a journal breaks, or may break."""

    check: str
    law: str
    found: str
    line: int | None
    """Line of the journal, from 1. None if the finding is of no single line."""
    certainty: Certainty = "contradiction"


@dataclass(slots=True)
class CheckResult:
    """Result of one check, which adds its findings while it reads."""

    name: str
    law: str
    """Law that the journal must keep, as a sentence."""
    unit: str
    """Noun for the examined objects, in plural."""
    examined: int = 0
    """Number of examined objects."""
    of: int | None = None
    """Number of all objects if a sample was examined. None if all were examined."""
    not_checked: str | None = None
    """Objects that were not examined, with the reason. None if all were examined."""
    contradictions: int = 0
    untold: int = 0
    """Number of findings that can be neither confirmed nor refuted from the journal."""
    findings: list[Finding] = field(default_factory=list)
    """Stored findings: the first few of each certainty. Later ones are only counted."""

    def add(
        self, line: int | None, found: str, certainty: Certainty = "contradiction", *, law: str | None = None
    ) -> None:
        """Count a finding, and store it if it is one of the first few of its certainty.

        `line`: line of the journal, from 1, or None. `found`: what the journal has instead. `law`: default: the check's law.
        """
        if certainty == "contradiction":
            self.contradictions += 1
            number = self.contradictions
        else:
            self.untold += 1
            number = self.untold
        if number <= MOST:
            self.findings.append(Finding(self.name, law or self.law, found, line, certainty))

    def close(self) -> CheckResult:
        """Return this result. A check that examined 0 of more than 0 objects without a reason first gets a contradiction."""
        if self.of and not self.examined and self.not_checked is None:
            self.add(None, f"0 of {self.of} {self.unit} were examined")
        return self


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a journal."""

    path: str
    run: str | None
    """Name in the journal's first line. None if the line cannot be read."""
    lines: int
    """Number of complete lines read."""
    chain: str
    """Hash of the last line. It determines the sample, so a repetition draws the same sample."""
    is_whole: bool
    """True if every line is readable and has the hash that follows from the previous line."""
    sample: tuple[int, ...]
    """Numbers of the recomputed proposals."""
    checks: tuple[CheckResult, ...]
    score: Score | None
    """Score recomputed from the journal. None if it could not be computed."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings that the checks kept (at most MOST of each certainty per check), in the order of the checks."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def contradictions(self) -> int:
        """Number of contradictions of all checks, including those that were counted but not stored."""
        return sum(check.contradictions for check in self.checks)

    @property
    def untold(self) -> int:
        """Number of findings of all checks that can be neither confirmed nor refuted from the journal."""
        return sum(check.untold for check in self.checks)

    @property
    def is_sound(self) -> bool:
        """True if there is no contradiction. A finding that cannot be determined does not count as one."""
        return not self.contradictions


_Method = TypeVar("_Method", bound=Callable[..., None])


def handles(*kinds: type) -> Callable[[_Method], _Method]:
    """Return a decorator that marks a method as the handler of these event types."""

    def mark(method: _Method) -> _Method:
        method.kinds = kinds  # type: ignore[attr-defined]
        return method

    return mark


def handlers(of: object) -> Iterator[tuple[type, Callable[..., None]]]:
    """Yield (event type, bound method) for each marked method of an object."""
    for name, method in vars(type(of)).items():
        for kind in getattr(method, "kinds", ()):
            yield kind, getattr(of, name)


class Check(ABC):
    """Check of one kind of law. Its methods marked by `handles` receive the number of a line, from 1, and its event."""

    _notes: CheckResult

    def checked(self) -> CheckResult:
        """Return the result of the check. Call this after the last line."""
        return self._notes.close()


class StateCheck(Check):
    """Check that examines events together with the run's state."""

    looks_at_epochs = False
    """True to receive ends of epochs, which are most lines of this pass."""

    @abstractmethod
    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """Examine an event, and add findings to the result. `line`: from 1. `run`: state before the event."""
