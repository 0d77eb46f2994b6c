"""Warning of a run: text, severity and remedy. Terminal, page and JSON show all three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["note", "warning", "critical"]
"""note: information. warning: the run was slower than the machine allows. critical: results may be wrong, or accelerators were
missing."""


@dataclass(frozen=True, slots=True)
class RunWarning:
    """Warning about a run: text, severity and remedy."""

    text: str
    severity: Severity
    remedy: str
    """Fix, as a sentence without a full stop: `run it on a machine of its own`."""

    @property
    def lines(self) -> tuple[str, str]:
        """Two lines of text for a terminal: 'SEVERITY: TEXT' and '  to do: REMEDY'."""
        return f"{self.severity}: {self.text}", f"  to do: {self.remedy}"

    def __post_init__(self) -> None:
        assert self.text and self.remedy, f"a warning has a text and a remedy, but found {self!r}"
