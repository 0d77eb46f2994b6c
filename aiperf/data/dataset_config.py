"""The choices a user has about data sets; one dataclass a set, for Hydra's structured configurations. No torch here.

Each names the module in `aiperf/data/sets/` that describes, opens and checks it, which is imported when it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from aiperf.data.description import (
    CIFAR10_MEAN,
    CIFAR10_STD,
    IMAGENET_CLASSES,
    IMAGENET_MEAN,
    IMAGENET_STD,
    IMAGENET_TRAINING_IMAGES,
    IMAGENET_VALIDATION_IMAGES,
    DataSet,
)
from aiperf.errors import BadConfiguration

CacheKind = Literal["auto", "decoded", "encoded", "none"]
Format = Literal["folder", "webdataset"]
Decoder = Literal["auto", "dali", "libjpeg"]
Crop = Literal["auto", "pad", "resized"]


def _one_of(conf: object, option: str, legal: tuple[str, ...]) -> None:
    value = getattr(conf, option)
    if value not in legal:
        raise BadConfiguration(f"dataset.{option} is one of {', '.join(map(repr, legal))}; found {value!r}")


def _at_least(conf: object, option: str, least: int) -> None:
    value = getattr(conf, option)
    if value < least:
        raise BadConfiguration(f"dataset.{option} is at least {least}; found {value!r}")


def _check_noise(noise: float) -> None:
    if not 0 <= noise <= 1:
        raise BadConfiguration(f"dataset.noise lies between 0 and 1; found {noise!r}")


@dataclass
class DataSetConf:
    """What all data sets have in common."""

    name: str = "???"
    """The set's name, as the journal and the report give it."""
    augment: bool = True
    """Random crops and flips of the training images, where the set has them (digits: no flips; not: synthetic)."""

    module: ClassVar[str]
    """What describes, opens and checks the set: a `set_module.SetModule`. By name, since opening takes torch."""
    usual_start: ClassVar[str] = "resnet50_v1"
    """The starting graph where none is named: the paper's."""

    def published(self) -> DataSet | None:
        """The set in numbers as its authors published it; None: it has only the numbers that its files or its options give."""
        return None


@dataclass
class FilesConf(DataSetConf):
    """What the sets that lie in files have in common."""

    root: str | None = None
    """The folder the set lies in. Nothing is ever downloaded."""
    index: str | None = None
    """What lies in its class folders, as `python -m aiperf prepare` writes it: a run reads that instead of listing them.
    None: aiperf-folders.index in the root, where it is there."""
    fingerprint: str | None = None
    """A set of another fingerprint (`prepare` prints it) is refused. None: whatever lies in the root of the head; a run's
    workers are held to that in any case."""
    corrupt_limit: int = 10
    """How many corrupt images are named, counted and skipped; with one more the set is refused."""
    cache: str = "auto"
    """What is kept in this host's memory, one copy for all its processes. auto: decoded where the training images are small
    (up to 64 pixels, a quarter of the free memory), encoded where the files fit in half of it, none otherwise; decoded,
    encoded, none: just that. Centre crops for validation are kept decoded too, under auto, where they fit in a quarter."""
    workers: int = 0
    """Decoding threads of one process; 0: its share of its worker's cores."""
    prefetch_batches: int = 3
    """Batches that are decoded ahead of the step that needs them."""
    decoder: str = "auto"
    """Of large images for an NVIDIA accelerator. auto: libjpeg-turbo, until NVIDIA DALI has been run on a GPU; dali, libjpeg:
    just that."""

    def __post_init__(self) -> None:
        _one_of(self, "cache", get_args(CacheKind))
        _one_of(self, "decoder", get_args(Decoder))
        _at_least(self, "corrupt_limit", 0)
        _at_least(self, "workers", 0)
        _at_least(self, "prefetch_batches", 1)


@dataclass
class DigitsConf(DataSetConf):
    """1797 real handwritten digits of 8×8 grey pixels that ship inside scikit-learn, split 1437 / 360. The default."""

    module: ClassVar[str] = "aiperf.data.sets.digits"
    usual_start: ClassVar[str] = "digits_small"
    name: str = "digits"
    noise: float = 0.0
    """Deviation of noise added to each pixel, as a share of its range: drawn anew in each epoch for a training image, once for
    ever for a validation image. conf/dataset/digits.yaml has the default run's: without it the digits are learnt at once."""

    shift: int = 0
    """A training image is moved by up to so many pixels each way, anew in each epoch; where `augment` is true."""

    def __post_init__(self) -> None:
        _check_noise(self.noise)
        _at_least(self, "shift", 0)


@dataclass
class SyntheticConf(DataSetConf):
    """Images made up from a seed: a prototype for each class, and noise; so the labels can be learnt. No files, no decoding."""

    module: ClassVar[str] = "aiperf.data.sets.synthetic"
    usual_start: ClassVar[str] = "resnet20"
    name: str = "synthetic"
    training_images: int = 10_000
    """Training images of one epoch."""
    validation_images: int = 1_000
    """Validation images."""
    classes: int = 10
    """Classes, of nearly equal size."""
    image: int = 32
    """Height and width in pixels."""
    channels: int = 3
    """Channels of a pixel."""
    noise: float = 0.25
    """Deviation of the noise added to a prototype, as a share of the range of a pixel; more is harder to learn."""
    seed: int = 0
    """Of prototypes and noise: the same seed is the same set, everywhere."""

    def __post_init__(self) -> None:
        _at_least(self, "classes", 2)
        _at_least(self, "training_images", self.classes)
        _at_least(self, "validation_images", self.classes)
        _at_least(self, "image", 4)
        _at_least(self, "channels", 1)
        _check_noise(self.noise)


@dataclass
class Cifar10Conf(FilesConf):
    """CIFAR-10: the standard binary version (data_batch_1.bin … test_batch.bin), or class folders, found under root."""

    module: ClassVar[str] = "aiperf.data.sets.cifar10"
    usual_start: ClassVar[str] = "resnet20"
    name: str = "cifar10"

    def published(self) -> DataSet:
        return DataSet(self.name, 50_000, 10_000, 10, 32, 3, CIFAR10_MEAN, CIFAR10_STD)


@dataclass
class ImagesConf(FilesConf):
    """Any folder of images: root/train/CLASS/* and root/val/CLASS/*; or WebDataset shards."""

    module: ClassVar[str] = "aiperf.data.sets.images"
    usual_start: ClassVar[str] = "resnet20"
    name: str = "images"
    image: int = 32
    """Height and width the network sees, in pixels."""
    channels: int = 3
    """3: colour, 1: grey."""
    format: str = "folder"
    """folder: class folders; webdataset: tar shards of NAME.jpg + NAME.cls, as `python -m aiperf prepare` packs them."""
    crop: str = "auto"
    """How training images are augmented. pad: pad by an eighth, crop, flip (CIFAR-10's way); resized: random resized crop of
    8–100 % and flip (ImageNet's way); auto: pad up to 64 pixels, resized above."""
    mean: list[float] = field(default_factory=lambda: list(IMAGENET_MEAN))
    """Mean of each channel, of pixels in 0..1."""
    std: list[float] = field(default_factory=lambda: list(IMAGENET_STD))
    """Standard deviation of each channel, of pixels in 0..1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of(self, "format", get_args(Format))
        _one_of(self, "crop", get_args(Crop))
        _at_least(self, "image", 4)
        if self.channels not in (1, 3):
            raise BadConfiguration(f"dataset.channels is 3 (colour) or 1 (grey); found {self.channels!r}")
        if not len(self.mean) == len(self.std) == self.channels or min(self.std) <= 0:
            raise BadConfiguration(
                f"dataset.mean and dataset.std have one number for each of the {self.channels} channels, std above zero; "
                f"found mean={list(self.mean)!r} std={list(self.std)!r}"
            )

    @property
    def is_resized_crop(self) -> bool:
        """Whether images are cropped ImageNet's way (random resized crop; shorter side 256/224 and centre crop)."""
        return self.crop == "resized" or (self.crop == "auto" and self.image > 64)


@dataclass
class ImagenetConf(FilesConf):
    """ImageNet (ILSVRC-2012) at 224×224: root/train/CLASS/*.JPEG, root/val/CLASS/*.JPEG; or WebDataset shards."""

    module: ClassVar[str] = "aiperf.data.sets.imagenet"
    name: str = "imagenet"
    format: str = "folder"
    """folder: class folders; webdataset: tar shards of NAME.jpg + NAME.cls, as `python -m aiperf prepare` packs them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of(self, "format", get_args(Format))

    def published(self) -> DataSet:
        return DataSet(
            self.name,
            IMAGENET_TRAINING_IMAGES,
            IMAGENET_VALIDATION_IMAGES,
            IMAGENET_CLASSES,
            224,
            3,
            IMAGENET_MEAN,
            IMAGENET_STD,
        )

    def as_images(self) -> ImagesConf:
        """The same set as a folder of images of 224 pixels, cropped ImageNet's way."""
        return ImagesConf(
            name=self.name,
            augment=self.augment,
            root=self.root,
            corrupt_limit=self.corrupt_limit,
            cache=self.cache,
            workers=self.workers,
            prefetch_batches=self.prefetch_batches,
            decoder=self.decoder,
            index=self.index,
            fingerprint=self.fingerprint,
            image=224,
            channels=3,
            format=self.format,
            crop="resized",
        )


DATA_SETS: tuple[type[DataSetConf], ...] = (DigitsConf, ImagesConf, Cifar10Conf, ImagenetConf, SyntheticConf)
"""All that can be chosen, under their names; conf/dataset/NAME.yaml holds what a choice sets besides."""
