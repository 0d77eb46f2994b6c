"""Folders or shards of image files, among them ImageNet: listed, opened, checked and packed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.data.dataset_config import FilesConf
from aiperf.data.description import DataSet
from aiperf.data.prepare_report import PrepareReport
from aiperf.data.survey import listing

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.opened import OpenData


def describe(conf: FilesConf) -> DataSet:
    """Return the description of a set of image files: counts of images, classes, size, mean and deviation.

    No image is read. Raise MissingData without the files, OtherData if the fingerprint is not dataset.fingerprint, and
    DataError for damaged or changed files.
    """
    images = conf.as_images()
    return listing(images).describe(images)


def open_data(conf: FilesConf, cores: int | None) -> OpenData:
    """Open a set of image files for training in this process.

    Small images are decoded now if dataset.cache and the memory allow it, other images when a batch needs them. `cores`:
    number of decoding threads unless dataset.workers is set. None: all processors that this process may use. Raise MissingData
    without the files, DataError for damaged, changed or other files, and BadConfiguration if dataset.cache=encoded does not fit
    in memory.
    """
    from aiperf.data.opening import open_images

    return open_images(conf.as_images(), cores)


def prepare(conf: FilesConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """Read, hash and decode every image, write the checksums and the index of class folders, and return the result.

    Unchanged files of an earlier check are not read again. `pack`: folder into which the valid images are packed as shards (tar
    files). `out`: console for the progress. `checksums`: file for the checksums, by default in the set's folder. Raise
    MissingData without the files, DataError if the set is damaged, the checksums or the index cannot be written, or `pack` is
    not empty, and OSError if the packing fails.
    """
    from aiperf.data.verification import prepare_images

    return prepare_images(conf.as_images(), pack, out, checksums)
