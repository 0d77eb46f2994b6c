"""`python -m aiperf quality`: evaluate the weights that show a run's quality, and compare it with the journal."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiperf.cli.arguments import DATA_ROOT, add_json, data_root
from aiperf.cli.output import print_result
from aiperf.errors import BadConfiguration
from aiperf.files import given_path
from aiperf.page.section import Paragraph, Part, rows

if TYPE_CHECKING:
    from aiperf.verify.quality import QualityAudit

DESCRIPTION = """Evaluates the epoch that gives the quality of a run again on the validation set, and compares the
quality with the journal: the best epoch with a checkpoint whose SHA-256 is in the journal, of a fixed network
the last epoch. It needs torch and the run's data set, and uses one accelerator, or else the processor.
Of a detector it also writes the boxes to the new file of --detections. Without a RUN it computes the mAP
of such a file.
Exit status: 0 equal within one image or 0.001 of mAP, 1 another quality, 2 it cannot be evaluated."""
EXAMPLES = (
    "runs/20261121-120000-digits",
    "runs/20261121-120000-imagenet dataset.root=/data/imagenet --json",
    "runs/20261121-120000-weather --detections boxes.json",
    "--detections boxes.json",
)
OPTIONS = DATA_ROOT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, or its name under runs/")
    parser.add_argument("--detections", type=given_path, metavar="FILE", help="JSON file of the boxes of a detector")
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    if arguments.run is None:
        return _print_precision(arguments, options)
    from aiperf.submission.submitted_runs import run_folder
    from aiperf.verify.quality import audit

    audited = audit(run_folder(arguments.run), data_root("quality", options), arguments.detections)
    print_result("aiperf-quality", facts(audited), parts(audited), arguments)
    return 0 if audited.is_confirmed else 1


def facts(audited: QualityAudit) -> dict[str, Any]:
    return asdict(audited) | {"differing_images": audited.differing_images, "is_confirmed": audited.is_confirmed}


def parts(audited: QualityAudit) -> tuple[Part, ...]:
    """Return the checkpoint, both qualities, and `confirmed` or not."""
    cells = [
        (
            place,
            f"{audited.metric} {value:.6f}",
            f"{value * audited.images:.0f} {audited.samples} correct"
            if audited.metric == "top1"
            else f"{regions} regions",
        )
        for place, value, regions in (
            ("journal", audited.quality_in_journal, audited.regions_in_journal),
            ("again", audited.quality_again, audited.regions_again),
        )
    ]
    caption = f"{audited.run}: checkpoint of trial {audited.trial} after epoch {audited.epoch}"
    footnote = f"evaluated: {audited.images} validation {audited.samples}, {audited.precision} on {audited.device}"
    if audited.differing_images is not None:
        difference = (
            f"the numbers of correct {audited.samples} differ by {audited.differing_images} (at most 1 is allowed)"
        )
    else:
        difference = (
            f"mAP differs by {abs(audited.quality_again - audited.quality_in_journal):.6f} (at most 0.001 is allowed), "
            f"regions by {abs(audited.regions_again - audited.regions_in_journal)} (at most 1 %)"
        )
    verdict = Paragraph(f"{'confirmed' if audited.is_confirmed else 'not confirmed'}: {difference}")
    return rows("quality", caption, ("", "", ""), cells, footnote), verdict


def _print_precision(arguments: argparse.Namespace, options: list[str]) -> int:
    path: Path | None = arguments.detections
    if path is None or options:
        raise BadConfiguration("quality needs a RUN, or --detections FILE alone without options. Name a run")
    from aiperf.accounting.average_precision import mean_average_precision
    from aiperf.verify.quality import read_detections

    images = read_detections(path)
    value = mean_average_precision(images)
    shown = {"metric": "map50", "images": len(images), "quality": value}
    print_result("aiperf-precision", shown, [Paragraph(f"{path}: map50 {value:.6f}, {len(images)} images")], arguments)
    return 0
