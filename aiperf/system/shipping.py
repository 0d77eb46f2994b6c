"""Copy of telemetry from a host's own disk to the run's folder: whole lines, each once."""

from __future__ import annotations

import os
from pathlib import Path

BLOCK = 1 << 20


class IncrementalCopy:
    """Copy from a file that one recorder appends to, into a file with no other writer."""

    def __init__(self, local: Path, shared: Path) -> None:
        self.local = local
        self._shared = shared
        self._shipped = 0
        """Copied bytes of the local file."""

    def ship(self) -> None:
        """Append the new lines, up to the last complete line.

        Raises:
            OSError: if the file system rejects the write. The next call tries again. No line is written twice.
        """
        if not self.local.exists():
            return
        with self.local.open("rb") as recorded:
            recorded.seek(self._shipped)
            while lines := _whole_lines(recorded.read(BLOCK)):
                self._append(lines)
                self._shipped += len(lines)
                recorded.seek(self._shipped)

    def _append(self, lines: bytes) -> None:
        self._shared.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._shared, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            before = os.lseek(file, 0, os.SEEK_END)
            left = memoryview(lines)
            try:
                while left:
                    left = left[os.write(file, left) :]
            except OSError:
                os.ftruncate(file, before)
                raise
        finally:
            os.close(file)


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]
