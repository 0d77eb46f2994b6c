"""Result of `python -m aiperf prepare`, the check of a data set, as numbers and as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiperf.data.description import DataSet
from aiperf.errors import BadConfiguration


@dataclass(frozen=True, slots=True)
class PrepareReport:
    """Result of the check of a data set."""

    description: DataSet
    """The set as listed, including corrupt images."""
    files: int = 0
    files_checked_now: int = 0
    """Files that were checked in this call. The others were checked before and have not changed."""
    bytes: int = 0
    corrupt: tuple[tuple[str, str], ...] = ()
    """Pairs of a file below the root and the decoder's error."""
    corrupt_limit: int = 0
    checksum: str | None = None
    """SHA-256 of the whole set (see `checksums.set_checksum`). None if no image files were read."""
    checksums: Path | None = None
    """File with each file's checksum."""
    shards: int = 0
    """Number of written shards."""
    index: Path | None = None
    """Index of the set's class folders. None if it has no class folders."""
    remarks: tuple[str, ...] = ("nothing to check: the set has no files",)
    """Result for a set without image files."""

    @property
    def is_usable(self) -> bool:
        """True if at most dataset.corrupt_limit images are corrupt (weather files: no fault). A run refuses other sets."""
        return len(self.corrupt) <= self.corrupt_limit

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of text for the user: counts of images, checksum, corrupt images, fingerprint and shards.

        A set without image files has the counts and its remarks.
        """
        about = self.description
        lines = [
            f"{about.name}: {about.training_images:,} training and {about.validation_images:,} validation images, "
            f"{about.classes:,} classes, {about.size_in_words}"
        ]
        if about.name == "imagenet":
            lines.append(
                "all of ImageNet (ILSVRC-2012): may be ranked"
                if about.is_full_imagenet
                else "not all of ImageNet (1,281,167 and 50,000 images of 1000 classes): cannot be ranked"
            )
        if self.checksum is None:
            return (*lines, *self.remarks)
        lines.append(f"{self.files:,} files, {self.bytes / 2**30:.2f} GiB; {self.files_checked_now:,} checked now")
        lines.append(f"SHA-256 of the set {self.checksum}; of each file: {self.checksums}")
        verdict = (
            ""
            if self.is_usable
            else f": more than dataset.corrupt_limit={self.corrupt_limit}, a run will refuse the set"
        )
        lines.append(f"{len(self.corrupt)} corrupt images{verdict}")
        lines += [f"  {name}: {reason}" for name, reason in self.corrupt]
        if about.fingerprint is not None:
            where = "" if self.index is None else f"; index of the class folders, which runs read: {self.index}"
            lines.append(f"fingerprint {about.fingerprint}{where}")
        if about.note is not None:
            lines.append(about.note)
        if self.shards:
            lines.append(f"{self.shards} shards packed")
        return tuple(lines)


def require_images(description: DataSet, pack: Path | None) -> None:
    """Raise BadConfiguration if `pack` is given, because a set without image files cannot be packed. Return nothing.

    `description`: set without image files. `pack`: folder of --pack, None without this option.
    """
    if pack is not None:
        raise BadConfiguration(
            f"only image files can be packed, but data set {description.name!r} has none: leave out --pack"
        )
