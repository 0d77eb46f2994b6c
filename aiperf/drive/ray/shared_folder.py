"""Whether a run's folder is one folder for all hosts: the driver leaves a word there, and each worker's host looks for it.

A host on which another file system is mounted there, or none, would otherwise make a folder of its own under the same name, and
its checkpoints and telemetry would be where nobody looks.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path

from aiperf.errors import NotShared
from aiperf.system.storage import RUN, storage

NONCE = "driver-was-here"
"""The file's name; the last driver's word stands in it."""
PATIENCE_SECONDS = 65.0
"""A client of NFS may believe for so long that a file is not there, or holds what it held (acdirmax, acregmax: 60 s)."""
LOOK_SECONDS = 0.2


def leave_word(folder: Path) -> str:
    """Writes a new word into the run's folder, whole or not at all, and gives it."""
    word = secrets.token_hex(16)
    draft = folder / f".{NONCE}.{os.getpid()}.tmp"
    with draft.open("w") as file:
        file.write(word)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / NONCE)
    return word


def check_shared(folder: Path, word: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Returns when the driver's word is seen here. Makes nothing.

    Raises:
        NotShared: it is not, for as long as a file system may take that has it.
    """
    deadline = time.monotonic() + patience_seconds
    while (found := _read(folder)) != word:
        if time.monotonic() >= deadline:
            raise NotShared(_offence(folder, found))
        time.sleep(LOOK_SECONDS)


def _read(folder: Path) -> str | None:
    try:
        list(folder.iterdir())  # has a client of NFS ask its server anew
        return (folder / NONCE).read_text()
    except OSError:
        return None


def _offence(folder: Path, found: str | None) -> str:
    host = socket.gethostname()
    if not folder.exists():
        what = "there is no such folder"
    elif found is None:
        what = f"the driver's file {NONCE!r} is not in it"
    else:
        what = f"its {NONCE!r} is another driver's"
    (on,) = storage({RUN: folder})
    where = f"; it lies on {on.file_system} from {on.source}" if on.file_system else ""
    return (
        f"this folder is not shared: '{folder}' on {host}: {what}{where}. A run's folder is one for driver and workers: "
        "mount the same file system there on each host, or take a folder that all share: runs=FOLDER"
    )
