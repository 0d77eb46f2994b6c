"""Console of the library rich with sanitized texts. Only the control codes that rich adds reach the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from aiperf.sanitize import Unsanitized, sanitize_lines


class SanitizedConsole(Console):
    """Console (class of rich) for the standard streams. Control characters in texts are replaced."""

    @property
    def file(self) -> IO[str]:
        return Unsanitized(super().file)  # type: ignore[return-value,arg-type]

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(sanitize_lines(segment.text), segment.style)
