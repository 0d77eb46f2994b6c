"""What a bad input needs to lie in the user's folder: each public function of a module here makes one such place.

A line of a list begins its command with `@NAME` to have it made first; the function gets the empty folder.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path

Maker = Callable[[Path], None]


def makers() -> dict[str, Maker]:
    """All of them, under their names."""
    modules = [importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    found: dict[str, Maker] = {}
    for module in modules:
        for name, made in inspect.getmembers(module, inspect.isfunction):
            if made.__module__ == module.__name__ and not name.startswith("_"):
                assert name not in found, f"two makers are called {name}"
                found[name] = made
    return found
