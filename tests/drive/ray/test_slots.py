"""Places for workers, computed from Ray's list of nodes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.drive.ray.slots import Slot, slots


def node(name: str, cpus: int, gpus: int = 0, *, head: bool = False, alive: bool = True) -> dict[str, Any]:
    resources: dict[str, float] = {"CPU": cpus, f"node:{name}": 1.0}
    if gpus:
        resources["GPU"] = gpus
    if head:
        resources["node:__internal_head__"] = 1.0
    return {"NodeID": name, "NodeManagerAddress": name, "Alive": alive, "Resources": resources}


def test_a_lone_head_without_accelerators_holds_one_worker() -> None:
    assert slots([node("a", 2, head=True)], None).wanted == (Slot("a", "a", 0, 0, 2),)


def test_a_head_among_others_is_the_master_and_has_no_other_work() -> None:
    assert [slot.node for slot in slots([node("a", 8, head=True), node("b", 8), node("c", 8)], None).wanted] == [
        "b",
        "c",
    ]


def test_all_accelerators_of_a_node_make_one_worker() -> None:
    found = slots([node("a", 64, head=True), node("b", 64, 8), node("c", 64, 8)], None).wanted

    assert [(slot.node, slot.accelerators, slot.cores) for slot in found] == [("b", 8, 64), ("c", 8, 64)]


def test_a_node_is_divided_by_the_accelerators_of_a_worker() -> None:
    found = slots([node("b", 64, 8)], 2).wanted

    assert [(slot.index, slot.accelerators, slot.cores) for slot in found] == [(i, 2, 16) for i in range(4)]


def test_a_dead_node_holds_nothing() -> None:
    assert slots([node("a", 2, head=True), node("b", 8, 4, alive=False)], None).wanted == (Slot("a", "a", 0, 0, 2),)


def test_declared_accelerators_exclude_nodes_without_any() -> None:
    """Accelerators declared by number, or by a plan for accelerators."""
    nodes = [node("a", 8, head=True), node("b", 8)]

    assert slots(nodes, 2).wanted == slots(nodes, None, only_accelerators=True).wanted == ()
    assert [slot.node for slot in slots(nodes, None).wanted] == ["b"]


def test_a_node_with_too_few_accelerators_for_a_worker_is_named() -> None:
    found = slots([node("b", 64, 8), node("c", 64, 2)], 4)

    assert {slot.node for slot in found.wanted} == {"b"}
    assert "a worker has 4 accelerators" in found.too_small["c"] and "this node has 2" in found.too_small["c"]


def test_an_excluded_node_holds_no_worker() -> None:
    nodes = [node("a", 8, head=True), node("b", 64, 8), node("c", 64)]

    assert slots(nodes, None, excluded={"b"}).wanted == (), "accelerators are there, though nobody may use them"
    assert [slot.node for slot in slots([*nodes, node("d", 64, 8)], None, excluded={"b"}).wanted] == ["d"]


def hosts_of(found: Any) -> list[tuple[str, ...]]:
    return [tuple(share.address for share in slot.shares) for slot in found.wanted]


def test_a_worker_larger_than_a_node_takes_whole_nodes_in_order() -> None:
    nodes = [node(f"10.0.0.{last}", 64, 8) for last in (10, 9, 2, 11, 1)]

    found = slots([node("10.0.0.99", 8, head=True), *nodes], 16)

    assert hosts_of(found) == [("10.0.0.1", "10.0.0.2"), ("10.0.0.9", "10.0.0.10")]
    assert [[share.accelerators for share in slot.shares] for slot in found.wanted] == [[8, 8]] * 2
    assert list(found.too_small) == ["10.0.0.11"]
    assert "a worker has 16 accelerators on 2 nodes of 8" in found.too_small["10.0.0.11"]


def test_a_node_whose_accelerators_do_not_divide_is_named() -> None:
    found = slots([node("a", 64, 8), node("b", 64, 8), node("c", 64, 3)], 16)

    assert hosts_of(found) == [("a", "b")]
    assert "whole nodes with equally many, but this node has 3" in found.too_small["c"]


def test_all_is_one_worker_of_every_node_but_the_head() -> None:
    nodes = [node("10.0.0.1", 8, head=True), node("10.0.0.3", 8), node("10.0.0.2", 4)]

    (slot,) = slots(nodes, "all").wanted
    assert [(share.address, share.accelerators, share.cores) for share in slot.shares] == [
        ("10.0.0.2", 0, 4),
        ("10.0.0.3", 0, 8),
    ]
    assert hosts_of(slots(nodes[:1], "all")) == [("10.0.0.1",)]
    assert hosts_of(slots([*nodes, node("10.0.0.4", 64, 8)], "all")) == [("10.0.0.4",)], "the others have accelerators"
    assert slots(nodes, "all", only_accelerators=True).wanted == ()


def test_a_node_that_joins_stays_in_reserve_until_a_start() -> None:
    held = slots([node("a", 8, 4), node("b", 8, 4)], "all").wanted
    back = {**node("b", 8, 4), "NodeID": "b again"}
    nodes = [node("a", 8, 4), node("b", 8, 4, alive=False), back, node("c", 8, 4)]

    for declared in ("all", 8):
        there = slots(nodes, declared, held=held)
        assert there.wanted == held, declared
        assert "is in reserve" in there.too_small["b"]
    assert set(slots(nodes, "all", held=held).too_small) == {"b", "c"}
    anew = slots(nodes, "all").wanted
    assert [share.node for share in anew[0].shares] == ["a", "b again", "c"]
    gone = [node("a", 8, 4, alive=False), node("b", 8, 4), node("c", 8, 4)]
    assert hosts_of(slots(gone, "all", held=held)) == [("b", "c")], "the node that led is gone, and so is its worker"


@given(
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 8]), min_size=1, max_size=9),
    st.sampled_from([1, 2, 4, 6, 8, 16, "all"]),
    st.randoms(use_true_random=False),
    st.sets(st.integers(0, 8)),
)
def test_every_node_is_in_one_worker_or_named_in_any_order(
    accelerators: list[int], declared: int | str, random: Any, dead: set[int]
) -> None:
    nodes = [node(f"10.0.0.{place}", 16, count) for place, count in enumerate(accelerators, 1)]
    shuffled = random.sample(nodes, len(nodes))

    there = slots(nodes, declared)
    assert sorted(hosts_of(slots(shuffled, declared))) == sorted(hosts_of(there))

    used = [share.node for slot in there.wanted for share in slot.shares]
    if isinstance(declared, int):
        assert all(sum(share.accelerators for share in slot.shares) == declared for slot in there.wanted)
        for each in nodes:
            count = int(each["Resources"].get("GPU", 0))
            places = used.count(each["NodeID"])
            assert (
                places == count // declared
                if count >= declared
                else places + (each["NodeID"] in there.too_small) == bool(count)
            )
    else:
        assert len(there.wanted) == 1
        assert sorted(used) == sorted(
            each["NodeID"] for each in nodes if each["Resources"].get("GPU", 0) or not any(accelerators)
        )

    # workers keep their nodes after any loss, and no node is used twice
    later = [{**each, "Alive": place not in dead} for place, each in enumerate(nodes)]
    after = slots(later, declared, held=there.wanted)
    alive = {each["NodeID"] for each in later if each["Alive"]}
    assert {slot for slot in there.wanted if slot.others and slot.node in alive} <= set(after.wanted)
    whole = [share.node for slot in after.wanted if slot.others for share in slot.shares]
    assert len(whole) == len(set(whole))


def test_an_excluded_node_is_in_no_group() -> None:
    nodes = [node(name, 64, 8) for name in "abcd"]

    assert hosts_of(slots(nodes, 16, excluded={"b"})) == [("a", "c")]
    assert hosts_of(slots(nodes, "all", excluded={"b"})) == [("a", "c", "d")]
