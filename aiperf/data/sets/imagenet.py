"""ImageNet: image files of 224 pixels, with its own crops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from aiperf.data.dataset_config import ImagenetConf
from aiperf.data.description import DataSet
from aiperf.data.prepare_report import PrepareReport
from aiperf.data.sets import images

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData


def describe(conf: ImagenetConf) -> DataSet:
    """Return the set's numbers, by the names of its files."""
    return images.describe(conf.as_images())


def open_data(conf: ImagenetConf, cores: int | None) -> OpenData:
    """Open its files, decoded on demand."""
    return images.open_data(conf.as_images(), cores)


def prepare(conf: ImagenetConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """Read, hash and decode every image."""
    return images.prepare(conf.as_images(), pack, out, checksums)
