"""AIPerf. What lies beside it in an installation (`cluster`, `morphism`, `searchers`) is taken from there and nowhere else.

`python -m` puts the working folder first where Python looks for modules, and so does Ray in the processes that it starts for a
driver: a `cluster.py` of whoever types the command would be taken for ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib would be looked for
"""The folder that holds the packages that run."""


class _Beside:
    """Finds the packages that lie beside this one, before the folders of sys.path are looked through."""

    NAMES = ("cluster", "morphism", "searchers")

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder. None: it is another module, or is not there."""
        return PathFinder.find_spec(name, [HOME], target) if name in cls.NAMES else None


if not any(getattr(finder, "__name__", "") == _Beside.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _Beside)
