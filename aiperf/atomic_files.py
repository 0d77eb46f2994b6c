"""Atomic file writes: a reader finds either the earlier file or the complete new one, even if the writer is killed."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def new_draft(path: Path, mode: int = 0o666) -> Path:
    """Create an empty file with a random name in the folder of `path`. An existing file or link is never opened."""
    # In the same folder, so that the last step is a rename on one file system.
    draft = path.with_name(f".{secrets.token_hex(8)}.draft")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode))
    return draft


@contextmanager
def draft_of(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Return a context manager that yields the path of an empty temporary file."""
    draft = None
    try:
        draft = new_draft(path, mode)
        yield draft
        draft.replace(path)
    except BaseException as error:
        if draft is not None:
            with suppress(OSError):  # a file system that refuses all writes also refuses this one
                draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def require_writable(path: Path) -> None:
    """Raise OSError if `write_named` cannot write `path`: a check before hours of work."""
    target = path.resolve()
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.is_file() or not target.exists():
        new_draft(target).unlink()


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write `content` to the file `path` atomically."""
    with draft_of(path, mode) as draft:
        draft.write_bytes(content)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # fsync(2): the file system does not support it for folders
            raise
    finally:
        os.close(descriptor)


def write_named(path: Path, content: bytes) -> None:
    """Write `content` to a path that a user has typed: a file, a link, a pipe or a device (`--json /dev/stdout`)."""
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        target.write_bytes(content)
    else:
        replace_file(target, content)
