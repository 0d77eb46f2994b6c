"""Description of a data set in numbers, which is enough to plan a run, and the result of its check by `prepare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.units import IMAGE, Noun, count, size

IMAGENET_TRAINING_IMAGES = 1_281_167
IMAGENET_VALIDATION_IMAGES = 50_000
IMAGENET_CLASSES = 1000

# Mean and deviation of each channel over the training images, of pixels in 0..1: the commonly used values.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2470, 0.2435, 0.2616)
SYNTHETIC_MEAN = (0.5,)  # by construction
SYNTHETIC_STD = (0.25,)


NUMBERS = ("training_images", "validation_images", "classes", "image", "channels")


@dataclass(frozen=True, slots=True)
class DataSet:
    """A set of labelled images or of token sequences, with a fixed split into training and validation.

    A sequence has one channel, its length is `image`, and the classes are its vocabulary.
    """

    name: str
    training_images: int
    validation_images: int
    classes: int
    image: int
    """Height of an image as the network sees it, in pixels, and its width unless `width` is given."""
    channels: int
    mean: tuple[float, ...]
    """Per channel, of pixels in 0..1 or of physical values. Images are normalised as (pixel − mean) / std."""
    std: tuple[float, ...]
    noise: float = 0.0
    """Standard deviation of noise added to real images, as a share of a pixel's range. It makes the task harder."""
    fingerprint: str | None = None
    """Fingerprint of its files (see `files/index.py`), or of the options that generate it. None if no files were read."""
    contents: str | None = None
    """SHA-256 of its contents (`files/samples.py`). None if it is generated, or if `prepare` did not read it."""
    archives: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """MD5 and SHA-256 by name of the archives with the published sums from which `prepare` made the set."""
    width: int | None = None
    """Width of an image in pixels. None if it equals the height."""
    targets: Literal["classes", "boxes", "tokens"] = "classes"
    source: str | None = None
    """Program whose files were read, with its release. None for files that the user named."""
    noun: Noun = IMAGE
    """Noun of a sample, for screens and pages. Options, journal and report.json keep their names."""
    validation_years: tuple[int, ...] = ()
    note: str | None = field(default=None, compare=False)
    """Note on a problem of the set, to print before a run, with the fix. None without a problem."""

    def __post_init__(self) -> None:
        assert self.training_images > 0 and self.validation_images > 0 and self.classes > 1, self
        assert len(self.mean) == len(self.std) == self.channels, self

    @property
    def samples(self) -> str:
        counts = f"{count(self.training_images)} training and {count(self.validation_images)} validation"
        return f"{self.name}: {counts} {self.noun.many}"

    @property
    def classes_in_words(self) -> str:
        return f"{count(self.classes)} {'different tokens' if self.targets == 'tokens' else 'classes'}"

    @property
    def counts(self) -> str:
        return f"{self.samples}, {self.classes_in_words}"

    @property
    def size_in_words(self) -> str:
        if self.targets == "tokens":
            return f"{count(self.image)} tokens each"
        return f"{self.image}×{self.width or self.image}×{self.channels}"

    @property
    def recorded(self) -> dict[str, Any]:
        """Values for the field `dataset` of RunStarted. Fields of one kind of sets are recorded for it only."""
        names = ("name", *NUMBERS, "is_full_imagenet", "noise", "fingerprint")
        values = {name: getattr(self, name) for name in names}
        values |= {name: found for name in ("contents", "archives", "source") if (found := getattr(self, name))}
        if self.targets == "boxes":
            values |= {"targets": self.targets, "width": self.width or self.image}
        if self.targets == "tokens":
            values["targets"] = self.targets
        if self.noun != IMAGE:
            values |= {"sample": self.noun.one, "samples": self.noun.many}
        if self.validation_years:
            values["validation_years"] = list(self.validation_years)
        return values

    @property
    def is_full_imagenet(self) -> bool:
        """True for all of ILSVRC-2012 at 224×224: 1,281,167 and 50,000 images of 1000 classes. The ranking needs it."""
        return (self.name, self.image, self.training_images, self.validation_images, self.classes) == (
            "imagenet",
            224,
            IMAGENET_TRAINING_IMAGES,
            IMAGENET_VALIDATION_IMAGES,
            IMAGENET_CLASSES,
        )


# The split is ours (scikit-learn ships one set of 1797): see sets/digits.py. Mean and deviation are of the training images.
DIGITS = DataSet("digits", 1437, 360, 10, 8, 1, (0.3053,), (0.3761,))


SAMPLE = 1000
"""Files of a copy that are hashed at the start of a run. Of 0.5 % changed files at least one is found in 99.3 %."""


class HashedFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """Files of one copy of a set that a node hashed at the start of a run, compared with the set's index."""

    contents: str
    hashed: int
    files: int
    """Files of the set."""
    seed: int
    """Seed of the draw, random for each check: nobody knows the files before."""
    is_shared: bool = False
    """True on a network file system. The nodes then share the draw."""
    changed: list[str] = []
    """Hashed files with other contents than in the index."""


@dataclass(frozen=True, slots=True)
class PrepareReport:
    description: DataSet
    files: int = 0
    files_checked_now: int = 0
    bytes: int = 0
    corrupt: tuple[tuple[str, str], ...] = ()
    corrupt_limit: int = 0
    checksums: Path | None = None
    shards: int = 0
    index: Path | None = None
    remarks: tuple[str, ...] = ("nothing to check: the set has no files",)

    @property
    def is_usable(self) -> bool:
        """True if at most dataset.corrupt_limit images are corrupt (weather files: no fault). A run refuses other sets."""
        return len(self.corrupt) <= self.corrupt_limit

    @property
    def lines(self) -> tuple[str, ...]:
        about = self.description
        lines = [f"{about.counts}, {about.size_in_words}"]
        if about.name == "imagenet":
            lines.append(
                "all of ImageNet (ILSVRC-2012): may be ranked"
                if about.is_full_imagenet
                else "not all of ImageNet (1,281,167 and 50,000 images of 1000 classes): cannot be ranked"
            )
        if self.checksums is None:
            return (*lines, *self.remarks)
        lines.append(f"{count(self.files)} files, {size(self.bytes)}; {count(self.files_checked_now)} checked now")
        lines.append(f"contents {about.contents}; SHA-256 of each file: {self.checksums}")
        lines += [f"made from {name}, with the published MD5 sum" for name in about.archives]
        verdict = (
            ""
            if self.is_usable
            else f": more than dataset.corrupt_limit={self.corrupt_limit}, a run will refuse the set"
        )
        lines.append(f"{len(self.corrupt)} corrupt {about.noun.many}{verdict}")
        lines += [f"  {name}: {reason}" for name, reason in self.corrupt]
        if about.fingerprint is not None:
            where = "" if self.index is None else f"; index of the class folders, which runs read: {self.index}"
            lines.append(f"fingerprint {about.fingerprint}{where}")
        if about.note is not None:
            lines.append(about.note)
        if self.shards:
            lines.append(f"{self.shards} shards packed")
        return tuple(lines)


def without_files(description: DataSet, pack: Path | None) -> PrepareReport:
    """Return the report of a set without image files. Raise BadConfiguration if it is to be packed."""
    if pack is not None:
        raise BadConfiguration(
            f"only image files can be packed, but data set {description.name!r} has none: leave out --pack"
        )
    return PrepareReport(description)
