"""Random configurations within the limits of the fields, with bounds drawn more often."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.option_limits import WIDEST, FieldLimits, limits_of


def values(limits: FieldLimits) -> st.SearchStrategy[Any]:
    """Everything that a field takes."""
    bounds = limits.metadata
    kinds: list[st.SearchStrategy[Any]] = []
    if int in limits.types or float in limits.types:
        whole = float not in limits.types
        least = bounds.get("least", bounds.get("above", -WIDEST))
        most = bounds.get("most", bounds.get("below", WIDEST))
        edges = [bounds[each] for each in ("least", "most") if each in bounds]
        edges += [math.nextafter(bounds["above"], math.inf)] if "above" in bounds else []
        edges += [math.nextafter(bounds["below"], -math.inf)] if "below" in bounds else []
        near = min(most, least + 16)
        if whole:
            kinds += [st.sampled_from(edges), st.integers(least, near), st.integers(least, most)]
        else:
            kinds += [
                st.sampled_from([float(each) for each in edges]),
                st.floats(least, most, exclude_min="above" in bounds, exclude_max="below" in bounds),
            ]
    if limits.among:
        kinds.append(st.sampled_from(sorted(limits.among)))
    elif "form" in bounds:
        kinds.append(st.from_regex(bounds["form"][0], fullmatch=True).filter(lambda text: text.isascii()))
    if bool in limits.types:
        kinds.append(st.booleans())
    one = st.one_of(kinds)
    if limits.of_list:
        return st.lists(one, min_size=bounds.get("fewest", 0), max_size=3)
    return one | st.none() if limits.or_none else one


def fields_drawn(schema: type[Any], skip: Collection[str] = (), most: int = 4) -> st.SearchStrategy[dict[str, Any]]:
    """Some fields of a dataclass, each with a value that it takes. Records of lists and free text stay as they are."""
    known = {
        name: limits
        for name, limits in limits_of(schema).items()
        if name not in skip and (limits.types != (str,) or limits.metadata.keys() & {"among", "form"})
        if all(kind in (int, float, bool, str) for kind in limits.types)
    }
    if not known:
        return st.just({})
    chosen = st.lists(st.sampled_from(sorted(known)), unique=True, max_size=most)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: values(known[name]) for name in names}))


def drawn(schema: type[Any], skip: Collection[str] = (), most: int = 4, **fixed: Any) -> st.SearchStrategy[Any]:
    """Draw an instance of a dataclass with valid fields. None if their combination is refused."""

    def made(bounds: dict[str, Any]) -> Any:
        try:
            return replace(schema(**fixed), **bounds)
        except BadConfiguration:
            return None

    return fields_drawn(schema, {*skip, *fixed}, most).map(made)
