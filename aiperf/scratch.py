"""Temporary folder that is removed when its owner process ends, together with the processes that were started in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.files import host_name
from aiperf.own_files import NotOwn, open_own, own_folder, remove_own_folder

PREFIX = "aiperf-"
MARK = "AIPERF_SCRATCH"
"""Environment variable with the folder, set for every process that belongs to it."""
OWNER = "owner"
"""Locked file with the name of the owner's host. In a shared folder, locks of other hosts may not be visible."""

CODE_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
"""Subfolder by environment variable of torch.compile and Triton."""

# Processes that notice the end of the owner get 2 s. The others are killed.
_JANITOR = r"""
exec 3<&0 </dev/null
(
    if read -r _ <&3; then exit; fi
    sleep 2
    for environment in $(grep -lsxzF "$2=$1" /proc/[0-9]*/environ); do
        pid=${environment#/proc/}
        kill -KILL "${pid%/environ}" 2>/dev/null
    done
    rm -rf -- "$1"
    sleep 1
    rm -rf -- "$1"
) &
"""


class Scratch:
    """Temporary folder of this process, removed by `close` or after the end of the process. Its path fits Unix sockets."""

    def __init__(self, parent: Path | None = None) -> None:
        """Create the folder, start the janitor process, and remove folders of earlier processes that have ended."""
        parent = parent or Path(tempfile.gettempdir())
        _remove_orphans(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = _locked(self.path / OWNER)
        self._janitor = subprocess.Popen(
            ["/bin/sh", "-c", _JANITOR, "aiperf-janitor", str(self.path), MARK],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},  # without MARK: the janitor does not kill itself
            start_new_session=True,  # signals to the owner's group or terminal do not reach it
        )
        self._janitor.wait()  # the waiting shell is its child, so that the owner has no such child to kill

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for a child process: MARK with the folder's path. `close` kills all processes that have it."""
        return {MARK: str(self.path)}

    def close(self, patience_seconds: float = 2.0) -> None:
        """Wait up to `patience_seconds` for the processes started in the folder, kill the others, and remove the folder."""
        if self._janitor.stdin is None or self._janitor.stdin.closed:
            return
        deadline = time.monotonic() + patience_seconds
        while (left := marked(self.path)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while marked(self.path) and time.monotonic() < deadline + 2.0:
            time.sleep(0.02)
        remove_own_folder(self.path)
        os.close(self._lock)
        with contextlib.suppress(BrokenPipeError):
            self._janitor.stdin.write(b"closed\n")
            self._janitor.stdin.flush()
        self._janitor.stdin.close()


def compiler_caches(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return environment variables that place the caches of torch.compile and Triton in subfolders of `folder`."""
    return {name: str(folder / slot) for name, slot in CODE_CACHES.items() if not environment.get(name)}


def marked(folder: Path) -> tuple[int, ...]:
    """Process ids with this folder in MARK, without this process and those whose environment it may not read."""
    mark = f"{MARK}={folder}".encode()
    processes = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        pid = int(environment.parent.name)
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            # a zombie has an empty environment
            if mark in environment.read_bytes().split(b"\0") and pid != os.getpid():
                processes.append(pid)
    return tuple(processes)


def _locked(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        os.close(file)
        remove_own_folder(path.parent)
        raise BadConfiguration(
            f"temporary folders must be on a file system with locks (flock), but '{path.parent.parent}' has none "
            f"({error.strerror}). Set RAY_TMPDIR and TMPDIR to a folder on a disk of this host"
        ) from error
    # after the lock: an owner file without a name belongs to a folder that is being created
    os.write(file, host_name().encode())
    return file


def _remove_orphans(parent: Path) -> None:
    """Remove this user's folders if their owner on this host has ended."""
    for path in parent.glob(f"{PREFIX}*"):
        # another user's, or removed concurrently
        with contextlib.suppress(OSError, NotOwn), own_folder(path) as within:
            file = open_own(path / OWNER, os.O_RDWR, folder=within)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.read(file, 256) == host_name().encode():
                    remove_own_folder(path)
            finally:
                os.close(file)
