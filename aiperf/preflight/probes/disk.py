"""The folders that a node writes to: how much room there is, and how fast they are."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from aiperf.preflight.reading import MARK, Reading, Setting

BLOCK = 2**20


def folders(setting: Setting) -> dict[str, Path]:
    """Those that are looked at."""
    return {"run": setting.folder, "temporary": setting.temporary}


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes that this user may still write; and whether the run's folder is the one that the driver sees."""

    name: ClassVar[str] = "space"
    unit: ClassVar[str] = "bytes"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`."""
        free = {}
        for name, folder in folders(setting).items():
            told = os.statvfs(folder)
            free[name] = [float(told.f_bavail * told.f_frsize)]
        mark = setting.folder / MARK
        is_shared = mark.is_file() and mark.read_text() == setting.mark
        facts = {name: str(folder) for name, folder in folders(setting).items()} | {"is_shared": is_shared}
        return Reading(probe=self.name, unit=self.unit, series=free, facts=facts)


@dataclass(frozen=True, slots=True)
class DiskWrite:
    """Writing a file with fsync(2), in blocks of 1 MiB."""

    bytes: int
    repetitions: int = 3
    name: ClassVar[str] = "disk write"
    unit: ClassVar[str] = "B/s"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`."""
        series = {
            name: [_written(folder, self.bytes)[1] for _ in range(self.repetitions)]
            for name, folder in folders(setting).items()
        }
        return Reading(probe=self.name, unit=self.unit, series=series, facts={"file_bytes": self.bytes})


@dataclass(frozen=True, slots=True)
class DiskRead:
    """Reading such a file after the kernel was told to forget it. A file server may still have it in its own memory."""

    bytes: int
    repetitions: int = 3
    name: ClassVar[str] = "disk read"
    unit: ClassVar[str] = "B/s"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`."""
        series = {
            name: [_read(folder, self.bytes) for _ in range(self.repetitions)]
            for name, folder in folders(setting).items()
        }
        return Reading(probe=self.name, unit=self.unit, series=series, facts={"file_bytes": self.bytes})


def _written(folder: Path, size: int, *, then_read: bool = False) -> tuple[float | None, float]:
    """Rates of reading (where wanted) and of writing, of a file that is gone afterwards."""
    block = os.urandom(BLOCK)  # file systems that compress are not to gain by it
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        began = time.perf_counter()
        for _ in range(size // BLOCK):
            assert file.write(block) == BLOCK, "a short write"
        os.fsync(file.fileno())
        writing = size / (time.perf_counter() - began)
        if not then_read:
            return None, writing
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        began = time.perf_counter()
        while file.read(BLOCK):
            pass
        return size / (time.perf_counter() - began), writing


def _read(folder: Path, size: int) -> float:
    reading, _ = _written(folder, size, then_read=True)
    assert reading is not None
    return reading
