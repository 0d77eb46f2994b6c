"""The fingerprint of a data set: what it is made of, in one word that two hosts can compare.

SHA-256 over a line for each image, "PATH LABEL BYTES" with tabs between, in the order of splits, classes and names. Paths are
below the set's root, so that it is the same wherever the set lies. What the files hold is `checksums.set_checksum`'s matter.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from aiperf.data.dataset_config import DataSetConf
from aiperf.data.samples import Samples


def of_splits(root: Path, splits: Sequence[Samples]) -> str:
    """Of image files below a root. Raises OSError where a file cannot be asked for its size."""
    cut = len(str(root)) + 1
    return of_lines(
        (split.name(index)[cut:], label, size)
        for split in splits
        for index, (label, size) in enumerate(zip(split.labels.tolist(), split.sizes().tolist(), strict=True))
    )


def of_files(root: Path, files: Iterable[Path]) -> str:
    """Of files that hold many images each."""
    return of_lines((file.relative_to(root).as_posix(), -1, file.stat().st_size) for file in files)


def of_lines(lines: Iterable[tuple[str, int, int]]) -> str:
    """Of (path, label, bytes); label -1 where a file has none."""
    digest = hashlib.sha256()
    for path, label, size in lines:
        digest.update(os.fsencode(f"{path}\t{label}\t{size}\n"))
    return digest.hexdigest()


def of_options(conf: DataSetConf) -> str:
    """Of a set that lies in no files of the user's: its options make it."""
    return hashlib.sha256(msgspec.json.encode(asdict(conf), order="deterministic")).hexdigest()
