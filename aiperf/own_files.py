"""Files and folders in places where other users may write: TMPDIR, caches of built programs, shared run folders."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from aiperf.errors import AiperfError
from aiperf.files import shown

SECRET, PROGRAM, RUN = 0o077, 0o002, 0
"""Permission bits that a secret, a program and a file of a run must not have."""

_NOT_OPENED = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO)


class NotOwn(AiperfError, OSError):
    """A file or folder that another user owns or may change, or a link or special file in its place."""

    def __str__(self) -> str:
        return str(self.strerror)


def open_own(path: Path, flags: int = os.O_RDONLY, forbidden: int = SECRET, folder: int | None = None) -> int:
    """Open a regular file of this user or of root, or a folder with the flag O_DIRECTORY, and return its descriptor."""
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor, opened = None, path if folder is None else path.name
    try:
        descriptor = os.open(opened, flags, 0o666 & ~forbidden, dir_fd=folder)
        status = os.fstat(descriptor)
    except OSError as error:
        if error.errno not in _NOT_OPENED:
            raise
        status = os.stat(opened, dir_fd=folder, follow_symlinks=False)
    is_kind = stat.S_ISDIR if flags & os.O_DIRECTORY else stat.S_ISREG
    owners = {0, os.geteuid()}
    if forbidden == RUN:
        owners.add((path.parent.stat() if folder is None else os.fstat(folder)).st_uid)
    if descriptor is not None:
        if is_kind(status.st_mode) and status.st_uid in owners and not status.st_mode & forbidden:
            return descriptor
        os.close(descriptor)
    kind = "directory" if flags & os.O_DIRECTORY else "regular file"
    mode = f" without the permissions {forbidden:03o}" if forbidden else ""
    raise NotOwn(
        errno.EPERM,
        f"{shown(path)} must be a {kind} of user {os.geteuid()}{mode}, but has owner "
        f"{status.st_uid} and mode {status.st_mode:o}. Another user may have made it: remove it, or use a folder in which "
        "only you can write, on a file system with owners and permissions",
    )


@contextmanager
def own_folder(path: Path, forbidden: int = SECRET) -> Iterator[int]:
    """Open a folder of this user for a `with` block, and yield its descriptor."""
    descriptor = open_own(path, os.O_RDONLY | os.O_DIRECTORY, forbidden)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_own_folder(path: Path) -> None:
    """Create a folder in a run's folder unless it exists."""
    with suppress(FileExistsError):
        path.mkdir(parents=True)
    with own_folder(path, RUN):
        pass


def append_own(path: Path) -> IO[bytes]:
    """Open or create a file in a run's folder for appending."""
    with own_folder(path.parent, RUN) as folder:
        return os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, RUN, folder), "ab")


def read_own(path: Path, forbidden: int = SECRET) -> bytes:
    with os.fdopen(open_own(path, os.O_RDONLY, forbidden), "rb") as file:
        return file.read()


def remove_own_folder(path: Path) -> None:
    """Remove a folder of this user with its content, as far as possible. No link in it or in its place is followed."""
    # rmtree compares the opened folder with the entry, and removes relative to its descriptor
    shutil.rmtree(path, ignore_errors=True)
