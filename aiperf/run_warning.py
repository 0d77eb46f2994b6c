"""A warning of a run: what is odd, how bad that is, and what a reader does about it. There is none without the last.

Terminal, page and JSON have all three; whoever makes one says them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["note", "warning", "critical"]
"""note: worth knowing; warning: slower than the machine could be; critical: results may be wrong, or accelerators were gone."""


@dataclass(frozen=True, slots=True)
class RunWarning:
    """One warning."""

    text: str
    severity: Severity
    remedy: str
    """What to do, as a sentence without a stop: `run it on a machine of its own`."""

    @property
    def lines(self) -> tuple[str, str]:
        """For a terminal: what is odd, and below it what to do."""
        return f"{self.severity}: {self.text}", f"  to do: {self.remedy}"

    def __post_init__(self) -> None:
        assert self.text and self.remedy, f"a warning says what is odd and what to do; found {self!r}"
