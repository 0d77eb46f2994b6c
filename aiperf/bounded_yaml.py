"""Reader of YAML files from users with limits: size, depth, range of numbers, no aliases, no tags, unique keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

LARGEST_FILE = 1 << 20
"""Bytes. A division of the ranking has about 20 kB."""
DEEPEST = 50
LARGEST_NUMBER = 2**63
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of libyaml is ten times as fast."""


class BadYaml(ValueError):
    """Error for a text that is not YAML or exceeds a limit. The message names the limit, and the line if one is known."""


def load(text: str) -> Any:
    """Return the content of a YAML text: mappings, lists, strings, numbers, booleans, dates and None.

    Raises:
        BadYaml: the text is not YAML, is longer than 1,048,576 characters, or exceeds another limit of this module.
    """
    if len(text) > LARGEST_FILE:
        raise BadYaml(f"it has at most {LARGEST_FILE} bytes, but found more: shorten it")
    try:
        _check(yaml.parse(text, Loader=_LOADER))
        return yaml.load(text, _Loader)
    except BadYaml:
        raise
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # ValueError: a date of month 13
        raise BadYaml(" ".join(str(error).split())) from error


def _check(events: Iterator[Any]) -> None:
    depth = 0
    for event in events:
        where = f"line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise BadYaml(f"it has neither anchors nor aliases, but {where} has one: write the value out")
        if getattr(event, "tag", None) is not None:
            raise BadYaml(f"it has no tags, but {where} has {event.tag!r}: leave it out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise BadYaml(f"its values are nested at most {DEEPEST} deep, but {where} is deeper: nest them less")


class _Loader(_LOADER):  # type: ignore[misc]  # libyaml has no types
    """Loader that refuses duplicate keys and numbers above LARGEST_NUMBER."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        made: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(made) != len(node.value):
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            twice = next(key for key, count in Counter(keys).items() if count > 1)
            raise BadYaml(
                f"each key occurs once, but {twice!r} occurs twice (line {node.start_mark.line + 1}): remove one"
            )
        return made

    def construct_number(self, node: yaml.ScalarNode) -> int:
        value: int = self.construct_yaml_int(node)
        if abs(value) > LARGEST_NUMBER:
            raise BadYaml(
                f"a number is at most 2^63, but line {node.start_mark.line + 1} has {node.value[:20]}…: write a smaller one"
            )
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)
