"""Options of data sets: one dataclass per set, for Hydra's structured configurations. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

from aiperf.data import description
from aiperf.errors import BadConfiguration
from aiperf.option_limits import hold
from aiperf.units import SEQUENCE

CacheKind = Literal["auto", "decoded", "encoded", "none"]
Format = Literal["folder", "webdataset"]
Crop = Literal["auto", "pad", "resized"]
Decoder = Literal["cpu", "gpu"]


WEATHER_CHANNELS = 16
SMALLEST, LARGEST = 4, 4096
"""Limits of the height and width of an image for the network, in pixels."""
LONGEST = 65536
"""Longest sequence, in tokens."""


@dataclass
class DataSetConf:
    """Options that all data sets share."""

    name: str = "???"
    """The set's name in the journal and the report."""
    augment: bool = True
    """Randomly crop and flip the training images. Digits are not flipped. Synthetic images are not augmented."""

    module: ClassVar[str]
    """Module that describes, opens and checks the set: a `survey.SetModule`. A name, because opening imports torch."""
    usual_start: ClassVar[str] = "resnet50_v1"
    """Default starting graph: the paper's."""
    quick_epochs: ClassVar[tuple[int, ...]] = ()
    """Epochs of each round with schedule=quick, where they are other than those of the schedule."""

    def __post_init__(self) -> None:
        hold(self, "dataset")

    def published(self) -> description.DataSet | None:
        """Return the published numbers of the set (images, classes, size). None if only its files or options define them."""
        return None


@dataclass
class FolderConf(DataSetConf):
    """Options that all sets in a folder share."""

    root: str | None = None
    """Folder of the set. Nothing is ever downloaded."""
    fingerprint: str | None = field(
        default=None, metadata={"form": ("[0-9a-f]{64}", "64 digits from 0 to f, as `prepare` prints them")}
    )
    """Expected fingerprint of the set (`prepare` prints it).

    Another set is refused. Default: the fingerprint on the driver's host, which all workers must find.
    """

    files: ClassVar[str | None] = None
    """Expected files below the root. None for class folders."""


@dataclass
class ReadAheadConf(FolderConf):
    """Options that all sets share of which threads read images ahead."""

    workers: int = field(default=0, metadata={"least": 0, "most": 4096, "unit": "threads"})
    """Reading or decoding threads of one process. 0: its share of its worker's cores."""
    prefetch_batches: int = field(default=3, metadata={"least": 1, "most": 1024})
    """Batches that are read or decoded in advance and kept in memory."""


@dataclass
class FilesConf(ReadAheadConf):
    """Options that all sets of image files share."""

    index: str | None = None
    """Index of the set's class folders, written by `python -m aiperf prepare`.

    A run reads it instead of listing the folders. Default: aiperf-folders.index in the root, if it exists.
    """
    corrupt_limit: int = field(default=10, metadata={"least": 0, "unit": "images"})
    """Maximum number of corrupt images. They are reported and skipped. A set with more is refused."""
    cache: str = field(default="auto", metadata={"among": get_args(CacheKind)})
    """Data kept in this host's memory, one copy for all its processes: decoded, encoded, none or auto.

    Default: auto, which is decoded for small training images (up to 64 pixels, a quarter of the free memory), else
    encoded if the files fit in half of it, else none. With auto, centre crops for validation are also kept decoded if
    they fit in a quarter.
    """
    decoder: str = field(default="cpu", metadata={"among": get_args(Decoder)})
    """Decoder of JPEG images: cpu (libjpeg-turbo in threads) or gpu (nvJPEG, on the accelerator that trains).

    With gpu the CPU decodes other formats, CMYK images, images that nvJPEG refuses, and images that are kept as pixels.
    """

    def as_images(self) -> ImagesConf:
        """Return equal options for a set of image files in class folders or shards. Each set defines this."""
        raise NotImplementedError

    def file_options(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(FilesConf)}


@dataclass
class DigitsConf(DataSetConf):
    """1797 real handwritten digits of 8×8 grey pixels from scikit-learn, split 1437 / 360. The default."""

    module: ClassVar[str] = "aiperf.data.sets.digits"
    usual_start: ClassVar[str] = "digits_small"
    name: str = "digits"
    noise: float = field(default=0.0, metadata={"least": 0, "most": 1})
    """Standard deviation of noise added to each pixel, as a share of its range.

    A training image has new noise in each epoch, a validation image always the same. Without noise the digits are
    learned at once. conf/dataset/digits.yaml has the default run's value.
    """

    shift: int = field(default=0, metadata={"least": 0, "most": 7, "unit": "pixels"})
    """Maximum random shift of a training image in each direction, in pixels, drawn in each epoch. Only if `augment` is true."""


@dataclass
class SyntheticConf(DataSetConf):
    """Images generated from a seed: a prototype for each class plus noise. No files, no decoding."""

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
    """Standard deviation of the noise added to a prototype, as a share of a pixel's range. More noise is harder to learn."""
    seed: int = field(default=0, metadata={"least": 0})
    """Seed of prototypes and noise. The same seed gives the same set on every machine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fewest = min(self.training_images, self.validation_images)
        if fewest < self.classes:
            raise BadConfiguration(
                f"dataset.training_images and dataset.validation_images must be at least dataset.classes, {self.classes}, "
                f"not {self.training_images} and {self.validation_images}: use more images, or fewer classes"
            )

    @property
    def opening_bytes(self) -> int:
        """Memory in bytes that each rank needs to generate the set, approximately.

        Measured (torch 2.13): 67 bytes per image, 12.5 per pixel and channel of a prototype, 138 per pixel and channel of a
        noise.
        """
        pixels = self.image**2 * self.channels
        return 67 * (self.training_images + self.validation_images) + 12 * self.classes * pixels + 138 * 256 * pixels


@dataclass
class Cifar10Conf(FilesConf):
    """CIFAR-10: the standard binary version (data_batch_1.bin … test_batch.bin), or class folders, found under root."""

    module: ClassVar[str] = "aiperf.data.sets.cifar10"
    usual_start: ClassVar[str] = "resnet20"
    name: str = "cifar10"

    def published(self) -> description.DataSet:
        return description.DataSet(
            self.name, 50_000, 10_000, 10, 32, 3, description.CIFAR10_MEAN, description.CIFAR10_STD
        )

    def as_images(self) -> ImagesConf:
        normalisation: dict[str, Any] = {"mean": list(description.CIFAR10_MEAN), "std": list(description.CIFAR10_STD)}
        return ImagesConf(**self.file_options(), image=32, crop="pad", **normalisation)


@dataclass
class ImagesConf(FilesConf):
    """Any folder of images: `root/train/CLASS/*` and `root/val/CLASS/*`, or WebDataset shards."""

    module: ClassVar[str] = "aiperf.data.sets.images"
    usual_start: ClassVar[str] = "resnet20"
    name: str = "images"
    image: int = field(default=32, metadata={"least": SMALLEST, "most": LARGEST, "unit": "pixels"})
    """Height and width of the network's input, in pixels."""
    channels: int = field(default=3, metadata={"least": 1, "most": 3})
    """3 for colour, 1 for grey."""
    format: str = field(default="folder", metadata={"among": get_args(Format)})
    """folder for class folders, webdataset for tar shards of NAME.jpg and NAME.cls, as `python -m aiperf prepare` packs
    them.
    """
    crop: str = field(default="auto", metadata={"among": get_args(Crop)})
    """Augmentation of training images: pad (pad by an eighth, crop, flip, as for CIFAR-10), resized (random resized
    crop of 8–100 % and flip, as for ImageNet) or auto. Default: auto, which is pad up to 64 pixels, else resized.
    """
    mean: list[float] = field(
        default_factory=lambda: list(description.IMAGENET_MEAN), metadata={"least": 0, "most": 1, "fewest": 1}
    )
    """Mean of each channel, of pixels in 0..1."""
    std: list[float] = field(
        default_factory=lambda: list(description.IMAGENET_STD), metadata={"least": 0.001, "most": 1, "fewest": 1}
    )
    """Standard deviation of each channel, of pixels in 0..1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels not in (1, 3):
            raise BadConfiguration(f"dataset.channels must be 3 (colour) or 1 (grey), not {self.channels!r}")
        if self.cache == "decoded" and self.is_resized_crop:
            raise BadConfiguration(
                "dataset.cache=decoded keeps images at the network's size, so random resized crops are impossible with it. "
                f"dataset.crop={self.crop} with images of {self.image} pixels needs them: use dataset.cache=encoded, or "
                "dataset.crop=pad"
            )
        if not len(self.mean) == len(self.std) == self.channels:
            raise BadConfiguration(
                f"dataset.mean and dataset.std must have one number for each of the {self.channels} channels, "
                f"not mean={list(self.mean)!r} std={list(self.std)!r}: give {self.channels} of each"
            )

    def as_images(self) -> ImagesConf:
        return self

    @property
    def is_resized_crop(self) -> bool:
        """True if images are cropped as for ImageNet. False for the padded crop of CIFAR-10."""
        return self.crop == "resized" or (self.crop == "auto" and self.image > 64)


@dataclass
class ImagenetConf(FilesConf):
    """ImageNet (ILSVRC-2012) at 224×224: root/train/CLASS/*.JPEG, root/val/CLASS/*.JPEG, or WebDataset shards."""

    module: ClassVar[str] = "aiperf.data.sets.images"
    name: str = "imagenet"
    format: str = field(default="folder", metadata={"among": get_args(Format)})
    """folder for class folders, webdataset for tar shards of NAME.jpg and NAME.cls, as `python -m aiperf prepare` packs
    them.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cache == "decoded":
            raise BadConfiguration(
                "dataset.cache=decoded keeps images at the network's size, so random resized crops are impossible with it. "
                "dataset=imagenet needs them: use dataset.cache=encoded"
            )

    def published(self) -> description.DataSet:
        return description.DataSet(
            self.name,
            description.IMAGENET_TRAINING_IMAGES,
            description.IMAGENET_VALIDATION_IMAGES,
            description.IMAGENET_CLASSES,
            image=224,
            channels=3,
            mean=description.IMAGENET_MEAN,
            std=description.IMAGENET_STD,
        )

    def as_images(self) -> ImagesConf:
        return ImagesConf(**self.file_options(), image=224, format=self.format, crop="resized")


@dataclass
class WeatherConf(ReadAheadConf):
    """Extreme weather: years of climate fields of 16 channels with boxes of four kinds of events, as HDF5 files."""

    module: ClassVar[str] = "aiperf.data.sets.weather"
    usual_start: ClassVar[str] = "faster_rcnn_r50"
    files: ClassVar[str | None] = "climo_YYYY.h5, one file a year"
    name: str = "weather"
    augment: bool = True
    """Roll the training images in longitude, so that no box is cut. They are not flipped, because winds have signs."""
    validation_years: list[int] | None = field(default=None, metadata={"least": 1, "most": 9999, "fewest": 1})
    """Years that validate. The other years are trained. Default: the last tenth of the years, at least one."""


@dataclass
class WeatherSyntheticConf(DataSetConf):
    """Weather images generated from a seed: 16 smooth fields with four kinds of events. In memory, without files."""

    module: ClassVar[str] = "aiperf.data.sets.weather_synthetic"
    usual_start: ClassVar[str] = "faster_rcnn_small"
    name: str = "weather_synthetic"
    augment: bool = True
    """Roll the training images in longitude, so that no box is cut."""
    training_images: int = field(default=240, metadata={"least": 2, "most": 1_000_000})
    """Training images of one epoch."""
    validation_images: int = field(default=60, metadata={"least": 2, "most": 1_000_000})
    """Validation images."""
    height: int = field(default=64, metadata={"least": 32, "most": LARGEST, "unit": "pixels"})
    """Height of an image in pixels, a multiple of 32."""
    width: int = field(default=96, metadata={"least": 32, "most": LARGEST, "unit": "pixels"})
    """Width of an image in pixels, a multiple of 32."""
    seed: int = field(default=0, metadata={"least": 0})
    """Seed of fields and events."""

    @property
    def opening_bytes(self) -> int:
        return 4 * WEATHER_CHANNELS * self.height * self.width * (self.training_images + self.validation_images)


@dataclass
class SequencesConf(FolderConf):
    """Options that all sets of token sequences share. The target of a token is the next one."""

    usual_start: ClassVar[str] = "llama_tiny"
    augment: bool = True
    """Draw new training sequences in each epoch. False: the same ones in every epoch."""
    length: int = field(default=128, metadata={"least": 2, "most": LONGEST, "unit": "tokens"})
    """Tokens of one sequence."""
    training_samples: int = field(default=256, metadata={"least": 2, "most": 10**9, "unit": "sequences"})
    """Training sequences of one epoch, each from a random place of the training tokens."""
    validation_samples: int = field(default=64, metadata={"least": 2, "most": 10**9, "unit": "sequences"})
    """Validation sequences, at equal distances in the validation tokens."""

    def described(
        self, vocabulary: int, fingerprint: str, contents: str, source: str | None = None
    ) -> description.DataSet:
        return description.DataSet(
            self.name,
            self.training_samples,
            self.validation_samples,
            vocabulary,
            self.length,
            channels=1,
            mean=(0.0,),
            std=(1.0,),
            fingerprint=fingerprint,
            contents=contents,
            targets="tokens",
            source=source,
            noun=SEQUENCE,
        )


@dataclass
class TextConf(SequencesConf):
    """Text files, of which the bytes are the tokens. Default: Python's standard library."""

    module: ClassVar[str] = "aiperf.data.sets.text"
    quick_epochs: ClassVar[tuple[int, ...]] = (4, 6, 8, 10)
    files: ClassVar[str | None] = "text files, at any depth"
    name: str = "text"
    root: str | None = None
    """Folder of the text files. Default: the standard library of the running Python, without its tests."""
    pattern: str = field(
        default="*.py", metadata={"form": (r"[^/\x00-\x1f]+", "a pattern of file names, such as *.txt")}
    )
    """Files to read, in all folders below the root: a name with the wildcards * ? [] of a shell."""


@dataclass
class TokensConf(SequencesConf):
    """Tokens in files, 16 bits each: train.bin and val.bin of nanoGPT, or *_train_*.bin and *_val_*.bin of llm.c."""

    module: ClassVar[str] = "aiperf.data.sets.tokens"
    usual_start: ClassVar[str] = "llama_162m"
    files: ClassVar[str | None] = "train.bin and val.bin (nanoGPT), or *train*.bin and *val*.bin with llm.c's header"
    name: str = "tokens"
    vocabulary: int = field(default=50257, metadata={"least": 2, "most": 65536, "unit": "tokens"})
    """Different tokens. Default: those of GPT-2. All numbers in the files are below it."""
    length: int = field(default=1024, metadata={"least": 2, "most": LONGEST, "unit": "tokens"})
    """Tokens of one sequence."""
    training_samples: int = field(default=16384, metadata={"least": 2, "most": 10**9, "unit": "sequences"})
    """Training sequences of one epoch, each from a random place of the training tokens."""
    validation_samples: int = field(default=1024, metadata={"least": 2, "most": 10**9, "unit": "sequences"})
    """Validation sequences, at equal distances in the validation tokens."""


DATA_SETS: tuple[type[DataSetConf], ...] = (
    DigitsConf,
    ImagesConf,
    Cifar10Conf,
    ImagenetConf,
    SyntheticConf,
    WeatherConf,
    WeatherSyntheticConf,
    TextConf,
    TokensConf,
)
"""All available data sets, under their names. conf/dataset/NAME.yaml has the further options that a choice sets."""
