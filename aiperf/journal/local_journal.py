"""A journal on the driver's own disk, with a copy in the run's folder that is never far behind.

Each commit waits for the own disk alone; a thread appends to the copy what has been committed since, and at the end all of it.
The copy is locked as a journal is, so that no second driver begins, wherever it runs. A run is taken up from the longer of the
two, where one goes on from the other; else nobody can say which is the run, and neither is touched.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from aiperf.errors import CannotResume, JournalNotWritten
from aiperf.journal.journal import NAME, Journal, Reading, held

COPY_SECONDS = 2.0
FIRST_COPY_SECONDS = 0.05
BLOCK = 1 << 20


@contextmanager
def open_journal(folder: Path, local: Path | None, reading: Reading | None = None) -> Iterator[Journal]:
    """The journal of the run in `folder`, opened for its driver: there, or under `local`. `reading`: see `Journal`.

    Raises:
        JournalInUse, JournalNotLocked: see `Journal`.
        CannotResume: two journals lie there, and neither goes on from the other.
        JournalNotWritten: at the end, where the copy in the run's folder could not be made whole.
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
        with Journal(own, reading, run=folder, why_not_ours=copy.why_not_ours) as journal, copy.following(journal):
            yield journal


def local_path(folder: Path, local: Path) -> Path:
    """Where the journal of the run in `folder` lies under a folder of the driver's host."""
    return local / folder.absolute().name / NAME


def to_be_read(folder: Path, local: Path | None) -> Path:
    """The journal that a run is taken up from.

    Raises CannotResume where there are two, and neither goes on from the other."""
    shared = folder / NAME
    if local is None:
        return shared
    own = local_path(folder, local)
    if not own.exists():
        print(
            f"the journal was written to '{own}', which is not on this host: the run goes on from its copy in '{folder}', "
            f"which may lack the last {COPY_SECONDS:.0f} s",
            file=sys.stderr,
        )
        return shared
    return longer(own, shared)


def longer(own: Path, shared: Path) -> Path:
    """The longer of a journal and its copy; of equal ones the journal.

    Raises CannotResume where the longer one does not go on from the other."""
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
                    f"a run has one journal; '{own}' and its copy '{shared}' go on differently from byte {at + here}: two "
                    "drivers have gone on with it, each from one of them. Choose one, and move the other away (mv)"
                )
            if len(one) != len(other) or not one:
                return own if len(one) >= len(other) else shared
            at += common


class _Copy:
    """The copy in the run's folder, as its driver holds it."""

    def __init__(self, own: Path, shared: Path, *, is_new: bool) -> None:
        self._own = own
        self._shared = shared
        self._file: IO[bytes] = shared.open("xb+" if is_new else "r+b", buffering=0)
        try:
            self._lease = held(self._file, shared)
        except BaseException:
            self._file.close()
            if is_new:
                shared.unlink()
            raise
        self._copied = os.fstat(self._file.fileno()).st_size
        """So much of it is known to be the journal's."""
        self._said: str | None = None
        self._over = threading.Event()

    def __enter__(self) -> _Copy:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lease is not None:
            with suppress(OSError):
                self._lease.end()
        self._file.close()

    def complete_own(self) -> None:
        """Brings the journal to what the copy has, where that is longer, or alone."""
        size = self._own.stat().st_size if self._own.exists() else 0
        if size < self._copied:
            draft = self._own.with_suffix(".new")
            with draft.open("wb") as file:
                for at in range(0, self._copied, BLOCK):
                    file.write(os.pread(self._file.fileno(), min(BLOCK, self._copied - at), at))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._own)

    def why_not_ours(self) -> str | None:
        """Whether another driver has taken the run over, in words."""
        other = None if self._lease is None else self._lease.overtaken_by()
        return None if other is None else f"was taken over, by way of its copy in '{self._shared.parent}', by {other}"

    @contextmanager
    def following(self, journal: Journal) -> Iterator[None]:
        """As long as it stands the copy follows a journal; at the end it is whole."""
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
                f"a run's folder holds its journal at the end; the copy in '{self._shared}' could not be made whole "
                f"({error.strerror}). All of it lies there: {shlex.join(['cp', str(self._own), str(self._shared)])}"
            ) from error

    def _follow(self, journal: Journal) -> None:
        wait = FIRST_COPY_SECONDS
        while not self._over.wait(wait):
            wait = COPY_SECONDS
            try:
                self._copy(journal)
                self._said = None
            except OSError as error:
                if self._said != (said := str(error.strerror)):
                    self._said = said
                    print(f"the journal's copy '{self._shared}' falls behind: {said}", file=sys.stderr, flush=True)

    def _copy(self, journal: Journal) -> None:
        """Appends what has been committed since; what lay there after a line that was taken back goes with the next."""
        end = journal.committed_bytes
        if end == self._copied or self.why_not_ours() is not None:
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
