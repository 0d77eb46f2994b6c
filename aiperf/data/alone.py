"""One `prepare` at a time: what it writes is held by the kernel's lock as long as it writes."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from aiperf.data.errors import DataError
from aiperf.journal.lease import NO_LOCKS


def require_alone(file: IO[bytes], path: Path) -> None:
    """Holds an open file until it is closed. A file system that keeps no locks keeps nobody out.

    Raises DataError: another process holds it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(
            f"one `prepare` works on a set at a time; {str(path)!r} is being written by another: wait until that has ended"
        ) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
