"""Errors of a data set, and the count of corrupt images. Each message has the rule, the offending value and the fix."""

from __future__ import annotations

from threading import Lock

from aiperf.errors import AiperfError


class DataError(AiperfError):
    """A data set cannot be used as it is."""


class MissingData(DataError):
    """The files of a set are not in the configured folder. The message shows the expected tree. Nothing is ever downloaded."""


class DamagedData(DataError):
    """Files violate their format, or more images are corrupt than the limit."""


class StaleIndex(DataError):
    """The files of a set differ from its index."""

    def __init__(self, offence: str) -> None:
        super().__init__(
            f"an index says what lies in the set's folders; {offence}: write it anew with "
            "`python -m aiperf prepare … --index-only`, or restore the files"
        )


class OtherData(DataError):
    """The set on this host is not the expected one."""


class CorruptImages:
    """Count each corrupt image once. Safe to use from many threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._found: dict[str, str] = {}
        self._lock = Lock()

    def add(self, name: str, reason: str) -> None:
        """Record the image. Raises DamagedData above the limit."""
        with self._lock:
            self._found.setdefault(name, reason)
            count = len(self._found)
        if count > self.limit:
            shown = "".join(f"\n  {found}: {why}" for found, why in list(self._found.items())[:10])
            raise DamagedData(
                f"at most {self.limit} corrupt images are skipped (dataset.corrupt_limit), but there are {count}:{shown}\n"
                "repair or remove them. `python -m aiperf prepare` lists all of them"
            )

    def __len__(self) -> int:
        return len(self._found)

    def names(self) -> tuple[tuple[str, str], ...]:
        """Return (image, decoder's error), in the order in which they were found."""
        with self._lock:
            return tuple(self._found.items())
