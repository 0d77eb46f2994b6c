"""Options of a run in the first line of its journal: by dotted names, their differences, and those that identify one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

OF_ONE_RUN = frozenset(
    {
        "name",
        "runs",
        "seed",
        "announcement",
        "announcement_log",
        "predict",
        "resume",
        "resume_until",
        "dry_run",
        "space",
    }
)
"""Parts of the configuration that may differ between runs of one configuration, so that repeats are equal without them.

They name the run, its folder, seed, announcement and prediction, or hold for one command line. `space` follows from the other
options, the starting graph and the workers.
"""


@dataclass(frozen=True, slots=True)
class OptionDifference:
    """Option with different values in two configurations. A missing option has the value None."""

    name: str
    first: Any
    second: Any


def flat_options(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested configuration as one dict by dotted names: {'a': {'b': 6}} becomes {'a.b': 6}."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= flat_options(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def without(config: Mapping[str, Any], parts: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in parts}


def option_differences(
    first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = ""
) -> Iterator[OptionDifference]:
    """Yield the options of two nested configurations that have different values, in the order of the first configuration.

    A part that only one of them has, such as `cluster`, is one difference with the name of its choice.
    """
    for name in {**first, **second}:
        one, other = first.get(name), second.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from option_differences(one, other, f"{prefix}{name}.")
        elif one != other:
            yield OptionDifference(prefix + name, _choice(one), _choice(other))


def _choice(value: Any) -> Any:
    """Return a part by the name of its choice, which is its first field."""
    return next(iter(value.values()), None) if isinstance(value, Mapping) else value
