"""Synthetic images as a data set, generated from a seed, without files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.data.dataset_config import SyntheticConf
from aiperf.data.description import SYNTHETIC_MEAN, SYNTHETIC_STD, DataSet
from aiperf.data.files.fingerprint import of_options
from aiperf.data.prepare_report import PrepareReport, require_images

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.opened import OpenData


def describe(conf: SyntheticConf) -> DataSet:
    return DataSet(
        conf.name,
        conf.training_images,
        conf.validation_images,
        conf.classes,
        conf.image,
        conf.channels,
        SYNTHETIC_MEAN * conf.channels,
        SYNTHETIC_STD * conf.channels,
        fingerprint=of_options(conf),
    )


def open_data(conf: SyntheticConf, cores: int | None) -> OpenData:
    from aiperf.data import synthetic
    from aiperf.data.opened import OpenData

    return OpenData(describe(conf), *synthetic.open_splits(conf), augment=False, how="made up in memory")


def prepare(conf: SyntheticConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    require_images(describe(conf), pack)
    return PrepareReport(describe(conf))
