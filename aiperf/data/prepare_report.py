"""Result of `python -m aiperf prepare`, the check of a data set, as numbers and as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiperf.data.description import DataSet
from aiperf.errors import BadConfiguration


@dataclass(frozen=True, slots=True)
class PrepareReport:
    description: DataSet
    files: int = 0
    files_checked_now: int = 0
    bytes: int = 0
    corrupt: tuple[tuple[str, str], ...] = ()
    corrupt_limit: int = 0
    checksum: str | None = None
    """SHA-256 of the whole set (see `checksums.set_checksum`). None if no image files were read."""
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
    """Raise BadConfiguration if `pack` is given, because a set without image files cannot be packed."""
    if pack is not None:
        raise BadConfiguration(
            f"only image files can be packed, but data set {description.name!r} has none: leave out --pack"
        )
