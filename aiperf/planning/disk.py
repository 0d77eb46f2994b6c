"""Estimate of the disk space that a run needs in its folder, and the check that the file system has it."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from aiperf.config import RunConf
from aiperf.data.description import DataSet
from aiperf.errors import BadConfiguration, explained
from aiperf.files import shown, what_is_wrong_with
from aiperf.rules.changes import RETAINED
from aiperf.units import counted, size
from morphism import Architecture, cost_of

BYTES_PER_VALUE = 4
"""Bytes of a checkpoint for each weight and each moment of the optimiser: FP32."""
BYTES_PER_PROGRESS = 440
"""Bytes of a Progress line in the journal. Lines of epochs and trials add half as much."""
BYTES_PER_EPOCH = 1000
"""Bytes in the journal per epoch: its line, the line of its checkpoint, and its share of the trial's lines."""
BYTES_OF_FIRST_LINE = 10_000
PROGRESS_SECONDS = 5.0
"""Time between Progress lines of a worker. With many workers it is longer: workers / 50."""
BYTES_PER_SAMPLE = 40
"""Bytes of telemetry per device and second, packed, with its share of the minute."""
BYTES_OF_A_REPORT = 6_000_000
KEPT = RETAINED + 1
"""Stored checkpoints of finished trials: the best that can grow, and the best that cannot."""
FLOPS_PER_ACCELERATOR = 50e12
FLOPS_WITHOUT = 100e9
"""Speeds of a worker from which the length of an epoch is estimated."""
SLOWER = 20
"""Epochs of a run that ends by `limits.trials` may take this many times the estimate: its length is not declared."""
SHORTEST_EPOCH_SECONDS = 0.1
"""Least length of an epoch: a small network on an accelerator waits for its steps, its validation and its checkpoint."""
TRIED = 4096
"""Bytes of the test file."""


@dataclass(frozen=True, slots=True)
class DiskNeeds:
    """Estimated bytes in the folder of a run: checkpoints, journal and telemetry. The report (6 MB) is not included."""

    kept: int
    """Number of kept checkpoints of finished trials."""
    checkpoints: int
    """All kept checkpoints, at the size of the first network."""
    grown: int
    """All kept checkpoints after networks have grown to the limit of the budget."""
    journal: int
    telemetry: int
    workers: int
    """Number of workers of the estimate for journal and telemetry."""


def disk_needs(conf: RunConf, network: Architecture, data: DataSet, accelerators: int, workers: int) -> DiskNeeds:
    """Return the estimated disk space of a run in bytes, by part."""
    counted, trials = cost_of(network), conf.limits.trials
    epoch_flops = counted.epoch_flops(data.training_images, data.validation_images)
    epoch_seconds = max(SHORTEST_EPOCH_SECONDS, epoch_flops / (FLOPS_PER_ACCELERATOR * accelerators or FLOPS_WITHOUT))
    length = conf.schedule.duration_seconds
    if trials is not None:
        length = min(length, SLOWER * trials * max(conf.schedule.epochs) * epoch_seconds)
    seconds = workers * length
    every = max(PROGRESS_SECONDS, workers / 50)
    kept = KEPT if trials is None else min(KEPT, trials)
    checkpoints = kept * BYTES_PER_VALUE * (1 + counted.moments) * counted.parameters
    journal = seconds * (1.5 * BYTES_PER_PROGRESS / every + BYTES_PER_EPOCH / epoch_seconds)
    return DiskNeeds(
        checkpoints=checkpoints,
        kept=kept,
        grown=checkpoints if trials == 1 else math.ceil(conf.budget.factor * checkpoints),
        journal=math.ceil(BYTES_OF_FIRST_LINE + journal),
        telemetry=math.ceil(BYTES_PER_SAMPLE * (1 + accelerators) * seconds),
        workers=workers,
    )


def require_place(runs: str) -> Path:
    at = _nearest(Path(runs).absolute(), runs)
    fix = "Free space, grant this user write access, or choose another folder: runs=FOLDER"
    with (
        explained(at, "cannot be written", fix),
        tempfile.TemporaryDirectory(prefix=".aiperf-tried-", dir=at, ignore_cleanup_errors=True) as tried,
        (Path(tried) / "file").open("wb") as file,
    ):
        file.write(bytes(TRIED))
        file.flush()
        os.fsync(file.fileno())
    return at


def _nearest(path: Path, runs: str) -> Path:
    for place in (path, *path.parents):
        wrong = what_is_wrong_with(place)
        if wrong == "a directory":
            return place
        if wrong != "not there":
            raise BadConfiguration(
                f"runs must be a folder, which is created if needed. In {shown(runs)}, {shown(place)} is "
                f"{wrong or 'a file'}: choose another (runs=FOLDER)"
            )
    raise AssertionError("the root of all folders is there")


def require_room(needs: DiskNeeds, at: Path) -> None:
    """Raise BadConfiguration if a file system has less free space than a run and its report (6 MB) need."""
    free, least = shutil.disk_usage(at).free, needs.checkpoints + needs.journal + needs.telemetry + BYTES_OF_A_REPORT
    if least > free:
        raise BadConfiguration(
            f"the run needs about {size(least)} or more in its folder ({in_words(needs)}). {shown(at)} has "
            f"{size(free)} free: free space, or choose another folder (runs=FOLDER)"
        )


def in_words(needs: DiskNeeds) -> str:
    """Return the estimated disk space of a run as one line of text: journal, telemetry, report and checkpoints, as '1.2 GB'."""
    return (
        f"journal of {counted(needs.workers, 'worker')} {size(needs.journal)} and telemetry {size(needs.telemetry)}; "
        f"report {size(BYTES_OF_A_REPORT)}; "
        f"checkpoints {size(needs.checkpoints)} ({needs.kept} kept)"
        + (f", up to {size(needs.grown)} as networks grow" if needs.grown > needs.checkpoints else "")
        + "; checkpoints of trials in training are additional"
    )
