"""List of the image files in class folders, FOLDER/CLASS/FILE: one block of bytes and numbers that processes can share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ClassFolders:
    """Sequence of file paths, ordered by class and by name within a class."""

    folder: Path
    classes: tuple[str, ...]
    images: NDArray[np.int64]
    ends: NDArray[np.int64]
    """End of each file's name in `names` (files,). It begins at the previous end."""
    names: NDArray[np.uint8]
    """All names concatenated (bytes,), as in the file system (`os.fsencode`)."""

    @classmethod
    def of(cls, folder: Path, files: Sequence[tuple[str, Sequence[str]]]) -> ClassFolders:
        """`folder`: folder of the split, such as ROOT/train. `files`: pairs (class, names of its files), both sorted."""
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
        return np.repeat(np.arange(len(self.classes), dtype=np.int64), self.images)

    def files(self, label: int) -> list[str]:
        """Return the file names of one class, sorted, without the folder."""
        return [self._name(index) for index in range(int(self._firsts[label]), int(self._firsts[label + 1]))]

    def path_text(self, index: int) -> str:
        """Return the path of a file as text, FOLDER/CLASS/NAME. `index`: position of the file in the sequence, from 0."""
        label = int(np.searchsorted(self._firsts, index, side="right")) - 1
        return self._prefixes[label] + self._name(index)

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """First file of each class, and the number of files (classes + 1,)."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.images)])

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(f"{self.folder}/{name}/" for name in self.classes)

    def _name(self, index: int) -> str:
        start = int(self.ends[index - 1]) if index else 0
        return os.fsdecode(self.names[start : int(self.ends[index])].tobytes())

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Path:
        return Path(self.path_text(index))

    def __iter__(self) -> Iterator[Path]:
        return (self[index] for index in range(len(self)))
