"""Files that are written whole or not at all: a reader sees the earlier one or the new one, whenever the writer is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """A file to write, beside `path`, which gets that name at the end of the block; an earlier one is replaced. What a failure
    or Ctrl-C leaves of it is removed. Raises OSError, which names `path`, whatever part of it was refused."""
    # Beside the target, so that the last step is a rename on one file system.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield draft
        draft.replace(path)
    except BaseException as error:
        with suppress(OSError):  # on a file system that takes nothing, there is nothing to take away either
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file of ours; an earlier one is replaced, and so is a link of its name. Raises OSError."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


def write_named(path: Path, content: bytes) -> None:
    """Writes a file that a user has named. A link is followed, and what is no file takes what is written to it: a pipe, a
    device (`--json /dev/stdout`). Raises OSError."""
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        target.write_bytes(content)
    else:
        replace_file(target, content)
