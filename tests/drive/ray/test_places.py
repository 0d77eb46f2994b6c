"""Free places and workers to release: updated by changes, and always equal to the plain definition."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.drive.ray.slots import Places, Slot, slots
from tests.drive.ray.test_slots import node


@given(st.data())
def test_free_places_and_released_workers_equal_the_definition(data: st.DataObject) -> None:
    """Nodes join, leave and are excluded, and workers start and end. The result equals the plain definition by sets."""
    every = [
        node("head", 8, head=True),
        *(node(f"p{i}", 8) for i in range(2)),
        *(node(f"e{i}", 64, 4) for i in range(3)),
    ]
    each = data.draw(st.sampled_from([None, 2]))
    places = Places(partial(slots, accelerators_per_worker=each))
    held: dict[int, Slot] = {}
    there: list[dict[str, Any]] = []

    for number in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["see", "take", "leave", "exclude"])):
            case "see":
                alive = data.draw(st.sets(st.integers(0, len(every) - 1)))
                there = [{**one, "Alive": index in alive} for index, one in enumerate(every)]
                places.update(there)
            case "take" if places.free:
                held[number] = data.draw(st.sampled_from(list(places.free)))
                places.take(held[number], number)
            case "leave" if held:
                gone = data.draw(st.sampled_from(sorted(held)))
                places.leave(held.pop(gone), gone)
            case "exclude":
                places.exclude(data.draw(st.sampled_from([one["NodeID"] for one in every])), "slow")

        wanted = slots(there, each, excluded=places.excluded).wanted
        alive_now = {one["NodeID"] for one in there if one["Alive"]}
        assert set(places.free) == set(wanted) - set(held.values())
        assert set(places.to_release()) == {
            n for n, slot in held.items() if slot.node in alive_now & places.excluded.keys()
        }


def test_narrowed_places_stay_narrowed_when_a_node_joins() -> None:
    places = Places(partial(slots, accelerators_per_worker=None))
    nodes = [node("head", 8, head=True), node("a", 8), node("b", 8)]
    places.update(nodes)
    a, b = places.held.wanted

    places.narrow(replace(places.held, wanted=(a,)))
    places.take(a, 0)
    assert not places.free
    places.update([*nodes, node("c", 8)])
    places.narrow(replace(places.held, wanted=(a,)))
    assert not places.free
    places.narrow(places.held)

    assert [slot.node for slot in places.free] == ["b", "c"] and b in places.free


def test_nodes_are_regrouped_after_the_loss_of_their_worker() -> None:
    places = Places(partial(slots, accelerators_per_worker="all"))
    nodes = [node("a", 8, 4), node("b", 8, 4)]
    places.update(nodes)
    (slot,) = places.free
    places.take(slot, 0)

    places.update([node("a", 8, 4), node("b", 8, 4, alive=False), node("c", 8, 4)])
    assert not places.free and places.to_release() == [], "b is lost, and the worker goes on without it; c stands by"
    assert list(places.slots.too_small) == ["c"]

    places.leave(slot, 0)
    assert [[share.node for share in each.shares] for each in places.free] == [["a", "c"]]


def test_a_worker_is_released_when_any_of_its_nodes_is_excluded() -> None:
    places = Places(partial(slots, accelerators_per_worker=8))
    places.update([node(name, 8, 4) for name in "abcd"])
    for number, slot in enumerate(list(places.free)):
        places.take(slot, number)

    places.exclude("d", "it is slow")

    assert places.to_release() == [1]
    places.leave(next(slot for slot, number in places._taken.items() if number == 1), 1)
    assert not places.free and "is left over" in places.slots.too_small["c"]
