"""The folders that a node writes to: how much room there is, and how fast they are."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from io import FileIO
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
class _Rates:
    """A file of so many bytes, several times in each folder."""

    bytes: int
    repetitions: int = 3
    name: ClassVar[str]
    unit: ClassVar[str] = "B/s"

    def rate(self, file: FileIO) -> float:
        """Of one file, which is empty."""
        raise NotImplementedError

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`."""
        series: dict[str, list[float]] = {}
        for name, folder in folders(setting).items():
            series[name] = []
            for _ in range(self.repetitions):
                with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                    series[name].append(self.rate(file))
        return Reading(probe=self.name, unit=self.unit, series=series, facts={"file_bytes": self.bytes})


@dataclass(frozen=True, slots=True)
class DiskWrite(_Rates):
    """Writing a file with fsync(2), in blocks of 1 MiB."""

    name: ClassVar[str] = "disk write"

    def rate(self, file: FileIO) -> float:
        """Bytes a second."""
        return _written(file, self.bytes)


@dataclass(frozen=True, slots=True)
class DiskRead(_Rates):
    """Reading such a file after the kernel was told to forget it. A file server may still have it in its own memory."""

    name: ClassVar[str] = "disk read"

    def rate(self, file: FileIO) -> float:
        """Bytes a second."""
        _written(file, self.bytes)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        began = time.perf_counter()
        while file.read(BLOCK):
            pass
        return self.bytes / (time.perf_counter() - began)


def _written(file: FileIO, size: int) -> float:
    """Writes the file; bytes a second."""
    block = os.urandom(BLOCK)  # file systems that compress are not to gain by it
    began = time.perf_counter()
    for _ in range(size // BLOCK):
        assert file.write(block) == BLOCK, "a short write"
    os.fsync(file.fileno())
    return size / (time.perf_counter() - began)
