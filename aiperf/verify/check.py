"""Base of the checks that verify a journal (the event log of a run), their findings, and the result of a verification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from aiperf.accounting.score import Score
from aiperf.journal.events import AnyEvent
from aiperf.rules.state import Run

Certainty = Literal["contradiction", "cannot be determined"]
"""'contradiction': no run can write both. 'cannot be determined': not decided by the journal on this machine."""

MOST = 20
"""Maximum number of findings of a check that are kept. The others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a journal breaks, or may break."""

    check: str
    """Name of the check."""
    law: str
    """Rule, as a sentence."""
    found: str
    """Content of the journal that breaks it."""
    line: int | None
    """Line of the journal, from 1. None if the finding is of no single line."""
    certainty: Certainty = "contradiction"


@dataclass(slots=True)
class CheckResult:
    """Result of one check of a journal, which adds its findings while it reads."""

    name: str
    law: str
    """Rule that the journal must keep, as a sentence."""
    unit: str
    """Noun for the examined objects, in plural."""
    examined: int = 0
    """Number of examined objects."""
    of: int | None = None
    """Number of all objects if a sample was examined. None if all were examined."""
    not_checked: str | None = None
    """Objects that were not examined, with the reason. None if all were examined."""
    contradictions: int = 0
    """Number of findings that are contradictions."""
    untold: int = 0
    """Number of findings that can be neither confirmed nor refuted from the journal."""
    findings: list[Finding] = field(default_factory=list)
    """Stored findings: the first few of each certainty. Later ones are only counted."""

    def add(
        self, line: int | None, found: str, certainty: Certainty = "contradiction", *, law: str | None = None
    ) -> None:
        """Count a finding (a rule that the journal breaks), and store it if fewer than MOST (20) of its certainty are stored.

        `line`: line of the journal, from 1, None for no single line. `found`: content of the journal that breaks the rule.
        `law`: rule that is broken, as a sentence, None for the rule of the check.
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
        """Return this result after the last line of the journal.

        If none of the existing objects was examined and no reason is given, a contradiction is added first.
        """
        if self.of and not self.examined and self.not_checked is None:
            self.add(None, f"0 of {self.of} {self.unit} were examined")
        return self


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a journal (the event log of a run)."""

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
        """Stored findings (broken rules), in the order of the checks: at most MOST (20) of each certainty per check."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def contradictions(self) -> int:
        """Number of contradictions (broken rules) found by all checks, including those that were counted but not stored."""
        return sum(check.contradictions for check in self.checks)

    @property
    def untold(self) -> int:
        """Number of findings of all checks that the journal can neither confirm nor refute on this machine."""
        return sum(check.untold for check in self.checks)

    @property
    def is_sound(self) -> bool:
        """True if no check found a contradiction. Findings that cannot be determined do not count."""
        return not self.contradictions


_Method = TypeVar("_Method", bound=Callable[..., None])


def handles(*kinds: type) -> Callable[[_Method], _Method]:
    """Return a decorator that marks a method of a check as the handler of events of these types.

    `kinds`: classes of journal events. `handlers` finds the marked methods.
    """

    def mark(method: _Method) -> _Method:
        method.kinds = kinds  # type: ignore[attr-defined]
        return method

    return mark


def handlers(of: object) -> Iterator[tuple[type, Callable[..., None]]]:
    """Yield (class of journal events, bound method) for each method of the class of `of` that is marked by `handles`.

    Inherited methods are left out.
    """
    for name, method in vars(type(of)).items():
        for kind in getattr(method, "kinds", ()):
            yield kind, getattr(of, name)


class Check(ABC):
    """Check of one rule of a journal. Methods marked by `handles` are called with (number of the line from 1, its event)."""

    _notes: CheckResult

    def checked(self) -> CheckResult:
        """Return the result of the check: examined objects and findings. Call this once, after the last line of a journal."""
        return self._notes.close()


class StateCheck(Check):
    """Check of a journal that examines each event together with the state of the run."""

    looks_at_epochs = False
    """True if `before` is called with EpochFinished too. Most lines of this pass are such events."""

    @abstractmethod
    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """Examine an event, and add findings to the result.

        `line`: its line in the journal, from 1. `run`: state of the run before the event.
        """
