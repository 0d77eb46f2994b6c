"""Result of a verification: findings, checks and totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aiperf.accounting.score import Score

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


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    name: str
    law: str
    """Law that the journal must keep, as a sentence."""
    examined: int
    """Number of examined objects."""
    unit: str
    """Noun for the examined objects, in plural."""
    of: int | None = None
    """Number of all objects if a sample was examined. None if all were examined."""
    not_checked: str | None = None
    """Objects that were not examined, with the reason. None if all were examined."""
    contradictions: int = 0
    untold: int = 0
    """Number of findings that cannot be determined."""
    findings: tuple[Finding, ...] = ()
    """First findings."""


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
        """Return the findings of all checks, in the order of the checks."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def contradictions(self) -> int:
        """Return the number of contradictions, including those that were only counted."""
        return sum(check.contradictions for check in self.checks)

    @property
    def untold(self) -> int:
        """Return the number of findings that cannot be determined."""
        return sum(check.untold for check in self.checks)

    @property
    def is_sound(self) -> bool:
        """Return True without a contradiction. A finding that cannot be determined is neither contradiction nor proof."""
        return not self.contradictions
