"""The largest batch as the groups of one host share it: the first measures, the others read what it found. No torch here.

One small JSON file for each family of architectures, kind of accelerator and host, in the run's folder; it outlives restarts of
a group and of the run. Removing it has the ceiling measured anew.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from aiperf.journal.lease import NO_LOCKS


@dataclass(frozen=True, slots=True)
class Kind:
    """What a ceiling holds for."""

    host: str
    device: str
    """The accelerator's model, or the processor's."""
    memory: str
    """What is there for a rank, in words that are equal for equal groups."""
    family: str
    """The starting graph's fingerprint."""
    precision: str


def shared_ceiling(folder: Path, kind: Kind, measure: Callable[[], int]) -> int:
    """The ceiling of this kind, in images a rank: from the folder, else measured and left there.

    Groups that start together wait for the one that measures (flock, which the kernel lets go of when its holder dies). Where
    the folder's file system keeps no locks each measures for itself, and the last one's stands for those that come later.
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
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({**asdict(kind), "batch_size": found}, indent=1) + "\n")
        temporary.replace(file)
        return found
