"""Atomic file writes: a reader sees the earlier file or the new one, also if the writer stops at any moment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def new_draft(path: Path) -> Path:
    """Create an empty file with a random name in the folder of `path`, and return its path.

    A file or link that another user put there is never opened. Raises OSError.
    """
    # In the same folder, so that the last step is a rename on one file system.
    draft = path.with_name(f".{secrets.token_hex(8)}.draft")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
    return draft


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield an empty file to write. It gets the name `path` at the end of the block and replaces an earlier file.

    The draft is removed if the block fails or is interrupted. Raises OSError, which always names `path`.
    """
    draft = None
    try:
        draft = new_draft(path)
        yield draft
        draft.replace(path)
    except BaseException as error:
        if draft is not None:
            with suppress(OSError):  # a file system that refuses all writes also refuses this one
                draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Write a file and replace an earlier file or link of that name. Raises OSError."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


def write_named(path: Path, content: bytes) -> None:
    """Write a file that a user has named. A link is followed. A pipe or a device (`--json /dev/stdout`) receives the content.

    Raises OSError.
    """
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        target.write_bytes(content)
    else:
        replace_file(target, content)
