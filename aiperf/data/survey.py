"""Description and file list of a configured data set, by file names alone. No pixel is read, and torch is not imported."""

from __future__ import annotations

import hashlib
import importlib
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from aiperf.data.dataset_config import DATA_SETS, Cifar10Conf, DataSetConf, FilesConf, FolderConf, ImagesConf
from aiperf.data.description import SAMPLE, DataSet, HashedFiles, PrepareReport
from aiperf.data.errors import DamagedData, MissingData, OtherData, StaleIndex
from aiperf.data.files import cifar10, index, samples
from aiperf.data.files.index import Index
from aiperf.errors import BadConfiguration
from aiperf.files import host_name
from aiperf.shell_command import command, option

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.opened import OpenData


class SetModule(Protocol):
    """Interface of the Python module of a data set: describe, open and check the set.

    Importing it does not import torch: modules that open images are imported when they are called. `conf` is always of the
    set's own class.
    """

    describe: Callable[[Any], DataSet]
    """Called with the options. Return the set's numbers without reading a pixel."""
    open_data: Callable[[Any, int | None], OpenData]
    """Called with the options and a number of cores (None: all that this process may use). Open the set for training."""
    prepare: Callable[[Any, Path | None, Console, Path | None], PrepareReport]
    """Called with the options, the folder for shards or None, the console, and the file for checksums or None.

    Check the set, show the progress on the console, and pack the set if a folder is given.
    """


def module_of(conf: DataSetConf) -> SetModule:
    """Return the module of the data set. Raise BadConfiguration if `conf` is not the configuration of a data set."""
    if not hasattr(conf, "module"):
        names = ", ".join(each().name for each in DATA_SETS)
        raise BadConfiguration(
            f"a data set must be one of {names}, not {type(conf).__name__} {conf.name!r}: choose dataset=NAME"
        )
    return cast(SetModule, importlib.import_module(conf.module))


@dataclass(frozen=True)
class ImageFileList:
    root: Path
    training: samples.Samples
    validation: samples.Samples
    index: Index | None = None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over path, label and size of each image, from the index if there is one."""
        if self.index is not None:
            return self.index.header.fingerprint
        try:
            return index.of_splits(self.root, (self.training, self.validation))
        except OSError as error:
            raise DamagedData(
                f"every image of a set must be a file, but {error.filename!r} cannot be read ({error.strerror}): "
                "repair or remove it"
            ) from error

    def contents(self) -> str:
        """Return the SHA-256 that follows from the hashes of the index. ImageNet takes seconds."""
        return samples.contents_of((*self.training.lines("train"), *self.validation.lines("val")))

    @property
    def seal(self) -> samples.Seal:
        return self.training.seal if self.training.seal == self.validation.seal else samples.Seal()

    def describe(self, conf: ImagesConf) -> DataSet:
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
            contents=self.seal.contents,
            archives=self.seal.archives,
            note=samples.left_out_text((self.training, self.validation)),
        )


def describe(conf: DataSetConf) -> DataSet:
    """Return the description of a data set. No image is decoded, and corrupt images are therefore counted.

    Raise MissingData with the expected files, DataError if the files are damaged, changed, or not the expected ones, and
    BadConfiguration if h5py is missing for weather files.
    """
    return module_of(conf).describe(conf)


def data_fingerprint(conf: DataSetConf) -> str:
    """Return the fingerprint of a data set, after a check of all class folders if it has an index."""
    return describe(conf).fingerprint or index.of_options(conf)


def hashed_files(conf: DataSetConf, seed: int, files: int = SAMPLE) -> HashedFiles | None:
    """Hash files of an indexed set, drawn by a seed. None for sets without hashes of single files."""
    if getattr(conf, "format", "folder") == "folder" and as_folders(conf) is None:
        return None
    assert isinstance(conf, FilesConf)
    found = listing(conf.as_images())
    if (contents := found.seal.contents) is None:
        return None
    if found.contents() != contents:
        raise DamagedData(
            f"the contents in the index of {conf.root!r} must follow from its hashes: run `prepare` again"
        )
    cut, total = len(found.training), len(found.training) + len(found.validation)

    def changed(number: int) -> str | None:
        split, index = (found.training, number) if number < cut else (found.validation, number - cut)
        try:
            is_equal = hashlib.sha256(split.read(index)).digest() == split.digests[index].tobytes()
        except (OSError, StaleIndex):
            is_equal = False
        return None if is_equal else split.name(index)

    drawn = random.Random(seed).sample(range(total), min(files, total))
    with ThreadPoolExecutor(_THREADS) as pool:
        names = sorted(name for name in pool.map(changed, drawn) if name is not None)
    return HashedFiles(contents, len(drawn), total, seed, changed=names)


def held_to(conf: DataSetConf, meant: str | None) -> DataSetConf:
    """Return the options for the workers, which then accept only a set with the fingerprint `meant`, if the set has files."""
    if meant is None or not isinstance(conf, FolderConf):
        return conf
    return replace(conf, fingerprint=meant)


def require_fingerprint(conf: FolderConf, fingerprint: str) -> None:
    """Raise OtherData if `fingerprint` differs from the option dataset.fingerprint, if that is given."""
    if conf.fingerprint is not None and conf.fingerprint != fingerprint:
        raise OtherData(
            f"all hosts of a run must read the same data set, with fingerprint {conf.fingerprint[:16]}…, but on "
            f"{host_name()} {conf.root!r} has {fingerprint[:16]}…: copy the data set again (or its "
            "index, if that is older)"
        )


def describe_without_files(conf: DataSetConf) -> DataSet:
    """Return the description for callers that read no image. A published set without dataset.root is as published."""
    published = conf.published() if isinstance(conf, FolderConf) and conf.root is None else None
    return describe(conf) if published is None else published


def root_of(conf: FolderConf) -> Path:
    """Return the folder of the set (dataset.root). Raise MissingData if it is not given or does not exist."""
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
    return samples.tree(root) if conf.files is None else f"'{root}' with {conf.files}"


def is_seen(conf: FolderConf) -> bool:
    return conf.root is not None and Path(conf.root).expanduser().is_dir()


def is_indexed(conf: DataSetConf) -> bool:
    """Return True if the set can be opened without listing class folders or scanning shards."""
    if getattr(conf, "format", "folder") == "webdataset":
        assert isinstance(conf, FilesConf)
        return all((shards[0].parent / samples.INDEX).is_file() for shards in _shards(root_of(conf)) if shards)
    folders = as_folders(conf)
    return folders is None or index_path(folders).is_file()


def _shards(root: Path) -> list[list[Path]]:
    return [samples.find_shards(root, split) for split in ("train", "val")]


def index_path(conf: FilesConf) -> Path:
    """Return the path of the set's index, which need not exist: dataset.index, or aiperf-folders.index in its folder."""
    return Path(conf.index).expanduser() if conf.index is not None else root_of(conf) / index.FILE


def listing(conf: ImagesConf, host: str | None = None, *, ignore_index: bool = False) -> ImageFileList:
    """Return the image files of both splits, from the set's index, its folders or its shards.

    `host`: name of this host, by which a part of the class folders is chosen for a check of the index. None: check all.
    `ignore_index`: True: list the folders in any case, and accept any fingerprint. Raise MissingData without the files,
    StaleIndex if the index is outdated, OtherData if the fingerprint is not dataset.fingerprint, and DataError for damaged
    files or classes that differ between the splits.
    """
    root = root_of(conf)
    if conf.format == "webdataset":
        files = ImageFileList(root, samples.list_shards(root, "train"), samples.list_shards(root, "val"))
    elif not ignore_index and (indexed := _indexed(conf, root, host)) is not None:
        files = ImageFileList(root, indexed.training, indexed.validation, indexed)
    else:
        # CIFAR-10's second part is commonly called test/.
        names = ("val", "test") if conf.name == "cifar10" else ("val",)
        files = ImageFileList(root, samples.list_folder(root, "train"), samples.list_folder(root, "val", names))
    samples.agree(files.training, files.validation, root)
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


_THREADS = 16


def write_index(conf: DataSetConf) -> tuple[str, ...]:
    """Write the index of a set, one in each folder of shards. Return lines of text for the user."""
    if getattr(conf, "format", "folder") == "webdataset":
        assert isinstance(conf, FilesConf)
        root = root_of(conf)
        describe(conf)  # report faults of the shards first
        written = samples.index_shards(_shards(root), {}, samples.Seal())
        return tuple(f"index of {number} shards: {path}" for path, number in written.items())
    folders = as_folders(conf)
    if folders is None:
        raise BadConfiguration(
            f"only class folders have an index, and data set {conf.name!r} has none here: it needs no index, "
            "leave out --index-only"
        )
    files = listing(folders, ignore_index=True)
    path = index_path(folders)
    header = index.write(path, files.root, files.training, files.validation)
    about = files.describe(folders)
    return (
        about.counts,
        f"fingerprint {header.fingerprint}; index of the class folders, which runs read: {path} "
        f"({path.stat().st_size / 2**20:.1f} MiB)",
        "contents not shown: no image was read. `prepare` without --index-only hashes them",
        *([] if about.note is None else [about.note]),
    )


def as_folders(conf: DataSetConf) -> ImagesConf | None:
    """Return equal options for the set as class folders of images. None if it has no class folders."""
    is_binary = isinstance(conf, Cifar10Conf) and cifar10.find(root_of(conf)) is not None
    if not isinstance(conf, FilesConf) or is_binary:
        return None
    images = conf.as_images()
    return images if images.format == "folder" else None
