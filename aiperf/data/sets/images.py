"""Folders or shards of image files as a data set: listed, opened, checked and packed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from aiperf.data.dataset_config import ImagesConf
from aiperf.data.description import DataSet
from aiperf.data.prepare_report import PrepareReport
from aiperf.data.survey import listing

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData


def describe(conf: ImagesConf) -> DataSet:
    """The set in numbers, by the names of its files."""
    return listing(conf).describe(conf)


def open_data(conf: ImagesConf, cores: int | None) -> OpenData:
    """Decoded at once where the images are small, else as they are walked."""
    from aiperf.data.opening import open_images

    return open_images(conf, cores)


def prepare(conf: ImagesConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """Every image read, hashed and decoded."""
    from aiperf.data.verification import prepare_images

    return prepare_images(conf, pack, out, checksums)
