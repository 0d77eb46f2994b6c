"""Fingerprint of a data set, by which two hosts can compare their sets.

SHA-256 over a line per image, "PATH LABEL BYTES" separated by tabs, in the order of splits, classes and names. Paths
are relative to the set's root, so the fingerprint is independent of the set's location. `checksums.set_checksum` covers
the contents of files.
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
    """Return the SHA-256 over path, label and bytes of each image file below a root. Raises OSError."""
    cut = len(str(root)) + 1
    return of_lines(
        (split.name(index)[cut:], label, size)
        for split in splits
        for index, (label, size) in enumerate(zip(split.labels.tolist(), split.sizes().tolist(), strict=True))
    )


def of_files(root: Path, files: Iterable[Path]) -> str:
    """Return the SHA-256 over path and bytes of files that hold many images each. Raises OSError."""
    return of_lines((file.relative_to(root).as_posix(), -1, file.stat().st_size) for file in files)


def of_lines(lines: Iterable[tuple[str, int, int]]) -> str:
    """Return the hexadecimal SHA-256 over (path, label, bytes) of each file, in order. Label -1 for a file without one."""
    digest = hashlib.sha256()
    for path, label, size in lines:
        digest.update(os.fsencode(f"{path}\t{label}\t{size}\n"))
    return digest.hexdigest()


def of_options(conf: DataSetConf) -> str:
    """Return the SHA-256 of a generated set's options, in hexadecimal."""
    return hashlib.sha256(msgspec.json.encode(asdict(conf), order="deterministic")).hexdigest()
