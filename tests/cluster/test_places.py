"""`cluster/place.py` is the only interface to the kinds of cluster. No other code depends on a kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from aiperf.config import CLUSTERS

PROJECT = Path(__file__).parents[2]
OF_ALL = {"cluster.place", "cluster.faults", "cluster.topology"}
"""Modules of cluster/ that other packages may import: protocol, configuration of faults, and costs of links."""
LIST = "aiperf/config.py"
"""Module that lists all kinds."""
CARRIES_OUT = {("aiperf/drive/ray/cluster/invited_hosts.py", "cluster.hosts")}
"""Module that carries out one place by another program, and interprets its answers."""
READS_JOURNALS = {"aiperf/accounting/accelerator_time.py"}
"""Modules that read a journal's plain configuration, which has no class any more."""
KINDS = {str(kind.kind) for kind in CLUSTERS}
PLAIN = {"ray"}
"""Kinds whose names have a second meaning: executor=ray."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    """All files of aiperf/ except the simulation, which is a place itself."""
    for path in sorted((PROJECT / "aiperf").rglob("*.py")):
        name = path.relative_to(PROJECT).as_posix()
        if not name.startswith("aiperf/simulate/"):
            yield name, ast.parse(path.read_text())


def test_no_kind_of_cluster_is_imported_outside_of_the_list() -> None:
    imported = {
        (name, node.module)
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "cluster"
    }

    assert imported, "the sources were found"
    assert {each for each in imported if each[0] != LIST and each[1] not in OF_ALL} == CARRIES_OUT


def test_nobody_compares_the_name_of_a_kind() -> None:
    compared = [
        (name, node.lineno)
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.MatchValue)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in KINDS - PLAIN and name not in READS_JOURNALS
    ]
    by_attribute = [
        (name, node.lineno)
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and part.attr == "kind" and ast.unparse(part.value).endswith("cluster")
    ]

    assert compared == [] and by_attribute == []
