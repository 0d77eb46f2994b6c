"""Where workers go: a function of what Ray says of its nodes."""

from __future__ import annotations

from typing import Any

from aiperf.drive.places import Place, places


def node(name: str, cpus: int, gpus: int = 0, *, head: bool = False, alive: bool = True) -> dict[str, Any]:
    resources: dict[str, float] = {"CPU": cpus, f"node:{name}": 1.0}
    if gpus:
        resources["GPU"] = gpus
    if head:
        resources["node:__internal_head__"] = 1.0
    return {"NodeID": name, "NodeManagerAddress": name, "Alive": alive, "Resources": resources}


def test_a_lone_head_without_accelerators_holds_one_worker_of_all_its_cores() -> None:
    assert places([node("a", 2, head=True)], None) == [Place("a", "a", 0, 0, 2)]


def test_a_head_among_others_is_the_master_and_has_no_other_work() -> None:
    assert [place.node for place in places([node("a", 8, head=True), node("b", 8), node("c", 8)], None)] == ["b", "c"]


def test_where_there_are_accelerators_all_of_a_node_make_one_worker() -> None:
    found = places([node("a", 64, head=True), node("b", 64, 8), node("c", 64, 8)], None)

    assert [(place.node, place.accelerators, place.cores) for place in found] == [("b", 8, 64), ("c", 8, 64)]


def test_a_node_is_divided_by_the_accelerators_of_a_worker() -> None:
    found = places([node("b", 64, 8)], 2)

    assert [(place.index, place.accelerators, place.cores) for place in found] == [(i, 2, 16) for i in range(4)]


def test_a_dead_node_holds_nothing() -> None:
    assert places([node("a", 2, head=True), node("b", 8, 4, alive=False)], None) == [Place("a", "a", 0, 0, 2)]
