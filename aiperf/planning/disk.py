"""What a run writes under its folder, part by part, and whether the place it is to lie in takes that.

Estimates, each from something that is known before a run: the network's parameters, the length of the run, its workers. What a
file system does not tell (a quota of one user, most of them) is found out by the run.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.files import shown, what_is_wrong_with
from aiperf.units import count, size

BYTES_PER_PARAMETER = 8
"""Of a checkpoint: weight and momentum, FP32 each."""
BYTES_PER_PROGRESS = 440
"""Of the journal's commonest line; others, of epochs and trials, take half as much again."""
PROGRESS_SECONDS = 5.0
"""Between two of them of a worker, and more where there are many workers: workers / 50."""
BYTES_PER_SAMPLE = 280
"""Of telemetry: a device and second."""
BYTES_OF_A_REPORT = 6_000_000
FILES_OF_A_REPORT = 24
TRIED = 4096
"""Bytes that are written to find out whether anything can be."""


@dataclass(frozen=True, slots=True)
class DiskNeeds:
    """Bytes, and files."""

    checkpoints: int
    """All that are kept, at the size of the first network."""
    grown: int
    """The same once networks have grown as far as the budget lets them."""
    journal: int
    telemetry: int
    report: int
    workers: int
    """That journal and telemetry are reckoned for."""
    files: int
    kept: int
    """Checkpoints."""

    @property
    def least(self) -> int:
        """Without the growth of networks."""
        return self.checkpoints + self.journal + self.telemetry + self.report

    @property
    def most(self) -> int:
        """With it. Besides, each trial in training has a checkpoint or two of its own."""
        return self.grown + self.journal + self.telemetry + self.report


@dataclass(frozen=True, slots=True)
class Room:
    """What a file system has free for this user."""

    at: Path
    """The nearest folder that is there."""
    bytes: int
    files: int | None
    """None: it keeps no count of them."""


def disk_needs(*, parameters: int, growth: float, kept: int, seconds: float, workers: int, devices: int) -> DiskNeeds:
    """Of a run of so long a time; `kept`: checkpoints; `devices`: a worker's that are sampled each second.

    >>> disk_needs(parameters=1000, growth=4, kept=10, seconds=3600, workers=2, devices=2).journal
    950400
    """
    every = max(PROGRESS_SECONDS, workers / 50)
    checkpoints = kept * BYTES_PER_PARAMETER * parameters
    return DiskNeeds(
        checkpoints=checkpoints,
        grown=math.ceil(growth * checkpoints),
        journal=math.ceil(1.5 * BYTES_PER_PROGRESS * workers * seconds / every),
        telemetry=math.ceil(BYTES_PER_SAMPLE * workers * devices * seconds),
        report=BYTES_OF_A_REPORT,
        workers=workers,
        files=kept + 2 * workers + FILES_OF_A_REPORT,
        kept=kept,
    )


def require_place(runs: str, option: str = "runs", typed: str = "runs=FOLDER") -> Room:
    """Tries whether the folder of all runs can be made and written: a file is, and goes again. Gives what is free there.
    `option`: that names the folder, and as it is `typed`.

    Raises:
        BadConfiguration: it cannot; the message names the part of the path that is in the way.
    """
    at = _nearest(Path(runs).absolute(), runs, option, typed)
    tried: str | None = None
    try:
        tried = tempfile.mkdtemp(prefix=".aiperf-tried-", dir=at)
        with (Path(tried) / "file").open("wb") as file:
            file.write(bytes(TRIED))
            file.flush()
            os.fsync(file.fileno())
        free = os.statvfs(at)
    except OSError as error:
        raise BadConfiguration(
            f"{option} is a folder that is written, and made where it is not there; {shown(at)} takes nothing "
            f"({error.strerror}): make room, let this user write there, or name another ({typed})"
        ) from error
    finally:
        if tried is not None:
            shutil.rmtree(tried, ignore_errors=True)
    return Room(at, free.f_bavail * free.f_frsize, free.f_favail if free.f_files else None)


def _nearest(path: Path, runs: str, option: str, typed: str) -> Path:
    for place in (path, *path.parents):
        wrong = what_is_wrong_with(place)
        if wrong == "a directory":
            return place
        if wrong != "not there":
            raise BadConfiguration(
                f"{option} is a folder, made where it is not there; of {shown(runs)} {shown(place)} is {wrong or 'a file'}: "
                f"name another ({typed})"
            )
    raise AssertionError("the root of all folders is there")


def require_room(needs: DiskNeeds, room: Room) -> None:
    """Raises BadConfiguration where not even a run whose networks never grow would fit."""
    if needs.least > room.bytes:
        raise BadConfiguration(
            f"a run's folder holds what it writes, some {size(needs.least)} or more ({in_words(needs)}); {shown(room.at)} has "
            f"{size(room.bytes)} free: make room, or name another place (runs=FOLDER)"
        )
    if room.files is not None and needs.files > room.files:
        raise BadConfiguration(
            f"a run's folder holds its files, some {count(needs.files)}; {shown(room.at)} can take {count(room.files)} more "
            "(inodes): remove some, or name another place (runs=FOLDER)"
        )


def in_words(needs: DiskNeeds) -> str:
    """The parts of an estimate."""
    workers = "1 worker" if needs.workers == 1 else f"{count(needs.workers)} workers"
    return (
        f"of {workers} journal {size(needs.journal)} and telemetry {size(needs.telemetry)}; report {size(needs.report)}; "
        f"{count(needs.files)} files; checkpoints {size(needs.checkpoints)} ({needs.kept} kept), up to {size(needs.grown)} "
        "as networks grow; besides, those of trials in training"
    )
