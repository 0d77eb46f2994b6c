"""Lock that allows only one `prepare` at a time to write a file."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from aiperf.data.errors import DataError
from aiperf.files import NO_LOCKS


def require_alone(file: IO[bytes], path: Path) -> None:
    """Lock an open file until it is closed. Without effect on a file system without locks.

    Raises DataError: another process has the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(
            f"only one `prepare` may write {str(path)!r} at a time, and another one is running: wait until it has ended"
        ) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
