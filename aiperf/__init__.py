"""AIPerf. The packages `cluster`, `morphism` and `searchers` are imported from the same installation.

`python -m` puts the working folder first on sys.path, and so does Ray in the processes of a driver. A user's `cluster.py`
would be imported instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

TYPE_CHECKING = False  # without importing typing
if TYPE_CHECKING:
    from pathlib import Path

    from aiperf.loaded_run import LoadedRun

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is slow to import
"""Folder of the running packages."""


class _SamePlace:
    """Import finder for the packages in HOME. It precedes sys.path."""

    NAMES = ("cluster", "morphism", "searchers")

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of such a package, None for other modules. See importlib.abc.MetaPathFinder."""
        return PathFinder.find_spec(name, [HOME], target) if name in cls.NAMES else None


if not any(getattr(finder, "__name__", "") == _SamePlace.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _SamePlace)


def load(run: str | Path) -> LoadedRun:
    """Return a run with its figures and tables (docs/using.md). `run`: its folder, its name under runs/, or its journal.

    Raises NoSuchRun, NotAJournal and JournalDamaged, as `loaded_run.load`.
    """
    from aiperf import loaded_run

    return loaded_run.load(run)
