"""Where workers go: a function of what Ray says of its nodes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.drive.ray.slots import Slot, slots, superseded


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


HEAD = Slot("a", "a", 0, 0, 8)
LATE = [node("a", 8, head=True), node("b", 64, 8)]


def test_a_worker_without_accelerators_goes_as_soon_as_one_with_them_is_up_and_not_before() -> None:
    held = {0: HEAD, 1: Slot("b", "b", 0, 8, 64)}

    assert superseded(held, {0}, slots(LATE, None)) == []
    assert superseded(held, {0, 1}, slots(LATE, None)) == [0]
    assert superseded(held, {1}, slots(LATE, None)) == [0], "it is still starting"


def test_the_heads_own_worker_goes_when_another_nodes_is_up() -> None:
    held = {0: HEAD, 1: Slot("c", "c", 0, 0, 8)}

    assert superseded(held, {0, 1}, slots([node("a", 8, head=True), node("c", 8)], None)) == [0]


def test_a_worker_whose_node_is_gone_is_not_let_go_but_lost() -> None:
    held = {0: HEAD, 1: Slot("b", "b", 0, 8, 64), 2: Slot("gone", "gone", 0, 8, 64)}
    nodes = [*LATE, node("gone", 64, 8, alive=False)]

    assert superseded(held, {0, 1, 2}, slots(nodes, None)) == [0]


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 8), st.sampled_from([None, 1, 2, 4]))
def test_no_worker_has_a_better_place_than_those_that_are_let_go_for_it(
    plain: int, equipped: int, accelerators: int, each: int | None
) -> None:
    """Whatever comes, goes and is declared: those that stay are at wanted places, and nobody goes while none of those is up."""
    nodes = [node("head", 8, head=True), *(node(f"p{i}", 8) for i in range(plain))]
    nodes += [node(f"e{i}", 64, accelerators) for i in range(equipped)]
    before, after = slots(nodes[:1], None), slots(nodes, each)
    held = dict(enumerate([*before.wanted, *(slot for slot in after.wanted if slot not in before.wanted)]))

    everyone = superseded(held, set(held), after)

    assert {held[number] for number in held if number not in everyone} == (set(after.wanted) or set(held.values()))
    assert superseded(held, {0} - {n for n, slot in held.items() if slot in after.wanted}, after) == []
