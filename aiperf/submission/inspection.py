"""What inspecting a submission comes to: findings, and the verdict. Values alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aiperf.ranking.division import Division
from aiperf.submission.allowed import Signers
from aiperf.submission.archive import MOST_BYTES
from aiperf.submission.published import Announced
from aiperf.verify.sample import DEFAULT

Outcome = Literal["good", "bad", "note"]
"""'bad': no honest submission of these runs shows it; 'note': what a reader must know, or what could not be told."""
SignedBy = Literal["good", "unsigned", "unknown key", "bad signature", "nobody asked for"]
"""'unknown key': the signature is good, and the list of allowed signers does not have its key; 'nobody asked for': it is good,
and there was no such list to hold its key against."""


@dataclass(frozen=True, slots=True)
class HeldTo:
    """What a submission is held to, beside itself."""

    signers: Signers | None = None
    """Who may sign. None: nobody says."""
    source: Path | None = None
    """A checkout of the sources that the runs are said to be of. None: those that run here."""
    sample: int | None = DEFAULT
    """Proposals of each run that are made again. None: all."""
    division: Division | None = None
    """Whose rules each run must keep. None: how many of the ranking's are broken is told."""
    most_bytes: int = MOST_BYTES
    """What may be unpacked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    outcome: Outcome
    text: str
    run: str | None = None
    """The run that it is about; None: the whole submission."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """A submission, judged."""

    path: str
    sha256: str
    """Of its file."""
    signature: SignedBy | None
    """None: it was refused before that was looked at."""
    key: str | None
    """Fingerprint of the key that signed."""
    signers: tuple[str, ...]
    """Whose key that is, by the list of allowed signers."""
    release: str | None
    """That made it."""
    runs: tuple[str, ...]
    announced: Announced | None
    """None: it holds no log of announcements."""
    findings: tuple[Finding, ...]

    @property
    def is_good(self) -> bool:
        """Whether nothing bad was found."""
        return all(finding.outcome != "bad" for finding in self.findings)
