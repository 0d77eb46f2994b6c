"""Reader of CIFAR-10's binary version: records of one label byte and 3072 pixel bytes. Pickles are not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aiperf.data.errors import DamagedData, MissingData
from aiperf.data.files.samples import tree

TRAINING_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
VALIDATION_FILE = "test_batch.bin"
RECORDS = 10_000
RECORD_BYTES = 1 + 3 * 32 * 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def find(root: Path) -> Path | None:
    """Return the folder of the six binary files, None for class folders. Raise MissingData without both, or without a file."""
    for folder in (root, root / "cifar-10-batches-bin"):
        present = [name for name in (*TRAINING_FILES, VALIDATION_FILE) if (folder / name).is_file()]
        if present:
            missing = sorted({*TRAINING_FILES, VALIDATION_FILE} - set(present))
            if missing:
                raise MissingData(
                    f"CIFAR-10 has six files. Missing in {str(folder)!r}: {', '.join(missing)}. Unpack "
                    "cifar-10-binary.tar.gz there again"
                )
            return folder
    if (root / "train").is_dir():
        return None
    pickles = any((folder / "data_batch_1").is_file() for folder in (root, root / "cifar-10-batches-py"))
    raise MissingData(
        f"there is no CIFAR-10 in {str(root)!r}"
        + (
            " but its version for Python, which is pickles and is not read (a pickle can run any program)"
            if pickles
            else ""
        )
        + f". It must contain the binary version (cifar-10-binary.tar.gz, unpacked):\n  {root}/\n    cifar-10-batches-bin/\n"
        f"      {TRAINING_FILES[0]} … {TRAINING_FILES[-1]} {VALIDATION_FILE}\nor class folders: {tree(root)}"
    )


def labels(file: Path) -> NDArray[np.int64]:
    """Return the classes 0..9 of the 10,000 images of a file. Raise DamagedData if they are others."""
    labels_read = _records(file)[:, 0].astype(np.int64)
    wrong = np.nonzero(labels_read >= len(CLASSES))[0]
    if len(wrong):
        raise DamagedData(
            f"a label must be in 0..9, but record {int(wrong[0])} of {str(file)!r} has {int(labels_read[wrong[0]])}: "
            "copy the file again"
        )
    return labels_read


def pixels(file: Path) -> NDArray[np.uint8]:
    """Return the images of a file, uint8 RGB, shape (10000, 32, 32, 3)."""
    return np.ascontiguousarray(_records(file)[:, 1:].reshape(RECORDS, 3, 32, 32).transpose(0, 2, 3, 1))


def check(file: Path) -> None:
    """Raise DamagedData if the size of a binary file is not that of 10,000 records. The content is not read."""
    size = file.stat().st_size
    if size != RECORDS * RECORD_BYTES:
        raise DamagedData(
            f"a file of CIFAR-10 has {RECORDS} records of {RECORD_BYTES} bytes, {RECORDS * RECORD_BYTES} in all, but "
            f"{str(file)!r} has {size}: copy it again"
        )


def _records(file: Path) -> NDArray[np.uint8]:
    check(file)
    return np.fromfile(file, np.uint8).reshape(RECORDS, RECORD_BYTES)
