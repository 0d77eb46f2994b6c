"""Where workers go: a function of what Ray says of its nodes."""

from __future__ import annotations

from typing import Any

from aiperf.drive.ray.slots import Slot, slots


def node(name: str, cpus: int, gpus: int = 0, *, head: bool = False, alive: bool = True) -> dict[str, Any]:
    resources: dict[str, float] = {"CPU": cpus, f"node:{name}": 1.0}
    if gpus:
        resources["GPU"] = gpus
    if head:
        resources["node:__internal_head__"] = 1.0
    return {"NodeID": name, "NodeManagerAddress": name, "Alive": alive, "Resources": resources}


def test_a_lone_head_without_accelerators_holds_one_worker_of_all_its_cores() -> None:
    assert slots([node("a", 2, head=True)], None).wanted == (Slot("a", "a", 0, 0, 2),)


def test_a_head_among_others_is_the_master_and_has_no_other_work() -> None:
    assert [slot.node for slot in slots([node("a", 8, head=True), node("b", 8), node("c", 8)], None).wanted] == [
        "b",
        "c",
    ]


def test_where_there_are_accelerators_all_of_a_node_make_one_worker() -> None:
    found = slots([node("a", 64, head=True), node("b", 64, 8), node("c", 64, 8)], None).wanted

    assert [(slot.node, slot.accelerators, slot.cores) for slot in found] == [("b", 8, 64), ("c", 8, 64)]


def test_a_node_is_divided_by_the_accelerators_of_a_worker() -> None:
    found = slots([node("b", 64, 8)], 2).wanted

    assert [(slot.index, slot.accelerators, slot.cores) for slot in found] == [(i, 2, 16) for i in range(4)]


def test_a_dead_node_holds_nothing() -> None:
    assert slots([node("a", 2, head=True), node("b", 8, 4, alive=False)], None).wanted == (Slot("a", "a", 0, 0, 2),)


def test_where_accelerators_are_declared_nodes_without_hold_no_worker_though_none_has_any_yet() -> None:
    """By number, or by a plan that was made for them."""
    nodes = [node("a", 8, head=True), node("b", 8)]

    assert slots(nodes, 2).wanted == slots(nodes, None, only_accelerators=True).wanted == ()
    assert [slot.node for slot in slots(nodes, None).wanted] == ["b"]


def test_a_node_with_too_few_accelerators_for_a_worker_is_named() -> None:
    found = slots([node("b", 64, 8), node("c", 64, 2)], 4)

    assert {slot.node for slot in found.wanted} == {"b"}
    assert "a worker has 4 accelerators" in found.too_small["c"] and "this one shows 2" in found.too_small["c"]


def test_an_excluded_node_holds_nothing_by_whatever_name_and_the_others_hold_what_they_held() -> None:
    nodes = [node("a", 8, head=True), node("b", 64, 8) | {"NodeManagerHostname": "node7"}, node("c", 64)]

    for name in ("b", "node7"):
        assert slots(nodes, None, excluded={name}).wanted == (), "accelerators are there, though nobody may use them"
    assert [slot.node for slot in slots([*nodes, node("d", 64, 8)], None, excluded={"b"}).wanted] == ["d"]
