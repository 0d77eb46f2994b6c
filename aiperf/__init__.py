"""Package of the AIPerf benchmark."""

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

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout runs with any Python
    sys.exit(f"aiperf: Python must be 3.11, 3.12 or 3.13, but is {sys.version.split()[0]}. Use python3.12, for example")

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is slow to import
"""Folder of the running packages."""


class _SamePlace:
    """Import finder for the packages in HOME. It precedes sys.path."""

    NAMES = ("cluster", "morphism", "searchers")

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the import spec of a package in NAMES, found in HOME. None for other modules. Other finders look for these."""
        return PathFinder.find_spec(name, [HOME], target) if name in cls.NAMES else None


if not any(getattr(finder, "__name__", "") == _SamePlace.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _SamePlace)


__version__: str
"""Version of the installed distribution, as in `python -m aiperf --version`."""

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import metadata  # slow

        return metadata.version("aiperf-cluster")


def load(run: str | Path) -> LoadedRun:
    """Read the journal of a run and return the run with its score, figures and tables (docs/using.md).

    `run`: folder of the run, its name below the folder runs/, the path of its journal, or its submission
    (NAME.aiperf.tar.gz), which is unpacked until this process ends.

    Raises:
        NoSuchRun: there is no run at this path.
        NotAJournal: the path is another file, or the journal cannot be read.
        JournalDamaged: a line of the journal was changed or removed, or another release wrote the journal.
        BadPower: a power meter file of the run is invalid.
    """
    from aiperf.loaded_run import LoadedRun
    from aiperf.submission.submitted_runs import run_folder

    return LoadedRun(run_folder(str(run)))
