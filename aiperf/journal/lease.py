"""What keeps a second driver out where a file system keeps no locks: a file beside the journal that its driver renews.

Leases are numbered files, `journal.jsonl.lease-3`, and the highest number is the one that holds; each is made under its own
name by link(2), which one of several can do. Nobody compares clocks: whoever wants a journal whose lease was not given back
watches the file for as long as it holds, and takes the next number if it was not renewed meanwhile. A driver that was stopped
for so long finds the higher number before its next line, and stops.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import sys
import threading
import time
from pathlib import Path

import msgspec

from aiperf.errors import JournalInUse

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""What flock(2) answers on a file system that keeps none."""
LEASE_SECONDS = 60.0
"""One that was not renewed for so long, on the clock of who watches it, is nobody's any more."""
RENEW_SECONDS = 10.0
LOOK_SECONDS = 0.5


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a lease."""

    name: str
    """Of this lease alone."""
    host: str
    pid: int
    renewals: int = 0
    renewed_unix: float = 0.0
    """On the owner's wall clock: for people to read."""
    is_over: bool = False
    """Given back: the next driver need not wait."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lease:
    """A journal's, held by this process until `end`."""

    def __init__(self, journal: Path, number: int, owner: Owner) -> None:
        """Of one that has just been taken: see `taken`."""
        self._journal = journal
        self._number = number
        self._owner = owner
        self._path = _path(journal, number)
        self._renewed = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._keep, name="journal-lease", daemon=True).start()

    @classmethod
    def taken(cls, journal: Path) -> Lease:
        """Takes a journal; waits until a lease that was not given back is over.

        Raises:
            JournalInUse: it is renewed, so that another driver writes the journal; its owner is named.
            OSError: the folder would not take a file.
        """
        found = _highest(journal)
        if found is not None and not found[1].is_over:
            _await_its_end(journal, *found)
        number = 1 if found is None else found[0] + 1
        owner = Owner(
            name=secrets.token_hex(16),
            host=socket.gethostname(),
            pid=os.getpid(),
            renewed_unix=time.time(),
        )
        draft = _written(journal, owner)
        try:
            _path(journal, number).hardlink_to(draft)
        except FileExistsError:
            raise _in_use(journal, _highest(journal)) from None
        finally:
            draft.unlink()
        after = _highest(journal)
        if after is None or after[0] != number:  # somebody was two ahead while this process stood still
            _path(journal, number).unlink(missing_ok=True)
            raise _in_use(journal, after)
        for earlier in _numbers(journal):
            if earlier < number:
                _path(journal, earlier).unlink(missing_ok=True)
        return cls(journal, number, owner)

    def overtaken_by(self) -> Owner | None:
        """The driver that has taken the journal over, if one has. The disk is asked only where this process may have stood
        still."""
        if time.monotonic() - self._renewed < LEASE_SECONDS / 2:
            return None
        return self._renew()

    def end(self) -> None:
        """Gives it back; the next driver need not wait."""
        self._ended.set()
        with self._lock:
            found = _highest(self._journal)
            if found is not None and found[0] == self._number:
                self._write(msgspec.structs.replace(self._owner, is_over=True))

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                if self._renew() is not None:
                    return  # said at the driver's next line
            except OSError as error:  # the journal lies there too, and says it with its remedy
                print(f"the journal's lease '{self._path}' was not renewed: {error}", file=sys.stderr, flush=True)

    def _renew(self) -> Owner | None:
        with self._lock:
            if self._ended.is_set():
                return None
            found = _highest(self._journal)
            if found is not None and found[0] > self._number:
                self._renewed = float("-inf")
                return found[1]
            self._owner = msgspec.structs.replace(
                self._owner, renewals=self._owner.renewals + 1, renewed_unix=time.time()
            )
            self._write(self._owner)
            self._renewed = time.monotonic()
            return None

    def _write(self, owner: Owner) -> None:
        _written(self._journal, owner).replace(self._path)


def refuse_if_leased(journal: Path) -> None:
    """A journal that this host can lock may be written by a driver on one that cannot: waits until its lease is over.

    Raises:
        JournalInUse: it is renewed.
    """
    found = _highest(journal)
    if found is not None and not found[1].is_over:
        _await_its_end(journal, *found)


def _await_its_end(journal: Path, number: int, owner: Owner) -> None:
    print(
        f"'{journal}' is leased to {owner}, and its file system keeps no locks: waiting {LEASE_SECONDS:.0f} s, in which "
        "a driver that lives would renew it",
        file=sys.stderr,
        flush=True,
    )
    deadline = time.monotonic() + LEASE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        now = _highest(journal)
        if now is None or now[1].is_over:
            return
        if now != (number, owner):
            raise _in_use(journal, now)


def _in_use(journal: Path, found: tuple[int, Owner] | None) -> JournalInUse:
    who = "another" if found is None else f"{found[1]}, which has renewed its lease"
    return JournalInUse(f"one driver writes a journal; '{journal}' is being written by {who}. End that run first")


def _path(journal: Path, number: int) -> Path:
    return journal.with_name(f"{journal.name}.lease-{number}")


def _numbers(journal: Path) -> list[int]:
    pattern = re.compile(re.escape(journal.name) + r"\.lease-(\d+)")
    found = (pattern.fullmatch(file.name) for file in journal.absolute().parent.iterdir())
    return sorted(int(match[1]) for match in found if match)


def _highest(journal: Path) -> tuple[int, Owner] | None:
    """The lease that holds, or held last. One that goes while it is read has been followed by another."""
    while numbers := _numbers(journal):
        try:
            content = _path(journal, numbers[-1]).read_bytes()
        except FileNotFoundError:
            continue
        return numbers[-1], msgspec.json.decode(content, type=Owner)
    return None


def _written(journal: Path, owner: Owner) -> Path:
    """A whole file with a name of its own."""
    draft = journal.with_name(f".{journal.name}.lease.{owner.name}.{threading.get_ident()}.tmp")
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(owner))
        file.flush()
        os.fsync(file.fileno())
    return draft
