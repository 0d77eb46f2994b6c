"""Files and folders in places where other users may write: TMPDIR, caches of built programs, shared run folders.

Owner, kind and mode are checked on the open descriptor. A link is never followed, and opening never waits.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiperf.errors import AiperfError
from aiperf.files import shown

SECRET, PROGRAM = 0o077, 0o022
"""Permission bits that other users must not have: on a secret, and on a file that is executed or believed."""

_NOT_OPENED = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO)


class NotOwn(AiperfError):
    """A file or folder that another user owns or may change, or a link or special file in its place."""


def open_own(path: Path, flags: int = os.O_RDONLY, forbidden: int = SECRET, folder: int | None = None) -> int:
    """Open a regular file of this user, or a folder with the flag O_DIRECTORY, and return its descriptor.

    A file that O_CREAT creates has mode 0600.

    Args:
        path: file or folder. Its last part is no link.
        flags: as for open(2).
        forbidden: permission bits that it must not have (SECRET or PROGRAM).
        folder: descriptor of the open folder that `path` is relative to. Default: the working directory.

    Raises:
        NotOwn: it belongs to another user, has one of these bits, or is of another kind.
        OSError: it cannot be opened for another reason, or does not exist.
    """
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = None
    try:
        descriptor = os.open(path, flags, 0o600, dir_fd=folder)
        status = os.fstat(descriptor)
    except OSError as error:
        if error.errno not in _NOT_OPENED:
            raise
        status = os.stat(path, dir_fd=folder, follow_symlinks=False)
    is_kind = stat.S_ISDIR if flags & os.O_DIRECTORY else stat.S_ISREG
    if descriptor is not None:
        if is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & forbidden:
            return descriptor
        os.close(descriptor)
    kind = "directory" if flags & os.O_DIRECTORY else "regular file"
    raise NotOwn(
        f"{shown(path)} must be a {kind} of user {os.geteuid()} without the permissions {forbidden:03o}, but has owner "
        f"{status.st_uid} and mode {status.st_mode:o}. Another user may have made it: remove it, or use a folder in which "
        "only you can write, on a file system with owners and permissions"
    )


@contextmanager
def own_folder(path: Path, forbidden: int = SECRET) -> Iterator[int]:
    """Open a folder of this user for a `with` block, and yield its descriptor. Raise the errors of `open_own`."""
    descriptor = open_own(path, os.O_RDONLY | os.O_DIRECTORY, forbidden)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_own(path: Path) -> bytes:
    """Return the content of a secret file of this user. Raise the errors of `open_own`."""
    with os.fdopen(open_own(path), "rb") as file:
        return file.read()


def remove_own_folder(path: Path) -> None:
    """Remove a folder of this user with its content, as far as possible. No link in it or in its place is followed."""
    # rmtree compares the opened folder with the entry, and removes relative to its descriptor
    shutil.rmtree(path, ignore_errors=True)
