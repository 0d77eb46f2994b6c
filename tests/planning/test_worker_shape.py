"""A plan is made of the workers it is for: their ranks bound the batch, their memory bounds what may be proposed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.config import RunConf, configure
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.journal.events import RunStarted, WorkerShape
from aiperf.journal.journal import Journal, read
from aiperf.journal.messages import WorkerUp
from aiperf.planning.plan import first_event, make_plan
from aiperf.planning.this_machine import this_machine
from aiperf.planning.worker_shape import Terms, breach, common, shape_of, terms_of
from aiperf.rules.search_space import STEPS
from aiperf.system.describe import System, describe
from aiperf.system.sampler import Device
from aiperf.train.trainer_config import TrainerConf
from tests.journals import joined, started

GIB = 2**30


def host(*accelerators_gib: int | None, memory_gib: int = 64) -> System:
    """One with accelerators of so much memory; None: their memory cannot be read."""
    devices = tuple(
        Device(
            id=f"gpu-{index}",
            kind="accelerator",
            index=index,
            model="A",
            memory_bytes=None if gib is None else gib * GIB,
        )
        for index, gib in enumerate(accelerators_gib)
    )
    return msgspec.structs.replace(describe(), accelerators=devices, usable_memory_bytes=memory_gib * GIB, host="node7")


def shape(system: System, accelerators: int, cores: int = 16, **trainer: Any) -> WorkerShape:
    return shape_of(system, accelerators, cores, TrainerConf(**trainer), None, "a test")


def up(ranks: int, memory_bytes: int = GIB, **machine: Any) -> WorkerUp:
    return WorkerUp(
        worker=3,
        host="late",
        ranks=ranks,
        device="A",
        device_memory_bytes=memory_bytes,
        collective="none",
        machine={"usable_memory_bytes": 64 * GIB, **machine},
    )


def planned(found: WorkerShape, *words: str) -> RunStarted:
    return first_event(make_plan(conf_of(words), found), "test", 1_000_000.0)


@cache
def conf_of(words: tuple[str, ...]) -> RunConf:
    return configure(["dataset=synthetic", "start=digits_small", "dataset.image=8", *words])


def test_the_memory_of_a_shape_is_the_smallest_accelerators_or_a_ranks_part_of_what_the_host_may_use() -> None:
    assert shape(host(80, 40), 2).memory_bytes == 40 * GIB
    assert shape(host(), 0).memory_bytes == 32 * GIB
    assert shape(host(), 0, ranks=4).memory_bytes == 16 * GIB
    assert shape(host(80), 1, memory_limit_bytes=8 * GIB).memory_bytes == 8 * GIB


def test_accelerators_whose_memory_cannot_be_read_make_no_plan_of_the_hosts_memory_instead() -> None:
    with pytest.raises(BadConfiguration, match=r"on node7 it cannot be read.*budget\.memory_bytes"):
        shape(host(None, None), 2)

    assert shape_of(host(None, None), 2, 16, TrainerConf(), 5 * GIB, "a test").memory_bytes == 5 * GIB


def test_more_ranks_than_accelerators_are_refused_before_anything_starts() -> None:
    with pytest.raises(BadConfiguration, match=r"trainer\.ranks=4 for 2"):
        shape(host(80, 80), 2, ranks=4)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 16), st.integers(1, 128)), min_size=1))
def test_what_is_planned_for_unlike_nodes_breaks_the_terms_of_none(nodes: list[tuple[int, int]]) -> None:
    found = [shape(host(*[gib] * ranks), ranks) for ranks, gib in nodes]

    terms = terms_of(planned(common(found, "all"), "dataset.training_images=1000000"))

    for each in found:
        assert breach(terms, up(each.ranks, each.memory_bytes), each.accelerators) is None


def test_the_bounds_of_a_plan_are_of_the_workers_and_not_of_the_machine_where_it_was_typed() -> None:
    there = shape(host(*[40] * 8), 8)

    first = planned(there, "dataset.training_images=100000")

    space = first.config["space"]
    assert first.shape == there
    assert (first.machine, first.versions) == ({}, {}), "no machine was looked at"
    assert space["budget"]["memory_bytes"] == int(0.9 * 40 * GIB)
    assert space["largest_batch_size"] == 100000 // (STEPS * 8)


def test_a_worker_with_less_memory_than_networks_are_proposed_for_is_refused() -> None:
    terms = terms_of(planned(shape(host(80), 1)))

    why = breach(terms, up(1, 40 * GIB), accelerators=1)

    assert why is not None and f"a rank here has {40 * GIB}" in why and "budget.memory_bytes" in why
    assert breach(terms, up(1, 79 * GIB), accelerators=1) is None, "a library keeps a little for itself"


def test_a_worker_on_processors_is_held_to_what_its_host_may_use_and_not_to_what_is_free_just_now() -> None:
    terms = terms_of(planned(shape(host(memory_gib=64), 0)))

    assert breach(terms, up(2, memory_bytes=1 * GIB), accelerators=0) is None
    assert breach(terms, up(2, usable_memory_bytes=32 * GIB), accelerators=0) is not None


def test_a_worker_with_so_many_ranks_that_an_epoch_has_too_few_steps_is_refused() -> None:
    terms = terms_of(planned(shape(host(40), 1), "dataset.training_images=10000"))

    why = breach(terms, up(8, 40 * GIB), accelerators=8)

    assert why is not None and "it has 8" in why and "batch.largest" in why
    assert breach(terms, up(1, 40 * GIB), accelerators=1) is None


def test_what_the_user_has_declared_is_no_term_for_a_worker() -> None:
    said = terms_of(planned(shape(host(40), 1), "batch.largest=64", f"budget.memory_bytes={80 * GIB}"))

    assert said == Terms(None, None)


def test_a_journal_from_before_shapes_were_recorded_asks_for_memory_alone() -> None:
    first = planned(shape(host(40), 1))

    terms = terms_of(msgspec.structs.replace(first, shape=None))

    assert terms == Terms(int(0.9 * 40 * GIB), None)


def test_the_shape_stands_in_the_journal_as_it_was_planned(tmp_path: Any) -> None:
    first = planned(shape(host(40), 1))
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append([first])

    (again,) = read(tmp_path)

    assert isinstance(again, RunStarted) and again.shape == first.shape


@pytest.mark.parametrize("forged", [{"memory_bytes": 80 * GIB}, {"ranks": 0}, {"accelerators": -1}])
def test_a_first_line_whose_budget_was_made_of_another_shape_is_refused_on_reading(
    tmp_path: Any, forged: dict[str, int]
) -> None:
    first = planned(shape(host(40), 1))
    assert first.shape is not None
    other = msgspec.structs.replace(first, shape=msgspec.structs.replace(first.shape, **forged))
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append([other])

    with pytest.raises(AiperfError, match=r"shape"):
        list(read(tmp_path))


def test_workers_with_other_ranks_than_planned_are_a_warning() -> None:
    first = started(shape=msgspec.structs.replace(shape(host(40, 40), 2), ranks=2))

    assert not any(
        "planned" in each.text or "plan was made" in each.text for each in score(work_log([first, joined(0)])).warnings
    )
    warnings = [each.text for each in score(work_log([first, joined(0), joined(1, ranks=1)])).warnings]
    assert "the plan was made for workers of 2 ranks; 1 of 2 had 1" in warnings


def test_this_machine_cannot_be_planned_with_more_accelerators_than_it_shows() -> None:
    conf = configure([])
    there = len(describe().accelerators)

    for declared, law in (
        (there + 1, f"this machine shows {there}"),
        (0, "at least 1"),
        (-1, "at least 1"),
        ("al", "at least 1, or all"),
    ):
        with pytest.raises(BadConfiguration, match=law):
            this_machine(replace(conf, accelerators_per_worker=declared))
    assert this_machine(replace(conf, accelerators_per_worker="all")) == this_machine(conf)
