"""What recorders left beside a journal: the files of telemetry, and those of them that a check looks at."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from aiperf.system.log import files
from aiperf.verify.check import Notes

FOLDER = "telemetry"


def telemetry_files(run: Path) -> list[Path]:
    """The files of a run's folder, in their order."""
    return files(run / FOLDER)


def looked_into(run: Path, numbers: Collection[int], notes: Notes, without: str) -> list[Path]:
    """Those that are looked at: `numbers` of all. What is left out is noted, `without` where there is none at all."""
    there = telemetry_files(run)
    chosen = [file for place, file in enumerate(there) if place in numbers]
    if not there:
        notes.not_checked = without
    elif len(chosen) < len(there):
        notes.not_checked = f"{len(there) - len(chosen)} of {len(there)} files (--all)"
    return chosen
