"""What a configured data set holds, by looking at file names alone: no pixel is read and torch is not needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiperf.data.dataset_config import Cifar10Conf, DataSetConf, FilesConf, ImagesConf
from aiperf.data.description import CIFAR10_MEAN, CIFAR10_STD, DataSet
from aiperf.data.errors import MissingData
from aiperf.data.samples import Samples, agree, list_folder, list_shards, tree
from aiperf.data.set_module import module_of


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a set of encoded images."""

    training: Samples
    validation: Samples

    def describe(self, conf: ImagesConf) -> DataSet:
        """The set in numbers, corrupt images included."""
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
        )


def describe(conf: DataSetConf) -> DataSet:
    """The set in numbers. Raises MissingData, saying what to put where, and DataError where it contradicts itself.

    Corrupt images are counted here, since nothing is decoded: an opened set may hold a few fewer.
    """
    return module_of(conf).describe(conf)


def describe_without_files(conf: DataSetConf) -> DataSet:
    """As `describe`, but a published set whose folder is not named is described as it was published: for who reads no image.

    Raises as `describe` does.
    """
    published = conf.published() if isinstance(conf, FilesConf) and conf.root is None else None
    return describe(conf) if published is None else published


def cifar10_folders(conf: Cifar10Conf) -> ImagesConf:
    """CIFAR-10 (or a part of it) as class folders of image files."""
    return ImagesConf(
        name=conf.name,
        augment=conf.augment,
        root=conf.root,
        corrupt_limit=conf.corrupt_limit,
        cache=conf.cache,
        workers=conf.workers,
        prefetch_batches=conf.prefetch_batches,
        decoder=conf.decoder,
        image=32,
        crop="pad",
        mean=list(CIFAR10_MEAN),
        std=list(CIFAR10_STD),
    )


def root_of(conf: FilesConf) -> Path:
    """The folder the set lies in. Raises MissingData."""
    if conf.root is None:
        raise MissingData(
            f"data set {conf.name!r} lies in a folder that you name: dataset.root=FOLDER (nothing is downloaded); "
            f"put there: {tree(Path('FOLDER'))}"
        )
    root = Path(conf.root).expanduser()
    if not root.is_dir():
        raise MissingData(
            f"there is no folder {str(root)!r} (dataset.root of {conf.name!r}; nothing is downloaded); put there: {tree(root)}"
        )
    return root


def listing(conf: ImagesConf) -> Listing:
    """The files of both splits. Raises MissingData, DataError."""
    root = root_of(conf)
    if conf.format == "webdataset":
        found = Listing(list_shards(root, "train"), list_shards(root, "val"))
    else:
        # CIFAR-10's second part is commonly called test/.
        names = ("val", "test") if conf.name == "cifar10" else ("val",)
        found = Listing(list_folder(root, "train"), list_folder(root, "val", names))
    agree(found.training, found.validation, root)
    return found
