"""Audit of a run's quality (accuracy or mean average precision): a kept checkpoint is evaluated again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from aiperf.accounting.average_precision import ImageDetections
from aiperf.accounting.valid_flops import quality_epoch
from aiperf.accounting.work_log import WorkLog
from aiperf.atomic_files import replace_file
from aiperf.config import from_plain
from aiperf.data.dataset_config import DataSetConf, FolderConf
from aiperf.data.survey import held_to
from aiperf.errors import BadConfiguration, conflict
from aiperf.given_file import fault_of, read_json
from aiperf.journal.journal import folding, read
from aiperf.rules.evolve import replay
from aiperf.rules.search_space import space_of
from aiperf.train.checkpoints.checkpoint import DamagedCheckpoint, NoCheckpoint
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS, CheckpointFolder, sealed_file
from aiperf.train.trained_network import evaluate
from aiperf.units import ACCURACIES, IMAGE, noun
from morphism import decode_morph, rebuilt

TOLERATED_IMAGES = 1
"""Images whose class may change with the device, the batch or the order of sums."""
TOLERATED_PRECISION = 1e-3
"""Difference of the mAP that has the same causes."""
TOLERATED_REGIONS = 0.01
"""Share of the evaluated regions that has the same causes."""
LARGEST = 256 << 20
"""Bytes of a file: 4 million boxes."""
_Truth = tuple[float, float, float, float, int]
_Found = tuple[float, float, float, float, float, int]


@dataclass(frozen=True, slots=True)
class QualityAudit:
    run: str
    trial: int
    epoch: int
    metric: str
    images: int
    precision: str
    device: str
    quality_in_journal: float
    quality_again: float
    loss_in_journal: float | None
    loss_again: float | None
    regions_in_journal: int = 0
    """Regions that a detector evaluated."""
    regions_again: int = 0
    samples: str = IMAGE.many
    """Noun of what was evaluated."""

    @property
    def differing_images(self) -> int | None:
        """Difference between the numbers of correctly classified images in both evaluations, rounded. None for a detector."""
        if self.metric not in ACCURACIES:
            return None
        return round(abs(self.quality_again - self.quality_in_journal) * self.images)

    @property
    def is_confirmed(self) -> bool:
        if self.differing_images is not None:
            return self.differing_images <= TOLERATED_IMAGES
        regions = abs(self.regions_again - self.regions_in_journal)
        is_equal = abs(self.quality_again - self.quality_in_journal) <= TOLERATED_PRECISION
        return is_equal and regions <= TOLERATED_REGIONS * self.regions_again


def audit(folder: Path, root: str | None = None, detections: Path | None = None) -> QualityAudit:
    """Evaluate the epoch that gives the quality of a run. Raise NoCheckpoint, DamagedCheckpoint, DataError."""
    reader, work_log = read(folder), WorkLog()
    with folding(reader):
        for run, event in replay(reader):  # noqa: B007 - the last run is used
            work_log.take(event)
    sealed = quality_epoch(work_log)
    checkpoints = reader.path.parent / CHECKPOINTS
    if sealed is None or sealed_file(reader.path.parent, sealed) is None:
        found = "none in the journal" if sealed is None else f"no file of {sealed.sha256} in {str(checkpoints)!r}"
        raise NoCheckpoint(
            "a quality is shown by the checkpoint of the epoch that counts, with its SHA-256 in the journal (docs/ranking.md), "
            f"but found {found}: copy the run with its checkpoints. Simulated and earlier runs show none"
        )
    counted = sealed.evaluation
    conf = from_plain(run.started.config)
    start = space_of(run.started).start
    if detections is not None and run.started.metric in ACCURACIES:
        raise conflict("--detections", f"{run.started.run!r}, which trains no detector", "Leave it out")
    again = evaluate(
        CheckpointFolder(checkpoints),
        counted.trial,
        counted.epoch,
        rebuilt(start, [decode_morph(morph) for morph in run.lineage(counted.trial)]),
        held_to(_with_root(conf.dataset, root), run.started.dataset.get("fingerprint")),
        conf.trainer,
        next(each.precision for each in reversed(work_log.preparations) if each.trial == counted.trial),
        run.trials[counted.trial].batch_size,
    )
    if detections is not None:
        write_detections(detections, again.detections)
    return QualityAudit(
        run=run.started.run,
        trial=counted.trial,
        epoch=counted.epoch,
        metric=again.metric,
        images=again.images,
        precision=again.precision,
        device=again.device,
        quality_in_journal=counted.accuracy,
        quality_again=again.quality.value,
        loss_in_journal=counted.validation_loss,
        loss_again=again.quality.loss,
        regions_in_journal=counted.regions,
        regions_again=again.quality.regions,
        samples=noun(run.started.dataset).many,
    )


def difference(folder: Path, config: Mapping[str, Any], root: str) -> str:
    """Return the contradiction of a run's weights to its journal, or ''. Raise DataError if the images cannot be used.

    `root`: folder of the images. Data sets without files ignore it.
    """
    try:
        audited = audit(folder, root if "root" in config["dataset"] else None)
    except (NoCheckpoint, DamagedCheckpoint) as error:
        return str(error)
    again, told = audited.quality_again, audited.quality_in_journal
    return "" if audited.is_confirmed else f"its weights have {audited.metric} {again:.6f}, the journal has {told:.6f}"


def _with_root(dataset: DataSetConf, root: str | None) -> DataSetConf:
    if root is None:
        return dataset
    if not isinstance(dataset, FolderConf):
        raise conflict("dataset.root", f"dataset={dataset.name}, which has no files", "Leave it out")
    return replace(dataset, root=root)


class _Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    truth: list[_Truth]
    """x1, y1, x2, y2, class."""
    found: list[_Found]
    """x1, y1, x2, y2, score, class."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    images: list[_Image]


def write_detections(path: Path, images: Sequence[ImageDetections]) -> None:
    """Write boxes to a new JSON file. Raise BadConfiguration if it exists."""
    if path.exists():
        raise BadConfiguration(
            f"{str(path)!r} exists, and detections are written to a new file. Name another, or remove it"
        )
    rows = [
        _Image(
            [(*box, int(label)) for *box, label in image.truth.tolist()],
            [(*box, int(label)) for *box, label in image.found.tolist()],
        )
        for image in images
    ]
    replace_file(path, msgspec.json.encode(_File(rows)) + b"\n")


def read_detections(path: Path) -> list[ImageDetections]:
    """Return the boxes of each image. Raise BadConfiguration if the file is damaged or too large."""
    rule = (
        '--detections is {"images": [{"truth": [[x1, y1, x2, y2, class], …], '
        '"found": [[x1, y1, x2, y2, score, class], …]}, …]}'
    )
    detections = read_json(path, rule, _File, "correct it, or name such a file", largest=LARGEST)
    if not any(image.truth for image in detections.images):
        raise fault_of(path, rule, "name a file of images with boxes")("has no true box")
    return [
        ImageDetections(np.array(image.truth, float).reshape(-1, 5), np.array(image.found, float).reshape(-1, 6))
        for image in detections.images
    ]
