"""CIFAR-10: its published binary version, or (a part of) it as class folders of image files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from aiperf.data.dataset_config import Cifar10Conf
from aiperf.data.description import DataSet
from aiperf.data.files import cifar10
from aiperf.data.files.fingerprint import of_files
from aiperf.data.prepare_report import PrepareReport
from aiperf.data.sets import images
from aiperf.data.survey import require_fingerprint, root_of

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData


def describe(conf: Cifar10Conf) -> DataSet:
    """Return the set's numbers, as published or by the names of its files."""
    root = root_of(conf)
    if (folder := cifar10.find(root)) is not None:
        return replace(conf.published(), fingerprint=fingerprint(conf, folder))
    return images.describe(conf)


def fingerprint(conf: Cifar10Conf, folder: Path) -> str:
    """Return the fingerprint of the binary version in the folder. Raises OtherData if another one is configured."""
    fingerprint = of_files(
        root_of(conf), [folder / name for name in (*cifar10.TRAINING_FILES, cifar10.VALIDATION_FILE)]
    )
    require_fingerprint(conf, fingerprint)
    return fingerprint


def open_data(conf: Cifar10Conf, cores: int | None) -> OpenData:
    """Open pixels in memory, one copy per host. Class folders are opened as other images."""
    folder = cifar10.find(root_of(conf))
    if folder is None:
        return images.open_data(conf, cores)
    from aiperf.data.opening import open_cifar10

    return open_cifar10(conf, folder, fingerprint(conf, folder))


def prepare(conf: Cifar10Conf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """Read and hash every file, and decode the images."""
    folder = cifar10.find(root_of(conf))
    if folder is None:
        return images.prepare(conf, pack, out, checksums)
    from aiperf.data.verification import prepare_cifar10

    return prepare_cifar10(conf, folder, pack, out, checksums)
