"""Files that a bad input needs in the user's folder. Each public function of a module here creates them in an empty folder.

A line of a list calls the function NAME by `@NAME` at the beginning of its command.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path

Maker = Callable[[Path], None]


def makers() -> dict[str, Maker]:
    """Return all makers by their names."""
    modules = [importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    by_name: dict[str, Maker] = {}
    for module in modules:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                assert name not in by_name, f"two makers are called {name}"
                by_name[name] = function
    return by_name
