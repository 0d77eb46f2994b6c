"""Contents of a configured data set, by file names alone. No pixel is read, and torch is not imported.

Each set has a module in `aiperf/data/sets/`, imported by the name in its configuration. If an index exists (`index.py`),
the names are read from it, and no folder is listed.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from rich.console import Console

from aiperf.data.dataset_config import DATA_SETS, Cifar10Conf, DataSetConf, FilesConf, FolderConf, ImagesConf
from aiperf.data.description import DataSet
from aiperf.data.errors import DamagedData, MissingData, OtherData
from aiperf.data.files import cifar10, fingerprint, index
from aiperf.data.files.index import Index
from aiperf.data.files.samples import INDEX as SHARDS_INDEX
from aiperf.data.files.samples import Samples, agree, find_shards, index_shards, list_folder, list_shards, tree
from aiperf.data.prepare_report import PrepareReport
from aiperf.errors import BadConfiguration
from aiperf.shell_command import command, option

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData


class SetModule(Protocol):
    """Module of a data set.

    Importing it does not import torch: modules that open images are imported when they are called. `conf` is always of the
    set's own class.
    """

    describe: Callable[[Any], DataSet]
    """Return the set's numbers without reading a pixel. See `survey.describe`."""
    open_data: Callable[[Any, int | None], OpenData]
    """Open the set for a process with so many cores (default: all that it may use). See `opening.open_data`."""
    prepare: Callable[[Any, Path | None, Console, Path | None], PrepareReport]
    """Check the set, and pack it into a folder if one is given. See `verification.prepare`."""


def module_of(conf: DataSetConf) -> SetModule:
    """Return the module of this set.

    Raises:
        BadConfiguration: the configuration is not of a data set.
    """
    if not hasattr(conf, "module"):
        names = ", ".join(each().name for each in DATA_SETS)
        raise BadConfiguration(f"a data set must be one of {names}, not {type(conf).__name__} {conf.name!r}")
    return cast(SetModule, importlib.import_module(conf.module))


@dataclass(frozen=True)
class ImageFileList:
    """Files of a set of encoded images."""

    root: Path
    training: Samples
    validation: Samples
    index: Index | None = None
    """Index from which the files were read. None if folders were listed."""

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the files. See `aiperf.data.files.fingerprint`. Without an index the size of every file is read."""
        if self.index is not None:
            return self.index.header.fingerprint
        try:
            return fingerprint.of_splits(self.root, (self.training, self.validation))
        except OSError as error:
            raise DamagedData(
                f"every image of a set must be a file, but {error.filename!r} cannot be read ({error.strerror}): "
                "repair or remove it"
            ) from error

    def describe(self, conf: ImagesConf) -> DataSet:
        """Return the description of the set: sizes, classes and counts of images, including corrupt ones."""
        classes = len(self.training.classes)
        return DataSet(
            conf.name,
            len(self.training),
            len(self.validation),
            classes,
            conf.image,
            conf.channels,
            tuple(conf.mean),
            tuple(conf.std),
            fingerprint=self.fingerprint,
        )


def describe(conf: DataSetConf) -> DataSet:
    """Return the description of the set: sizes, classes and counts of images.

    Raises MissingData with the expected files, and DataError if the set is inconsistent.

    Corrupt images are counted, because nothing is decoded. An opened set may have fewer images.
    """
    return module_of(conf).describe(conf)


def data_fingerprint(conf: DataSetConf) -> str:
    """Return the fingerprint of the set: of its files, or of its options if it is generated.

    Equal sets on two hosts have equal fingerprints (see `aiperf.data.files.fingerprint`). It is read from the index if there is
    one, and the index is checked against all folders and some files. Raises MissingData if files are
    missing, and DataError if the set is inconsistent.
    """
    return describe(conf).fingerprint or fingerprint.of_options(conf)


def held_to(conf: DataSetConf, meant: str | None) -> DataSetConf:
    """Return the configuration for workers: they must find a set with the fingerprint `meant`. Unchanged for None."""
    if meant is None or not isinstance(conf, FolderConf):
        return conf
    return replace(conf, fingerprint=meant)


def require_fingerprint(conf: FolderConf, fingerprint: str) -> None:
    """Raise OtherData if the fingerprint of the set here differs from `dataset.fingerprint`."""
    if conf.fingerprint is not None and conf.fingerprint != fingerprint:
        raise OtherData(
            f"all hosts of a run must read the same data set, with fingerprint {conf.fingerprint[:16]}…, but on "
            f"{socket.gethostname()} {conf.root!r} has {fingerprint[:16]}…: copy the data set again (or its "
            "index, if that is older)"
        )


def describe_without_files(conf: DataSetConf) -> DataSet:
    """Return the description of the set: sizes, classes and counts of images.

    A published set without a configured folder is described as published, for callers that read no image. Raises the same
    errors as `describe`.
    """
    published = conf.published() if isinstance(conf, FolderConf) and conf.root is None else None
    return describe(conf) if published is None else published


def root_of(conf: FolderConf) -> Path:
    """Return the set's folder. Raises MissingData if none is configured or it does not exist."""
    if conf.root is None:
        raise MissingData(
            f"data set {conf.name!r} needs its folder: dataset.root=FOLDER (nothing is downloaded). "
            f"Expected: {_expected(conf, Path('FOLDER'))}"
        )
    root = Path(conf.root).expanduser()
    if not root.is_dir():
        raise MissingData(
            f"there is no folder {str(root)!r} (dataset.root of {conf.name!r}, nothing is downloaded). Expected: "
            + _expected(conf, root)
        )
    return root


def _expected(conf: FolderConf, root: Path) -> str:
    return tree(root) if conf.files is None else f"'{root}' with {conf.files}"


def is_seen(conf: FolderConf) -> bool:
    return conf.root is not None and Path(conf.root).expanduser().is_dir()


def is_indexed(conf: DataSetConf) -> bool:
    """Return True if the set can be opened without listing folders or scanning shards. Raises MissingData."""
    if getattr(conf, "format", "folder") == "webdataset":
        assert isinstance(conf, FilesConf)
        return all((shards[0].parent / SHARDS_INDEX).is_file() for shards in _shards(root_of(conf)) if shards)
    folders = as_folders(conf)
    return folders is None or index_path(folders).is_file()


def _shards(root: Path) -> list[list[Path]]:
    return [find_shards(root, split) for split in ("train", "val")]


def index_path(conf: FilesConf) -> Path:
    """Return the path of the set's index, which need not exist."""
    return Path(conf.index).expanduser() if conf.index is not None else root_of(conf) / index.FILE


def listing(conf: ImagesConf, host: str | None = None, *, ignore_index: bool = False) -> ImageFileList:
    """Return the files of both splits, from the set's index if there is one. `ignore_index`: list the folders in any case.

    `host`: see `Index.check`. Raises MissingData, DataError, StaleIndex if the index is outdated, and OtherData if the
    fingerprint differs from the configured one.
    """
    root = root_of(conf)
    if conf.format == "webdataset":
        files = ImageFileList(root, list_shards(root, "train"), list_shards(root, "val"))
    elif not ignore_index and (indexed := _indexed(conf, root, host)) is not None:
        files = ImageFileList(root, indexed.training, indexed.validation, indexed)
    else:
        # CIFAR-10's second part is commonly called test/.
        names = ("val", "test") if conf.name == "cifar10" else ("val",)
        files = ImageFileList(root, list_folder(root, "train"), list_folder(root, "val", names))
    agree(files.training, files.validation, root)
    if conf.fingerprint is not None and not ignore_index:
        require_fingerprint(conf, files.fingerprint)
    return files


def _indexed(conf: ImagesConf, root: Path, host: str | None) -> Index | None:
    path = index_path(conf)
    try:
        indexed = index.read(path, root)
    except FileNotFoundError as error:
        if conf.index is None:
            return None
        raise MissingData(
            f"dataset.index names the index of {conf.name!r}, but {str(path)!r} does not exist: write it with "
            + command(
                "prepare",
                f"dataset={conf.name}",
                *(option(f"dataset.{name}", getattr(conf, name)) for name in ("root", "index")),
                "--index-only",
            )
        ) from error
    indexed.check(host)
    return indexed


def write_index(conf: DataSetConf) -> tuple[str, ...]:
    """List a set's class folders and write their index. No image is read. Return the result as lines of text.

    Raises BadConfiguration for a set without class folders, MissingData, DataError.
    """
    if getattr(conf, "format", "folder") == "webdataset":
        assert isinstance(conf, FilesConf)
        root = root_of(conf)
        describe(conf)  # report faults of the shards first
        return tuple(f"index of {number} shards: {path}" for path, number in index_shards(_shards(root)).items())
    folders = as_folders(conf)
    if folders is None:
        raise BadConfiguration(
            f"only class folders have an index, and data set {conf.name!r} has none here: it needs no index"
        )
    files = listing(folders, ignore_index=True)
    path = index_path(folders)
    header = index.write(path, files.root, files.training, files.validation)
    about = files.describe(folders)
    return (
        f"{about.name}: {about.training_images:,} training and {about.validation_images:,} validation images, "
        f"{about.classes:,} classes",
        f"fingerprint {header.fingerprint}; index of the class folders, which runs read: {path} "
        f"({path.stat().st_size / 2**20:.1f} MiB)",
    )


def as_folders(conf: DataSetConf) -> ImagesConf | None:
    """Return the set as class folders of images. None if it has no class folders. Raises MissingData."""
    is_binary = isinstance(conf, Cifar10Conf) and cifar10.find(root_of(conf)) is not None
    if not isinstance(conf, FilesConf) or is_binary:
        return None
    images = conf.as_images()
    return images if images.format == "folder" else None
