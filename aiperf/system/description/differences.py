"""Differences between the nodes of a run or between two systems: for each part the usual value and the deviating nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_NAMED = 8
MOST_PARTS = 5
NOT_THERE = "not there"


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of the description that differs between nodes."""

    part: str
    """'accelerators.devices.NVIDIA 0.driver'."""
    usual: str
    """Value of most nodes. In a tie the first in sort order."""
    others: tuple[tuple[str, tuple[str, ...]], ...]
    """(other value, nodes with it), most nodes first."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that differ from the usual value, sorted."""
        return tuple(sorted(node for _, nodes in self.others for node in nodes))


def differences(nodes: Mapping[str, Mapping[str, Any]]) -> tuple[Difference, ...]:
    """Compute the differences between descriptions by node. Nodes may share a description object. It is flattened once."""
    flat: dict[int, dict[str, str]] = {}
    for description in nodes.values():
        if id(description) not in flat:
            flat[id(description)] = dict(flattened(description))
    by_kind: dict[int, list[str]] = {}
    for node, description in nodes.items():
        by_kind.setdefault(id(description), []).append(node)
    parts = sorted({part for each in flat.values() for part in each})
    different = []
    for part in parts:
        who: dict[str, list[str]] = {}
        for kind, names in by_kind.items():
            who.setdefault(flat[kind].get(part, NOT_THERE), []).extend(names)
        if len(who) > 1:
            usual, *others = sorted(who, key=lambda value: (-len(who[value]), value))
            different.append(Difference(part, usual, tuple((value, tuple(sorted(who[value]))) for value in others)))
    return tuple(different)


def flattened(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten a description to rows of (dotted name, value). Items of a list are named by their 'name' if all have one."""
    rows: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            rows += flattened(value, f"{prefix}{name}.")
        elif (
            isinstance(value, list) and value and all(isinstance(each, Mapping) and each.get("name") for each in value)
        ):
            for each in value:
                rest = {part: content for part, content in each.items() if part != "name"}
                rows += flattened(rest, f"{prefix}{name}.{each['name']}.")
        elif isinstance(value, list):
            rows.append((f"{prefix}{name}", ", ".join(map(str, value)) or "none"))
        else:
            rows.append((f"{prefix}{name}", "none" if value is None or value == {} else str(value)))
    return rows


def in_words(different: Sequence[Difference], nodes: int) -> list[str]:
    """Render one line for each of the first MOST_PARTS differences.

    Example: `3 of 64 nodes differ: kernel.release 6.1.0-9 on n7 n8, 6.1.0-8 on n9, else 6.1.0-10`.
    """
    lines = [
        f"{len(each.nodes)} of {nodes} nodes differ: {each.part} {_others(each)}, else {each.usual}"
        for each in different[:MOST_PARTS]
    ]
    left_out = len(different) - MOST_PARTS
    return lines + ([f"nodes differ in {left_out} more parts, all in the report"] if left_out > 0 else [])


def _others(difference: Difference) -> str:
    return ", ".join(f"{value} on {_named(nodes)}" for value, nodes in difference.others)


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    return " ".join(nodes[:MOST_NAMED]) + more
