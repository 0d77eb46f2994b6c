"""What a check is: it is shown the lines that it looks at, keeps what it finds, and says at the end what it has looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aiperf.verify.finding import MOST, Certainty, Checked, Finding

Handler = Callable[[int, Any], None]
"""Takes a line's number, from 1, and its event; the run, where a check has one, stands as it stood before it."""


class Check(Protocol):
    """One kind of law."""

    def handlers(self) -> Mapping[type, Handler]:
        """What it does with which event. An event that is not here it is not shown."""
        ...

    def checked(self) -> Checked:
        """What came of it, once all lines were shown."""
        ...


class Notes:
    """The findings of one check while it goes on."""

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
        """One more finding."""
        self._counts[certainty] += 1
        if self._counts[certainty] <= MOST:
            self._findings.append(Finding(self.name, law, found, line, certainty))

    def checked(self) -> Checked:
        """All that was noted."""
        return Checked(
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
