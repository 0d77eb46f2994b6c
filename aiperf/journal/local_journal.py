"""Journal of a run on the driver's local disk, with a copy in the run's folder that is at most a few seconds old.

Each commit waits for the local disk only. A thread appends committed lines to the copy, and the end of the run completes it.
The copy is locked like a journal, because no second driver may start on any host. A resume reads the longer of the two files
if it continues the other one. Otherwise it raises an error and changes neither file.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from aiperf.errors import CannotResume, JournalNotWritten
from aiperf.journal.journal import NAME, Journal, JournalReading, locked
from aiperf.option_limits import hold

SHARED, LOCAL = "shared", "local:"
KEEP = ("best", "all", "none")
"""Checkpoints that may remain after the end."""


@dataclass
class StorageConf:
    """Files on the file system shared by all hosts, and files on a host's local disk."""

    journal: str = field(
        default=SHARED,
        metadata={
            "form": (f"{SHARED}|{LOCAL}/.*", f"'{SHARED}', or '{LOCAL}FOLDER' with an absolute path, local:/scratch")
        },
    )
    """shared: written in the run's folder. local:FOLDER: written on the local disk of the driver's host, in FOLDER (an
    absolute path), and copied to the run's folder every 2 s and at the end."""

    checkpoints: str = field(default="best", metadata={"among": KEEP})
    """Checkpoints kept after the end of a run: the best one with its graph file, all, or none. A run that ended before its
    time keeps all, because it can be resumed."""

    def __post_init__(self) -> None:
        hold(self, "storage")

    def local_journal(self) -> Path | None:
        """Return the folder on the driver's host under which the journal is written. None if it is in the run's folder.

        >>> StorageConf("local:/scratch").local_journal(), StorageConf().local_journal()
        (PosixPath('/scratch'), None)
        """
        if self.journal == SHARED:
            return None
        return Path(self.journal.removeprefix(LOCAL))


COPY_SECONDS = 2.0
FIRST_COPY_SECONDS = 0.05
BLOCK = 1 << 20


@contextmanager
def open_journal(folder: Path, local: Path | None, reading: JournalReading | None = None) -> Iterator[Journal]:
    """Open the journal of the run in `folder` for writing, in that folder or under `local`, and yield it as a context manager.

    `local`: folder on the driver's local disk, None for no local journal. `reading`: result of reading the journal of a
    resumed run, None for a new run. With `local`, a thread copies the journal to `folder`, and a block without an error
    completes the copy. Raise JournalInUse if another driver writes the journal, JournalNotLocked if it cannot be locked,
    CannotResume if there are two journals and neither continues the other, and JournalNotWritten if the copy could not be
    completed.
    """
    if local is None:
        with Journal(folder / NAME, reading) as journal:
            yield journal
        return
    own = local_path(folder, local)
    with _Copy(own, folder / NAME, is_new=reading is None) as copy:
        own.parent.mkdir(parents=True, exist_ok=True)
        if reading is not None:
            longer(own, folder / NAME)
            copy.complete_own()
        with Journal(own, reading, run=folder) as journal, copy.following(journal):
            yield journal


def local_path(folder: Path, local: Path) -> Path:
    """Return the path of the local journal of the run in `folder`. `local`: folder on the driver's local disk."""
    return local / folder.absolute().name / NAME


def to_be_read(folder: Path, local: Path | None) -> Path:
    """Return the path of the journal from which the run in `folder` is resumed: the longer of the local journal and its copy.

    `local`: folder on the driver's local disk, None for no local journal. A notice is printed if the local journal is not on
    this host. Raise CannotResume if neither file continues the other.
    """
    shared = folder / NAME
    if local is None:
        return shared
    own = local_path(folder, local)
    if not own.exists():
        print(
            f"the journal was written to '{own}', which is not on this host. The run resumes from its copy in '{folder}', "
            f"which may lack the last {COPY_SECONDS:.0f} s",
            file=sys.stderr,
        )
        return shared
    return longer(own, shared)


def longer(own: Path, shared: Path) -> Path:
    """Return the longer of a journal `own` and its copy `shared`: `own` if both are equal, `shared` if `own` does not exist.

    Raise CannotResume if the longer one does not begin with the content of the other.
    """
    if not own.exists():
        return shared
    with own.open("rb") as first, shared.open("rb") as second:
        at = 0
        while True:
            one, other = first.read(BLOCK), second.read(BLOCK)
            common = min(len(one), len(other))
            if one[:common] != other[:common]:
                here = next(index for index in range(common) if one[index] != other[index])
                raise CannotResume(
                    f"a run has one journal. '{own}' and its copy '{shared}' differ from byte {at + here} on: two drivers "
                    "have resumed the run, each from one of them. Choose one, and move the other away (mv)"
                )
            if len(one) != len(other) or not one:
                return own if len(one) >= len(other) else shared
            at += common


class _Copy:
    """Copy in the run's folder, opened and locked by the driver."""

    def __init__(self, own: Path, shared: Path, *, is_new: bool) -> None:
        self._own = own
        self._shared = shared
        self._file: IO[bytes] = shared.open("xb+" if is_new else "r+b", buffering=0)
        try:
            if not locked(self._file, shared):
                print(
                    f"the file system of '{shared}' has no locks. A second driver of the run is refused on this host only",
                    file=sys.stderr,
                )
        except BaseException:
            self._file.close()
            if is_new:
                shared.unlink()
            raise
        self._copied = os.fstat(self._file.fileno()).st_size
        """Bytes known to be equal to the journal."""
        self._last_error: str | None = None
        self._over = threading.Event()

    def __enter__(self) -> _Copy:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def complete_own(self) -> None:
        """Extend the local journal from the copy if the copy is longer or the journal is missing."""
        size = self._own.stat().st_size if self._own.exists() else 0
        if size < self._copied:
            draft = self._own.with_suffix(".new")
            with draft.open("wb") as file:
                for at in range(0, self._copied, BLOCK):
                    file.write(os.pread(self._file.fileno(), min(BLOCK, self._copied - at), at))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._own)

    @contextmanager
    def following(self, journal: Journal) -> Iterator[None]:
        """Copy a journal in a thread during the block, and complete the copy when the block ends, also by an error.

        Raise JournalNotWritten if the copy could not be completed.
        """
        self._copied = min(self._copied, journal.committed_bytes)
        thread = threading.Thread(target=self._follow, args=[journal], name="journal-copy", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            try:
                self._copy(journal)
            except OSError as error:
                raise JournalNotWritten(
                    f"the copy of the journal in '{self._shared}' could not be completed ({error.strerror}). "
                    f"Copy the complete journal: {shlex.join(['cp', str(self._own), str(self._shared)])}"
                ) from error

    def _follow(self, journal: Journal) -> None:
        wait = FIRST_COPY_SECONDS
        while not self._over.wait(wait):
            wait = COPY_SECONDS
            try:
                self._copy(journal)
                self._last_error = None
            except OSError as error:
                if self._last_error != (reason := str(error.strerror)):
                    self._last_error = reason
                    print(f"the journal's copy '{self._shared}' is behind: {reason}", file=sys.stderr, flush=True)

    def _copy(self, journal: Journal) -> None:
        """Append newly committed lines and remove bytes beyond them."""
        end = journal.committed_bytes
        if end == self._copied:
            return
        with self._own.open("rb") as own:
            own.seek(self._copied)
            left = memoryview(own.read(end - self._copied))
        self._file.seek(self._copied)
        while left:
            left = left[self._file.write(left) :]
        if os.fstat(self._file.fileno()).st_size > end:
            self._file.truncate(end)
        os.fsync(self._file.fileno())
        self._copied = end
