"""A temporary folder that does not outlive its owner, however that ends, and neither do the processes that were started in it.

The folder is readable by its owner alone. A small process beside it (the janitor, a shell that waits for the end of a pipe)
removes it when the owner has gone, killed or not. Where both were killed at once, as when a batch system kills a whole job, the
next folder that is made here removes it: a lock that the owner holds tells the living from the dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PREFIX = "aiperf-"
MARK = "AIPERF_SCRATCH"
"""In the environment of every process that belongs to a folder: the folder."""
OWNER = "owner"
"""The locked file in it: the name of the owner's host, since locks of other hosts may not be seen in a shared folder."""

# Those that notice the owner's end by themselves are given 2 s; what is left after that was stopped or hangs, and is killed.
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
    for file in $3; do
        [ -f "$file" ] && flock --exclusive --nonblock "$file" rm -f -- "$file"
    done
) &
"""


class Scratch:
    """A folder of this process. `path` is short enough for sockets wherever the parent's is."""

    def __init__(self, parent: Path | None = None, shared: str = "") -> None:
        """`parent`: the system's temporary folder. `shared`: a pattern of files elsewhere, each locked by whoever uses it, of
        which those that nobody uses go when the owner was killed."""
        parent = parent or Path(tempfile.gettempdir())
        _remove_orphans(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = _locked(self.path / OWNER)
        self._janitor = subprocess.Popen(
            ["/bin/sh", "-c", _JANITOR, "aiperf-janitor", str(self.path), MARK, shared],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},  # without the mark: it is not one of those that it ends
            start_new_session=True,  # what is sent to the owner's group or terminal is not for it
        )
        self._janitor.wait()  # the shell that waits is its child, so that nobody who kills his children kills it

    @property
    def environment(self) -> dict[str, str]:
        """What marks a process as one that must not outlive this folder."""
        return {MARK: str(self.path)}

    def close(self, patience_seconds: float = 2.0) -> None:
        """Ends the processes that bear its mark and still run after so many seconds, and removes the folder. Again: nothing."""
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
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        with contextlib.suppress(BrokenPipeError):
            self._janitor.stdin.write(b"closed\n")
            self._janitor.stdin.flush()
        self._janitor.stdin.close()


def marked(folder: Path) -> tuple[int, ...]:
    """The processes, other than this one, that bear a folder's mark and have not ended."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        pid = int(environment.parent.name)
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            # an ended one that nobody has waited for has an empty environment
            if mark in environment.read_bytes().split(b"\0") and pid != os.getpid():
                found.append(pid)
    return tuple(found)


def _locked(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    # after the lock: one who finds no name finds a folder that is just being made
    os.write(file, socket.gethostname().encode())
    return file


def _remove_orphans(parent: Path) -> None:
    """Removes this user's folders whose owner on this host has gone."""
    for owner in parent.glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError):  # another user's, or removed by another at this moment
            if owner.stat().st_uid != os.getuid():
                continue
            file = os.open(owner, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.read(file, 256) == socket.gethostname().encode():
                    shutil.rmtree(owner.parent, ignore_errors=True)
            finally:
                os.close(file)
