"""Free places and workers to release: updated by changes, and always equal to the plain definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.drive.ray.places import Places
from aiperf.drive.ray.slots import Slot, slots
from tests.drive.ray.test_slots import node


def superseded(
    held: Mapping[int, Slot], up: Collection[int], nodes: list[dict[str, Any]], each: int | None = None
) -> list[int]:
    places = Places(partial(slots, accelerators_per_worker=each))
    for number, slot in held.items():
        places.take(slot, number)
    for number in up:
        places.came_up(held[number], number)
    places.see(nodes)
    return places.superseded()


HEAD = Slot("a", "a", 0, 0, 8)
LATE = [node("a", 8, head=True), node("b", 64, 8)]


def test_a_cpu_worker_is_released_after_an_accelerator_is_up() -> None:
    held = {0: HEAD, 1: Slot("b", "b", 0, 8, 64)}

    assert superseded(held, {0}, LATE) == []
    assert superseded(held, {0, 1}, LATE) == [0]
    assert superseded(held, {1}, LATE) == [0], "it is still starting"


def test_the_heads_own_worker_goes_when_another_nodes_is_up() -> None:
    held = {0: HEAD, 1: Slot("c", "c", 0, 0, 8)}

    assert superseded(held, {0, 1}, [node("a", 8, head=True), node("c", 8)]) == [0]


def test_a_worker_whose_node_is_gone_is_not_let_go_but_lost() -> None:
    held = {0: HEAD, 1: Slot("b", "b", 0, 8, 64), 2: Slot("gone", "gone", 0, 8, 64)}
    nodes = [*LATE, node("gone", 64, 8, alive=False)]

    assert superseded(held, {0, 1, 2}, nodes) == [0]


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 8), st.sampled_from([None, 1, 2, 4]))
def test_workers_are_released_only_for_better_places(
    plain: int, equipped: int, accelerators: int, each: int | None
) -> None:
    """Under any sequence of changes, remaining workers are at wanted places.

    None is released before one of those is up.
    """
    nodes = [node("head", 8, head=True), *(node(f"p{i}", 8) for i in range(plain))]
    nodes += [node(f"e{i}", 64, accelerators) for i in range(equipped)]
    before, after = slots(nodes[:1], None), slots(nodes, each)
    held = dict(enumerate([*before.wanted, *(slot for slot in after.wanted if slot not in before.wanted)]))

    everyone = superseded(held, set(held), nodes, each)

    assert {held[number] for number in held if number not in everyone} == (set(after.wanted) or set(held.values()))
    assert superseded(held, {0} - {n for n, slot in held.items() if slot in after.wanted}, nodes, each) == []


@given(st.data())
def test_free_and_superseded_places_equal_the_definition(data: st.DataObject) -> None:
    """Nodes join, leave and are excluded, and workers start and end. The result equals the plain definition by sets."""
    every = [
        node("head", 8, head=True),
        *(node(f"p{i}", 8) for i in range(2)),
        *(node(f"e{i}", 64, 4) for i in range(3)),
    ]
    each = data.draw(st.sampled_from([None, 2]))
    places = Places(partial(slots, accelerators_per_worker=each))
    held: dict[int, Slot] = {}
    up: set[int] = set()
    there: list[dict[str, Any]] = []
    excluded: set[str] = set()

    for number in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["see", "take", "up", "leave", "exclude"])):
            case "see":
                alive = data.draw(st.sets(st.integers(0, len(every) - 1)))
                there = [{**one, "Alive": index in alive} for index, one in enumerate(every)]
                places.see(there)
            case "take" if places.free:
                held[number] = data.draw(st.sampled_from(list(places.free)))
                places.take(held[number], number)
            case "up" if held.keys() - up:
                came = data.draw(st.sampled_from(sorted(held.keys() - up)))
                up.add(came)
                places.came_up(held[came], came)
            case "leave" if held:
                gone = data.draw(st.sampled_from(sorted(held)))
                places.leave(held.pop(gone), gone)
                up.discard(gone)
            case "exclude":
                excluded.add(data.draw(st.sampled_from([one["NodeID"] for one in every])))
                places.exclude(max(excluded), "slow")
                places.exclude(min(excluded), "slow")
                excluded = {max(excluded), min(excluded)} | places.excluded.keys()

        wanted = slots(there, each, excluded=excluded).wanted
        alive_now = {one["NodeID"] for one in there if one["Alive"]}
        elsewhere = {n for n, slot in held.items() if slot not in wanted and slot.node in alive_now}
        is_better = any(held[n] in wanted for n in up)
        assert set(places.free) == set(wanted) - set(held.values())
        assert set(places.superseded()) == {n for n in elsewhere if is_better or held[n].node in excluded}
        assert list(places.free)[:1] == [] or set(places.free) <= set(wanted)


def test_narrowed_places_stay_narrowed_when_a_node_joins() -> None:
    places = Places(partial(slots, accelerators_per_worker=None))
    nodes = [node("head", 8, head=True), node("a", 8), node("b", 8)]
    places.see(nodes)
    a, b = places.held.wanted

    places.narrow(replace(places.held, wanted=(a,)))
    places.take(a, 0)
    assert not places.free
    places.see([*nodes, node("c", 8)])
    places.narrow(replace(places.held, wanted=(a,)))
    assert not places.free
    places.narrow(places.held)

    assert [slot.node for slot in places.free] == ["b", "c"] and b in places.free


def test_nodes_are_regrouped_after_the_loss_of_their_worker() -> None:
    places = Places(partial(slots, accelerators_per_worker="all"))
    nodes = [node("a", 8, 4), node("b", 8, 4)]
    places.see(nodes)
    (slot,) = places.free
    places.take(slot, 0)
    places.came_up(slot, 0)

    places.see([node("a", 8, 4), node("b", 8, 4, alive=False), node("c", 8, 4)])
    assert not places.free and places.superseded() == [], "b is lost, and the worker goes on without it; c stands by"
    assert list(places.slots.too_small) == ["c"]

    places.leave(slot, 0)
    assert [[share.node for share in each.shares] for each in places.free] == [["a", "c"]]


def test_a_worker_is_released_when_any_of_its_nodes_is_excluded() -> None:
    places = Places(partial(slots, accelerators_per_worker=8))
    places.see([node(name, 8, 4) for name in "abcd"])
    for number, slot in enumerate(list(places.free)):
        places.take(slot, number)
        places.came_up(slot, number)

    places.exclude("d", "it is slow")

    assert places.superseded() == [1]
    places.leave(next(slot for slot, number in places._taken.items() if number == 1), 1)
    assert not places.free and "is left over" in places.slots.too_small["c"]


def test_a_misplaced_worker_stays_if_the_better_one_is_lost() -> None:
    places = Places(partial(slots, accelerators_per_worker=None))
    places.see(LATE[:1])
    places.take(HEAD, 0)
    places.came_up(HEAD, 0)
    places.see(LATE)
    (better,) = places.free
    places.take(better, 1)
    places.came_up(better, 1)
    assert places.superseded() == [0]

    places.leave(better, 1)

    assert places.superseded() == [] and list(places.free) == [better]
