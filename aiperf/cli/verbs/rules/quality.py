"""`python -m aiperf quality`: evaluate a run's kept checkpoint again and compare the quality with the journal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.errors import BadConfiguration

if TYPE_CHECKING:
    from aiperf.verify.quality import QualityAudit

DESCRIPTION = """Evaluates a checkpoint of a run again on the validation images and compares the quality with the journal.
It takes the last epoch of the journal whose checkpoint exists. After a run with storage.checkpoints=best this
is the best epoch. It needs torch and the run's data set, and uses one accelerator, or else the processor.
Exit status: 0 equal within one image, 1 another quality, 2 it cannot be evaluated."""
EXAMPLES = ("runs/20261121-120000-digits", "runs/20261121-120000-imagenet dataset.root=/data/imagenet --json")
OPTIONS = "[dataset.root=FOLDER]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    """Print both qualities and return the exit status."""
    from aiperf.journal.run_folder import run_folder
    from aiperf.verify.quality import audit

    found = audit(run_folder(arguments.run), _root(options))
    if arguments.json:
        result = asdict(found) | {"differing_images": found.differing_images, "is_confirmed": found.is_confirmed}
        print(json.dumps(result, indent=2))
    else:
        for line in lines(found):
            print(line)
    return 0 if found.is_confirmed else 1


def lines(found: QualityAudit) -> Iterator[str]:
    """Yield the evaluated checkpoint, both qualities and the conclusion."""
    from aiperf.sanitize import sanitize

    yield f"{sanitize(found.run)}: checkpoint of trial {found.trial} after epoch {found.epoch}"
    yield f"  evaluated  {found.images} validation images, {found.precision} on {found.device}"
    for place, value in (("journal", found.quality_in_journal), ("again", found.quality_again)):
        yield f"  {place:<9}  {found.metric} {value:.6f}, {value * found.images:.0f} images correct"
    confirmed = "confirmed" if found.is_confirmed else "not confirmed"
    yield f"{confirmed}: the numbers of correct images differ by {found.differing_images} (at most 1 is allowed)"


def _root(options: list[str]) -> str | None:
    """Return the value of dataset.root. None if it is not given."""
    root = None
    for word in options:
        name, _, root = word.partition("=")
        if name != "dataset.root" or not root:
            raise BadConfiguration(
                f"quality takes the configuration of the run and dataset.root=FOLDER, but found {word!r}: leave it out"
            )
    return root
