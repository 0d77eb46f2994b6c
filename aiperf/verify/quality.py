"""Audit of a run's quality (accuracy or mean average precision): a kept checkpoint is evaluated again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from aiperf.accounting.average_precision import ImageDetections
from aiperf.atomic_files import replace_file
from aiperf.config import from_plain
from aiperf.data.dataset_config import DataSetConf, FolderConf
from aiperf.data.survey import held_to
from aiperf.errors import BadConfiguration, conflict
from aiperf.given_file import fault_of, read_json
from aiperf.journal.events import CheckpointWritten, EpochFinished, TrialPrepared
from aiperf.journal.journal import read
from aiperf.rules.evolve import replay
from aiperf.rules.search_space import space_of
from aiperf.train.checkpoints.checkpoint import NoCheckpoint
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS, CheckpointFolder
from aiperf.train.trained_network import evaluate
from aiperf.units import IMAGE, noun
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
        if self.metric != "top1":
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
    """Evaluate the last checkpoint in the journal that still exists. Raise NoCheckpoint, DamagedCheckpoint, DataError."""
    epochs: dict[tuple[int, int], EpochFinished] = {}
    saved: list[EpochFinished] = []
    precisions: dict[int, str] = {}
    for run, event in replay(read(folder)):  # noqa: B007 - the last run is used
        if isinstance(event, TrialPrepared):
            precisions[event.trial] = event.precision
        elif isinstance(event, EpochFinished):
            epochs[event.trial, event.epoch] = event
            if event.checkpoint:
                saved.append(event)
        elif isinstance(event, CheckpointWritten):
            saved.append(epochs[event.trial, event.epoch])
    checkpoints = CheckpointFolder(folder / CHECKPOINTS)
    checkpoint = next(
        (each for each in reversed(saved) if checkpoints.written(each.trial, each.epoch) is not None), None
    )
    if checkpoint is None:
        raise NoCheckpoint(
            f"an audit of the quality needs the checkpoint of an epoch in the journal, but found none in "
            f"{str(checkpoints.path)!r}: copy the run with its checkpoints, and run with storage.checkpoints=best or all"
        )
    conf = from_plain(run.started.config)
    start = space_of(run.started).start
    if detections is not None and run.started.metric == "top1":
        raise conflict("--detections", f"{run.started.run!r}, which trains no detector", "Leave it out")
    again = evaluate(
        checkpoints,
        checkpoint.trial,
        checkpoint.epoch,
        rebuilt(start, [decode_morph(morph) for morph in run.lineage(checkpoint.trial)]),
        held_to(_with_root(conf.dataset, root), run.started.dataset.get("fingerprint")),
        conf.trainer,
        precisions[checkpoint.trial],
        run.trials[checkpoint.trial].batch_size,
    )
    if detections is not None:
        write_detections(detections, again.detections)
    return QualityAudit(
        run=run.started.run,
        trial=checkpoint.trial,
        epoch=checkpoint.epoch,
        metric=again.metric,
        images=again.images,
        precision=again.precision,
        device=again.device,
        quality_in_journal=checkpoint.accuracy,
        quality_again=again.quality.value,
        loss_in_journal=checkpoint.validation_loss,
        loss_again=again.quality.loss,
        regions_in_journal=checkpoint.regions,
        regions_again=again.quality.regions,
        samples=noun(run.started.dataset).many,
    )


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
