"""The way in for readers of telemetry: what was recorded, what it adds up to, what there is to doubt.

telemetry = summarise_folder(run / "telemetry", window=(3600.0, 7200.0))
for doubt in doubts(telemetry, Limits()): ...
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

from aiperf.system.course import Course, together
from aiperf.system.doubts import Doubt, Limits, died, doubts
from aiperf.system.log import Damage, Sample, Session, files, path, read, read_file
from aiperf.system.summary import DamagedFile, DeviceTelemetry, Telemetry, WorkerTelemetry, summarise

__all__ = [
    "Course",
    "Damage",
    "DamagedFile",
    "DeviceTelemetry",
    "Doubt",
    "Limits",
    "Sample",
    "Session",
    "Telemetry",
    "WorkerTelemetry",
    "died",
    "doubts",
    "path",
    "read",
    "summarise",
    "summarise_folder",
]


def summarise_folder(folder: Path, window: tuple[float, float], processes: int = 1) -> Telemetry:
    """`summarise(read(folder), window)`, the workers' files shared out among processes.

    4096 workers of 8 accelerators write 1.4e9 lines in 12 hours, hours of reading for one process.
    """
    if processes == 1:
        return summarise(read(folder), window)
    # Spawned and not forked: the one who asks may hold threads, as a driver does.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(partial(_summarise_file, window), files(folder)))
    return Telemetry(
        window=window,
        workers=tuple(chain.from_iterable(part.workers for part in parts)),
        devices=tuple(chain.from_iterable(part.devices for part in parts)),
        damaged=tuple(chain.from_iterable(part.damaged for part in parts)),
        courses=together(chain.from_iterable(part.courses for part in parts)),
    )


def _summarise_file(window: tuple[float, float], file: Path) -> Telemetry:
    return summarise(read_file(file), window)
