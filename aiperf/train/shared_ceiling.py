"""Largest batch, shared by the groups of one host: the first measures it, the others read the result. No torch here.

The run's folder has one small JSON file for each family of architectures, kind of accelerator and host. It survives
restarts of a group and of the run. Remove it to measure the batch again.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from aiperf.atomic_files import replace_file
from aiperf.files import NO_LOCKS


@dataclass(frozen=True, slots=True)
class CeilingKey:
    """Key of a measured batch."""

    host: str
    device: str
    """Model of the accelerator or CPU."""
    memory: str
    """Memory of a rank, as text that is equal for equal groups."""
    family: str
    """The starting graph's fingerprint."""
    precision: str


def shared_ceiling(folder: Path, kind: CeilingKey, measure: Callable[[], int]) -> int:
    """Return the largest batch of this kind, in images per rank, from the folder. Measure and write it if it is absent.

    Groups that start together wait for the one that measures (flock, which the kernel releases when its holder dies).
    On a file system without locks each group measures, and the last result stays for later groups.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = blake2b("\n".join(asdict(kind).values()).encode(), digest_size=8).hexdigest()
    file = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        if file.exists():
            return int(json.loads(file.read_text())["batch_size"])
        found = measure()
        replace_file(file, json.dumps({**asdict(kind), "batch_size": found}, indent=1).encode() + b"\n")
        return found
