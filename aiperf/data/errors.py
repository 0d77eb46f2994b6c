"""Errors of a data set, and the count of corrupt images. Each message has the rule, the offending value and the fix."""

from __future__ import annotations

from threading import Lock

from aiperf.errors import AiperfError


class DataError(AiperfError):
    """A data set cannot be used as it is. The message names the fix."""


class MissingData(DataError):
    """The files of a set are not in the configured folder. The message shows the expected tree. Nothing is ever downloaded."""


class DamagedData(DataError):
    """Files violate their format, or more images are corrupt than the limit."""


class StaleIndex(DataError):
    """The files of a set differ from its index (stored list of the files) or from its recorded sizes."""

    def __init__(self, offence: str) -> None:
        super().__init__(
            f"the files of a set must equal those of its index, but {offence}: write the index again with "
            "`python -m aiperf prepare … --index-only` (weather: `prepare` without it), or restore the files"
        )


class OtherData(DataError):
    """The set on this host has another fingerprint (hash of its files) than the expected set."""


class CorruptImages:
    """Corrupt images that a process has found. Each image counts once. Safe to use from many threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._found: dict[str, str] = {}
        self._lock = Lock()

    def add(self, name: str, reason: str) -> None:
        """Record a corrupt image once, by its name. Raise DamagedData above the limit (dataset.corrupt_limit)."""
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
        """Return (name, message of the decoder) in the order in which they were found."""
        with self._lock:
            return tuple(self._found.items())
