"""ImageNet (ILSVRC-2012) from its original archives: their sums, and the class folders that torchvision makes of them."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from aiperf.data.errors import DataError


def unpack(archives: Path, root: Path) -> dict[str, dict[str, str]]:
    """Make root/train and root/val from the archives in a folder. Return their MD5 and SHA-256 sums by name.

    Raise DataError without an archive, for another MD5 sum than the published one, or if train or val exists. A call that is
    interrupted leaves neither.
    """
    from torchvision.datasets import imagenet, utils  # imports torch

    if there := [str(root / split) for split in ("train", "val") if (root / split).exists()]:
        raise DataError(
            f"--archives makes train/ and val/ in the folder of the set, but found {' and '.join(map(repr, there))}: remove "
            "them, or leave --archives out"
        )
    train, val, devkit = paths = [str((archives / name).resolve()) for name, _ in imagenet.ARCHIVE_META.values()]
    sums: dict[str, dict[str, str]] = {}
    for path, (name, md5) in zip(paths, imagenet.ARCHIVE_META.values(), strict=True):
        if not utils.check_integrity(path, md5):
            raise DataError(
                f"{name} must have the published MD5 sum {md5}, but {path!r} has not: copy the archive again"
            )
        with Path(path).open("rb") as file:
            sums[name] = {"md5": md5, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    with tempfile.TemporaryDirectory(prefix=".aiperf-archives-", dir=root) as made:
        imagenet.parse_devkit_archive(made, devkit)
        imagenet.parse_train_archive(made, train)
        imagenet.parse_val_archive(made, val)
        for split in ("train", "val"):
            (Path(made) / split).rename(root / split)
    return sums
