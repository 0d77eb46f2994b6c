"""Corrupt images found so far, and the limit above which the set is refused."""

from __future__ import annotations

from threading import Lock

from aiperf.data.errors import DamagedData


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
