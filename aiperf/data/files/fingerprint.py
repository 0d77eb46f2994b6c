"""Fingerprint of a data set: a SHA-256 by which two hosts can check that their sets are equal.

It is computed over a line per image, "PATH LABEL BYTES" separated by tabs, in the order of splits, classes and names. Paths are
relative to the set's root. `checksums.set_checksum` covers the contents of files.
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
    cut = len(str(root)) + 1
    return of_lines(
        (split.path_text(index)[cut:], label, size)
        for split in splits
        for index, (label, size) in enumerate(zip(split.labels.tolist(), split.sizes().tolist(), strict=True))
    )


def of_files(root: Path, files: Iterable[Path]) -> str:
    """Return the fingerprint of files with many images each, over path and size of each file."""
    return of_lines((file.relative_to(root).as_posix(), -1, file.stat().st_size) for file in files)


def of_lines(lines: Iterable[tuple[str, int, int]]) -> str:
    """Return the SHA-256 over (path below the set's root, label, size in bytes) of each file. Label −1: no label."""
    digest = hashlib.sha256()
    for path, label, size in lines:
        digest.update(os.fsencode(f"{path}\t{label}\t{size}\n"))
    return digest.hexdigest()


def of_options(conf: DataSetConf) -> str:
    return hashlib.sha256(msgspec.json.encode(asdict(conf), order="deterministic")).hexdigest()
