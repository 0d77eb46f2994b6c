"""What verifying comes to: findings, the checks that made them, and the whole of it. Values alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aiperf.accounting.score import Score

Certainty = Literal["contradiction", "cannot be determined"]
"""'contradiction': no run by these rules can have written both; 'cannot be determined': what is known does not settle it."""

MOST = 20
"""Findings of a check that are kept in words; the others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One law that a journal does not keep, or of which it cannot be determined here whether it keeps it."""

    check: str
    law: str
    found: str
    line: int | None
    """Of the journal, from 1. None: it is of no one line."""
    certainty: Certainty = "contradiction"


@dataclass(frozen=True, slots=True)
class Checked:
    """One check, and what came of it."""

    name: str
    law: str
    """What it holds a journal to, in a sentence."""
    examined: int
    """How many it has looked at."""
    unit: str
    """Of what."""
    of: int | None = None
    """How many there are, where a sample was looked at. None: all of them were."""
    not_checked: str | None = None
    """What was left out, and why. None: nothing was."""
    contradictions: int = 0
    untold: int = 0
    """Of which it cannot be determined here."""
    findings: tuple[Finding, ...] = ()
    """The first of them."""


@dataclass(frozen=True, slots=True)
class Verification:
    """A journal, verified."""

    path: str
    run: str | None
    """Its name, by the journal's first line. None: that cannot be read."""
    lines: int
    """Whole ones that were read."""
    chain: str
    """The last of them, by which the sample was drawn: whoever repeats it draws the same."""
    is_whole: bool
    """Whether every line could be read and follows from the one before it."""
    sample: tuple[int, ...]
    """Numbers of the proposals that were made again."""
    checks: tuple[Checked, ...]
    score: Score | None
    """Worked out again from the journal. None: it could not be."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of all checks, in their order."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def contradictions(self) -> int:
        """How many there are, those that are not reported in words included."""
        return sum(check.contradictions for check in self.checks)

    @property
    def untold(self) -> int:
        """Of how many things it cannot be determined here."""
        return sum(check.untold for check in self.checks)

    @property
    def is_sound(self) -> bool:
        """Whether nothing contradicts itself. What cannot be determined is no contradiction, and no proof either."""
        return not self.contradictions
