"""Packing of images into tar shards in WebDataset's format.

A sample is a pair of NAME.jpg and NAME.cls, which has the class's number as text. The distribution of images over shards
depends only on the listing, so an interrupted pack can continue. A shard is renamed to its final name when it is complete.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from numpy.typing import NDArray

from aiperf.data.errors import DataError
from aiperf.data.files.checksums import require_alone
from aiperf.data.files.samples import INDEX, Samples, ShardIndex, scan
from aiperf.data.visiting_order import shuffled

_IMAGES_OF_A_SHARD = 1000
_SEED = 0

CLASSES = "aiperf-classes.json"
"""File with the classes' names in the order of their numbers. Shards do not contain the names."""

_PACKED_FROM = "aiperf-packed-from.txt"


def pack(
    samples: dict[str, Samples],
    corrupt: Collection[str],
    folder: Path,
    advance: Callable[[int], None],
    images_of_a_shard: int = _IMAGES_OF_A_SHARD,
) -> int:
    """Write SPLIT-000000.tar … for each split, without the images named in `corrupt`. Return the number of shards.

    Images are shuffled, because tools that read shards in order need them mixed. `advance(images)` is called after each
    shard. Raises DataError if the folder has the shards of another listing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    claim = folder / _PACKED_FROM
    if not claim.exists() and any(folder.glob("*.tar")):
        raise DataError(
            f"shards must be packed into an empty folder, but {str(folder)!r} contains other files: name an empty folder"
        )
    with claim.open("a+b") as claimed:
        require_alone(claimed, claim)
        _claim(claimed, _listed(samples, corrupt, images_of_a_shard), folder)
        return _packed(samples, corrupt, folder, advance, images_of_a_shard)


def _packed(
    samples: dict[str, Samples],
    corrupt: Collection[str],
    folder: Path,
    advance: Callable[[int], None],
    images_of_a_shard: int,
) -> int:
    index: list[ShardIndex] = []
    for split, listed in samples.items():
        order = [int(i) for i in shuffled(len(listed), _SEED, 0) if listed.name(int(i)) not in corrupt]
        digits = len(str(len(listed)))
        for number, start in enumerate(range(0, len(order), images_of_a_shard)):
            path = folder / f"{split}-{number:06d}.tar"
            members = order[start : start + images_of_a_shard]
            if not path.exists():
                _write(path, listed, np.array(members, np.int64), digits)
            index.append(ShardIndex(path.name, path.stat().st_size, scan(path)))
            advance(len(members))
    classes = next(iter(samples.values())).classes
    _replace(folder / CLASSES, msgspec.json.format(msgspec.json.encode(classes)) + b"\n")
    _replace(folder / INDEX, b"".join(msgspec.json.encode(entry) + b"\n" for entry in index))
    return len(index)


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically. A run may read the files of an interrupted pack."""
    draft = path.with_name(f".{path.name}.partial")
    draft.write_bytes(content)
    draft.replace(path)


def _listed(samples: dict[str, Samples], corrupt: Collection[str], images_of_a_shard: int) -> str:
    """Return a hash of everything that is packed."""
    digest = hashlib.sha256(str(images_of_a_shard).encode())
    for split, listed in samples.items():
        digest.update(split.encode())
        digest.update(listed.sizes().tobytes())
        for number in range(len(listed)):
            digest.update(listed.name(number).encode(errors="surrogateescape"))
    for name in sorted(corrupt):
        digest.update(name.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _claim(claimed: IO[bytes], own: str, folder: Path) -> None:
    claimed.seek(0)
    claim = claimed.read().decode("utf-8", "replace").strip()
    if not claim:
        claimed.write(f"{own}\n".encode())
        claimed.flush()
    elif claim != own:
        raise DataError(
            f"the shards in {str(folder)!r} were packed from other files than dataset.root holds now: "
            "remove them, or name an empty folder"
        )


def _write(path: Path, samples: Samples, members: NDArray[np.int64], digits: int) -> None:
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar:
        for member in members.tolist():
            key = f"{member:0{digits}d}"
            name = samples.keys[member] if samples.is_sharded else samples.paths[member].name
            _add(tar, f"{key}.cls", str(int(samples.labels[member])).encode())
            _add(tar, f"{key}{_extension(name)}", samples.read(member))
    partial.replace(path)


def _extension(name: str) -> str:
    extension = Path(name).suffix.lower()
    return ".jpg" if extension == ".jpeg" else extension


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
