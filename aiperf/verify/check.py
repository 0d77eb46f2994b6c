"""Base of a check: it receives the lines that it examines, keeps its findings, and returns a result at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from aiperf.verify.finding import MOST, Certainty, CheckResult, Finding

Handler = Callable[[int, Any], None]
"""Receives the number of a line, from 1, and its event."""


class Notes:
    """Findings of a check in progress."""

    def __init__(self, name: str, law: str, unit: str) -> None:
        self.name = name
        self.law = law
        self.unit = unit
        self.examined = 0
        self.of: int | None = None
        self.not_checked: str | None = None
        self._findings: list[Finding] = []
        self._counts: dict[Certainty, int] = {"contradiction": 0, "cannot be determined": 0}

    def add(self, line: int | None, law: str, found: str, certainty: Certainty = "contradiction") -> None:
        """Add a finding. Only the first ones of each certainty are kept, all are counted."""
        self._counts[certainty] += 1
        if self._counts[certainty] <= MOST:
            self._findings.append(Finding(self.name, law, found, line, certainty))

    def checked(self) -> CheckResult:
        """Return the result. A check that examined 0 of more than 0 without a reason is a contradiction."""
        if self.of and not self.examined and self.not_checked is None:
            self.add(None, self.law, f"0 of {self.of} {self.unit} were examined")
        return CheckResult(
            name=self.name,
            law=self.law,
            examined=self.examined,
            unit=self.unit,
            of=self.of,
            not_checked=self.not_checked,
            contradictions=self._counts["contradiction"],
            untold=self._counts["cannot be determined"],
            findings=tuple(self._findings),
        )


class Check(ABC):
    """Check of one kind of law."""

    _notes: Notes

    @abstractmethod
    def handlers(self) -> Mapping[type, Handler]:
        """Return the handler of each event type that this check examines."""

    def checked(self) -> CheckResult:
        """Return the result. Call it after the last line."""
        return self._notes.checked()
