"""Probes of the folders that a node writes to: free space and speed."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import ClassVar

from aiperf.measure.probe import MARK, ProbeReading, Setting

BLOCK = 2**20


def folders(setting: Setting) -> dict[str, Path]:
    return {"run": setting.folder, "temporary": setting.temporary}


@dataclass(frozen=True, slots=True)
class Space:
    """Free bytes for this user, and the check that the run's folder is the driver's."""

    name: ClassVar[str] = "space"
    unit: ClassVar[str] = "bytes"

    def measure(self, setting: Setting) -> ProbeReading:
        free = {}
        for name, folder in folders(setting).items():
            usage = os.statvfs(folder)
            free[name] = [float(usage.f_bavail * usage.f_frsize)]
        mark = setting.folder / MARK
        is_shared = mark.is_file() and mark.read_text() == setting.mark
        facts = {name: str(folder) for name, folder in folders(setting).items()} | {"is_shared": is_shared}
        return ProbeReading(probe=self.name, unit=self.unit, series=free, facts=facts)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Rate with a file of `bytes` bytes, several times in each folder."""

    bytes: int
    repetitions: int = 3
    name: ClassVar[str]
    unit: ClassVar[str] = "B/s"

    def rate(self, file: FileIO) -> float:
        """Return the rate with one empty file, in bytes per second."""
        raise NotImplementedError

    def measure(self, setting: Setting) -> ProbeReading:
        series: dict[str, list[float]] = {}
        for name, folder in folders(setting).items():
            series[name] = []
            for _ in range(self.repetitions):
                with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                    series[name].append(self.rate(file))
        return ProbeReading(probe=self.name, unit=self.unit, series=series, facts={"file_bytes": self.bytes})


@dataclass(frozen=True, slots=True)
class DiskWrite(_Rates):
    """Rate of writing a file with fsync(2), in blocks of 1 MiB."""

    name: ClassVar[str] = "disk write"

    def rate(self, file: FileIO) -> float:
        return _written(file, self.bytes)


@dataclass(frozen=True, slots=True)
class DiskRead(_Rates):
    """Rate of reading a file after dropping it from the page cache. A file server may still have it in memory."""

    name: ClassVar[str] = "disk read"

    def rate(self, file: FileIO) -> float:
        _written(file, self.bytes)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        began = time.perf_counter()
        while file.read(BLOCK):
            pass
        return self.bytes / (time.perf_counter() - began)


def _written(file: FileIO, size: int) -> float:
    """Write the file. Return bytes per second."""
    block = os.urandom(BLOCK)  # random, so that compression has no effect
    began = time.perf_counter()
    for _ in range(size // BLOCK):
        assert file.write(block) == BLOCK, "a short write"
    os.fsync(file.fileno())
    return size / (time.perf_counter() - began)
