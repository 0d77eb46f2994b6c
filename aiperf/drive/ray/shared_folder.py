"""Check by a marker file that a run's folder is the same on all hosts. Otherwise checkpoints and telemetry would be lost."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from aiperf.atomic_files import draft_of
from aiperf.errors import NotShared
from aiperf.files import host_name
from aiperf.system.describe import RUN, storage

NONCE = "driver-was-here"
"""Name of the marker file. It contains the last driver's random text."""
PATIENCE_SECONDS = 65.0
"""Maximum time for which an NFS client may show an old state of a file (acdirmax, acregmax: 60 s)."""
LOOK_SECONDS = 0.2


def write_marker(folder: Path) -> str:
    """Write a new random text into the marker file of the run's folder, and return the text."""
    marker = secrets.token_hex(16)
    with draft_of(folder / NONCE) as draft, draft.open("w") as file:
        file.write(marker)
        file.flush()
        os.fsync(file.fileno())
    return marker


def check_shared(folder: Path, marker: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until the marker file in the run's folder contains `marker`, the text that the driver wrote. Create nothing."""
    deadline = time.monotonic() + patience_seconds
    while (content := _read(folder)) != marker:
        if time.monotonic() >= deadline:
            raise NotShared(_offence(folder, content))
        time.sleep(LOOK_SECONDS)


def _read(folder: Path) -> str | None:
    try:
        list(folder.iterdir())  # makes an NFS client query its server
        return (folder / NONCE).read_text()
    except OSError:
        return None


def _offence(folder: Path, content: str | None) -> str:
    host = host_name()
    if not folder.exists():
        what = "there is no such folder"
    elif content is None:
        what = f"the driver's file {NONCE!r} is not in it"
    else:
        what = f"its {NONCE!r} is another driver's"
    (on,) = storage({RUN: folder})
    where = f". Its file system is {on.file_system} from {on.source}" if on.file_system else ""
    return (
        f"this folder is not shared: '{folder}' on {host}: {what}{where}. Driver and workers need the same folder: "
        "mount its file system on each host, or choose a folder that all hosts share: runs=FOLDER"
    )
