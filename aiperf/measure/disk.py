"""Probes of the two folders that a node writes to (run folder, temporary folder): free space, rates of writing and reading."""

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
AT_ONCE = 16
"""Nodes that measure a shared folder at the same time. Its file server divides its rate among them."""


def folders(setting: Setting) -> dict[str, Path]:
    """'run' is the folder that all nodes share, 'temporary' is on the node itself."""
    return {"run": setting.folder, "temporary": setting.temporary}


class FreeSpace:
    """Probe of the free space in bytes, and check that this node sees the same run folder as the driver (the main process)."""

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
class DiskRate:
    """Probe of the rate of a file access. `bytes`: size of the node's own file. `shared_bytes`: in the shared folder."""

    bytes: int
    shared_bytes: int
    repetitions: int = 3
    name: ClassVar[str]
    unit: ClassVar[str] = "B/s"

    def rate(self, file: FileIO, size: int) -> float:
        """Return bytes per second with one empty file and `size` bytes."""
        raise NotImplementedError

    def measure(self, setting: Setting) -> ProbeReading:
        series: dict[str, list[float]] = {}
        sizes = {"run": self.shared_bytes, "temporary": self.bytes}
        for name, folder in folders(setting).items():
            series[name] = []
            for _ in range(self.repetitions):
                with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                    series[name].append(self.rate(file, sizes[name]))
        return ProbeReading(probe=self.name, unit=self.unit, series=series, facts={"file_bytes": sizes})


class DiskWrite(DiskRate):
    """Probe of the rate of writing a file with fsync(2) at its end, in blocks of 1 MiB."""

    name: ClassVar[str] = "disk write"

    def rate(self, file: FileIO, size: int) -> float:
        return _written(file, size)


class DiskRead(DiskRate):
    """Probe of the rate of reading a file after the kernel dropped it from its page cache. A file server may still have it."""

    name: ClassVar[str] = "disk read"

    def rate(self, file: FileIO, size: int) -> float:
        _written(file, size)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        began = time.perf_counter()
        while file.read(BLOCK):
            pass
        return size / (time.perf_counter() - began)


def _written(file: FileIO, size: int) -> float:
    block = os.urandom(BLOCK)  # random, so that compression has no effect
    began = time.perf_counter()
    for _ in range(size // BLOCK):
        assert file.write(block) == BLOCK, "a short write"
    os.fsync(file.fileno())
    return size / (time.perf_counter() - began)
