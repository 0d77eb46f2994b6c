"""Fingerprint of a data set: a SHA-256 by which two hosts can check that their sets are equal.

It is computed over a line per image, "PATH LABEL BYTES" separated by tabs, in the order of splits, classes and names. Paths are
relative to the set's root. The fingerprint is therefore independent of the set's location. `checksums.set_checksum` covers the
contents of files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from aiperf.data.dataset_config import DataSetConf
from aiperf.data.files.samples import Samples


def of_splits(root: Path, splits: Sequence[Samples]) -> str:
    """Return the fingerprint of a set of image files: SHA-256, as hexadecimal digits, over path, label and size of each image.

    `root`: folder of the set. `splits`: its training images and its validation images. Sizes are in bytes. Raise OSError if the
    size of a file cannot be read.
    """
    cut = len(str(root)) + 1
    return of_lines(
        (split.word(index)[cut:], label, size)
        for split in splits
        for index, (label, size) in enumerate(zip(split.labels.tolist(), split.sizes().tolist(), strict=True))
    )


def of_files(root: Path, files: Iterable[Path]) -> str:
    """Return the fingerprint of files with many images each: SHA-256, as hexadecimal digits, over path and size of each file.

    `root`: folder of the set. `files`: files below it, in a fixed order. Sizes are in bytes. Raise OSError if the size of a
    file cannot be read.
    """
    return of_lines((file.relative_to(root).as_posix(), -1, file.stat().st_size) for file in files)


def of_lines(lines: Iterable[tuple[str, int, int]]) -> str:
    """Return the SHA-256, as hexadecimal digits, over one text line PATH LABEL BYTES for each file, in the given order.

    `lines`: (path below the set's root, label, size in bytes). Label −1: the file has no label.
    """
    digest = hashlib.sha256()
    for path, label, size in lines:
        digest.update(os.fsencode(f"{path}\t{label}\t{size}\n"))
    return digest.hexdigest()


def of_options(conf: DataSetConf) -> str:
    """Return the fingerprint of a generated set: SHA-256 of its options as JSON, as hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(asdict(conf), order="deterministic")).hexdigest()
