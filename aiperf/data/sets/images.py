"""Folders or shards of image files, among them ImageNet: listed, opened, checked and packed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.data.dataset_config import FilesConf
from aiperf.data.description import DataSet, PrepareReport
from aiperf.data.survey import listing

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.opened import OpenData


def describe(conf: FilesConf) -> DataSet:
    images = conf.as_images()
    return listing(images).describe(images)


def open_data(conf: FilesConf, cores: int | None) -> OpenData:
    from aiperf.data.opening import open_images

    return open_images(conf.as_images(), cores)


def prepare(conf: FilesConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    from aiperf.data.verification import prepare_images

    return prepare_images(conf.as_images(), pack, out, checksums)
