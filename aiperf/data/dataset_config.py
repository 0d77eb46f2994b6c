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
from aiperf.option_limits import hold

CacheKind = Literal["auto", "decoded", "encoded", "none"]
Format = Literal["folder", "webdataset"]
Decoder = Literal["auto", "dali", "libjpeg"]
Crop = Literal["auto", "pad", "resized"]


SMALLEST, LARGEST = 4, 4096
"""Of an image that a network sees, in pixels."""


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

    def __post_init__(self) -> None:
        hold(self, "dataset")

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
    fingerprint: str | None = field(
        default=None, metadata={"form": ("[0-9a-f]{64}", "64 digits from 0 to f, as `prepare` prints them")}
    )
    """A set of another fingerprint (`prepare` prints it) is refused. None: whatever lies in the root of the head; a run's
    workers are held to that in any case."""
    corrupt_limit: int = field(default=10, metadata={"least": 0, "unit": "images"})
    """How many corrupt images are named, counted and skipped; with one more the set is refused."""
    cache: str = field(default="auto", metadata={"among": get_args(CacheKind)})
    """What is kept in this host's memory, one copy for all its processes. auto: decoded where the training images are small
    (up to 64 pixels, a quarter of the free memory), encoded where the files fit in half of it, none otherwise; decoded,
    encoded, none: just that. Centre crops for validation are kept decoded too, under auto, where they fit in a quarter."""
    workers: int = field(default=0, metadata={"least": 0, "most": 4096, "unit": "threads"})
    """Decoding threads of one process; 0: its share of its worker's cores."""
    prefetch_batches: int = field(default=3, metadata={"least": 1, "most": 1024})
    """Batches that are decoded ahead of the step that needs them; each lies in memory."""
    decoder: str = field(default="auto", metadata={"among": get_args(Decoder)})
    """Of large images for an NVIDIA accelerator. auto: libjpeg-turbo, until NVIDIA DALI has been run on a GPU; dali, libjpeg:
    just that."""


@dataclass
class DigitsConf(DataSetConf):
    """1797 real handwritten digits of 8×8 grey pixels that ship inside scikit-learn, split 1437 / 360. The default."""

    module: ClassVar[str] = "aiperf.data.sets.digits"
    usual_start: ClassVar[str] = "digits_small"
    name: str = "digits"
    noise: float = field(default=0.0, metadata={"least": 0, "most": 1})
    """Deviation of noise added to each pixel, as a share of its range: drawn anew in each epoch for a training image, once for
    ever for a validation image. conf/dataset/digits.yaml has the default run's: without it the digits are learnt at once."""

    shift: int = field(default=0, metadata={"least": 0, "most": 7, "unit": "pixels"})
    """A training image is moved by up to so many pixels each way, anew in each epoch; where `augment` is true."""


@dataclass
class SyntheticConf(DataSetConf):
    """Images made up from a seed: a prototype for each class, and noise; so the labels can be learnt. No files, no decoding."""

    module: ClassVar[str] = "aiperf.data.sets.synthetic"
    usual_start: ClassVar[str] = "resnet20"
    name: str = "synthetic"
    training_images: int = field(default=10_000, metadata={"least": 2, "most": 10**9})
    """Training images of one epoch."""
    validation_images: int = field(default=1_000, metadata={"least": 2, "most": 10**9})
    """Validation images."""
    classes: int = field(default=10, metadata={"least": 2, "most": 65536})
    """Classes, of nearly equal size."""
    image: int = field(default=32, metadata={"least": SMALLEST, "most": LARGEST, "unit": "pixels"})
    """Height and width in pixels."""
    channels: int = field(default=3, metadata={"least": 1, "most": 65536})
    """Channels of a pixel."""
    noise: float = field(default=0.25, metadata={"least": 0, "most": 1})
    """Deviation of the noise added to a prototype, as a share of the range of a pixel; more is harder to learn."""
    seed: int = field(default=0, metadata={"least": 0})
    """Of prototypes and noise: the same seed is the same set, everywhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fewest = min(self.training_images, self.validation_images)
        if fewest < self.classes:
            raise BadConfiguration(
                f"dataset.training_images and dataset.validation_images are at least dataset.classes, {self.classes}; "
                f"found {self.training_images} and {self.validation_images}: take more images, or fewer classes"
            )

    @property
    def opening_bytes(self) -> int:
        """Memory that each rank takes at the most while it makes the set up: labels, prototypes of the classes, a bank of 256
        noises with what they are drawn from. Measured (torch 2.13): 67 bytes an image, 12.5 and 138 a pixel of one channel."""
        pixels = self.image**2 * self.channels
        return 67 * (self.training_images + self.validation_images) + 12 * self.classes * pixels + 138 * 256 * pixels


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
    image: int = field(default=32, metadata={"least": SMALLEST, "most": LARGEST, "unit": "pixels"})
    """Height and width the network sees, in pixels."""
    channels: int = field(default=3, metadata={"least": 1, "most": 3})
    """3: colour, 1: grey."""
    format: str = field(default="folder", metadata={"among": get_args(Format)})
    """folder: class folders; webdataset: tar shards of NAME.jpg + NAME.cls, as `python -m aiperf prepare` packs them."""
    crop: str = field(default="auto", metadata={"among": get_args(Crop)})
    """How training images are augmented. pad: pad by an eighth, crop, flip (CIFAR-10's way); resized: random resized crop of
    8–100 % and flip (ImageNet's way); auto: pad up to 64 pixels, resized above."""
    mean: list[float] = field(
        default_factory=lambda: list(IMAGENET_MEAN), metadata={"least": 0, "most": 1, "fewest": 1}
    )
    """Mean of each channel, of pixels in 0..1."""
    std: list[float] = field(
        default_factory=lambda: list(IMAGENET_STD), metadata={"least": 0.001, "most": 1, "fewest": 1}
    )
    """Standard deviation of each channel, of pixels in 0..1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels not in (1, 3):
            raise BadConfiguration(f"dataset.channels is 3 (colour) or 1 (grey); found {self.channels!r}")
        if self.cache == "decoded" and self.is_resized_crop:
            raise BadConfiguration(
                "dataset.cache=decoded keeps images at the network's size, of which no random resized crop can be cut; "
                f"found it with dataset.crop={self.crop} and images of {self.image} pixels: take dataset.cache=encoded, or "
                "dataset.crop=pad"
            )
        if not len(self.mean) == len(self.std) == self.channels:
            raise BadConfiguration(
                f"dataset.mean and dataset.std have one number for each of the {self.channels} channels; "
                f"found mean={list(self.mean)!r} std={list(self.std)!r}: give as many of each"
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
    format: str = field(default="folder", metadata={"among": get_args(Format)})
    """folder: class folders; webdataset: tar shards of NAME.jpg + NAME.cls, as `python -m aiperf prepare` packs them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cache == "decoded":
            raise BadConfiguration(
                "dataset.cache=decoded keeps images at the network's size, of which no random resized crop can be cut; found "
                "it with dataset=imagenet, whose training images are cropped so: take dataset.cache=encoded"
            )

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
