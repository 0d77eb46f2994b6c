"""The files of class folders, FOLDER/CLASS/FILE, kept as bytes and numbers: a path is made only where one is asked for.

A million names in one block that processes of a host can share (it may be mapped from an index) instead of a million objects
in each of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ClassFolders(Sequence[Path]):
    """Files in the order of their classes, and of their names within a class; a sequence of their paths."""

    folder: Path
    """Of the split."""
    classes: tuple[str, ...]
    images: NDArray[np.int64]
    """Of each class, so many files."""
    ends: NDArray[np.int64]
    """Where each file's name ends in `names`; it begins where the one before ends."""
    names: NDArray[np.uint8]
    """All names, one after the other, as the file system has them (`os.fsencode`)."""

    @classmethod
    def of(cls, folder: Path, files: Sequence[tuple[str, Sequence[str]]]) -> ClassFolders:
        """Of (class, its files' names), both in order."""
        encoded = [os.fsencode(name) for _, names in files for name in names]
        return cls(
            folder,
            tuple(name for name, _ in files),
            np.array([len(names) for _, names in files], np.int64),
            np.cumsum([len(name) for name in encoded], dtype=np.int64),
            np.frombuffer(b"".join(encoded), np.uint8),
        )

    @property
    def labels(self) -> NDArray[np.int64]:
        """Of each file: which of `classes`."""
        return np.repeat(np.arange(len(self.classes), dtype=np.int64), self.images)

    def files(self, label: int) -> list[str]:
        """The names of a class's files, in order."""
        return [self._name(index) for index in range(int(self._firsts[label]), int(self._firsts[label + 1]))]

    def word(self, index: int) -> str:
        """The path of a file as text."""
        label = int(np.searchsorted(self._firsts, index, side="right")) - 1
        return self._prefixes[label] + self._name(index)

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """The first file of each class, and behind the last one how many there are."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.images)])

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(f"{self.folder}/{name}/" for name in self.classes)

    def _name(self, index: int) -> str:
        start = int(self.ends[index - 1]) if index else 0
        return os.fsdecode(self.names[start : int(self.ends[index])].tobytes())

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | Sequence[Path]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return Path(self.word(index % len(self)))
