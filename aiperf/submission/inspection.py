"""Result of the inspection of a submission: findings and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aiperf.ranking.division import Division
from aiperf.submission.archive import MOST_BYTES
from aiperf.submission.published import Announced
from aiperf.verify.sample import DEFAULT

Outcome = Literal["good", "bad", "note"]
"""'bad': impossible in an honest submission of these runs. 'note': important for the reader, or not checkable."""
SignedBy = Literal["good", "unsigned", "unknown key", "bad signature", "not checked"]
"""'unknown key': valid, but the key is not among the allowed signers. 'not checked': valid, without a list of allowed
signers."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """Further requirements on a submission."""

    signers: Path | None = None
    """File of allowed signers (`read_allowed`). Default: any key may sign."""
    source: Path | None = None
    """Checkout of the runs' sources. Default: the sources of this installation."""
    sample: int | None = DEFAULT
    """Number of recomputed proposals per run. None for all."""
    division: Division | None = None
    """Division whose rules each run must keep. Default: count the broken rules of the ranking."""
    most_bytes: int = MOST_BYTES
    """Largest unpacked size in bytes."""


@dataclass(frozen=True, slots=True)
class InspectionFinding:
    """Result of one check."""

    check: str
    outcome: Outcome
    text: str
    run: str | None = None
    """Name of the run. None for the whole submission."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of the inspection of a submission."""

    path: str
    sha256: str
    """SHA-256 of the file."""
    signature: SignedBy | None
    """None if the submission was rejected before the check of its signature."""
    key: str | None
    """Fingerprint of the signing key."""
    signers: tuple[str, ...]
    """Owners of the key in the list of allowed signers."""
    release: str | None
    """Release that created the submission."""
    runs: tuple[str, ...]
    announced: Announced | None
    """None without a log of announcements."""
    findings: tuple[InspectionFinding, ...]
    used: tuple[tuple[str, str, str], ...] = ()
    """Announcements of the runs: id, run and SHA-256 of the journal."""

    @property
    def is_good(self) -> bool:
        """True without a bad finding."""
        return all(finding.outcome != "bad" for finding in self.findings)
