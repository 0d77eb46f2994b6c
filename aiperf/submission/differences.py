"""Differences of two JSON values: options of two configurations, or figures of two reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

ABSENT = "absent"
"""Placeholder for a value that one side lacks."""


def differences(first: Any, second: Any, *, tolerance: float = 0.0, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each difference as (dotted name, first value, second value).

    Numbers may differ by `tolerance`, a share of the larger one. 20 equals 20.0, and 1 differs from true.

    >>> list(differences({"a": {"b": 1}, "c": [1, 2]}, {"a": {"b": 2}, "c": [1, 2, 3]}))
    [('a.b', 1, 2), ('c.2', 'absent', 3)]
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        pairs: list[tuple[Any, Any, Any]] = [
            (key, first.get(key, ABSENT), second.get(key, ABSENT)) for key in {**first, **second}
        ]
    elif isinstance(first, list) and isinstance(second, list):
        pairs = [
            (at, first[at] if at < len(first) else ABSENT, second[at] if at < len(second) else ABSENT)
            for at in range(max(len(first), len(second)))
        ]
    else:
        if not _is_same(first, second, tolerance):
            yield name, first, second
        return
    for key, one, other in pairs:
        yield from differences(one, other, tolerance=tolerance, name=f"{name}.{key}" if name else str(key))


def _is_same(first: Any, second: Any, tolerance: float) -> bool:
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, int | float) and isinstance(second, int | float):
        try:
            return first == second or math.isclose(first, second, rel_tol=tolerance, abs_tol=0.0)
        except OverflowError:  # an integer too large for a float
            return False
    return bool(first == second)
