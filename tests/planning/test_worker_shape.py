"""A plan is made of the workers it is for: their ranks bound the batch, their memory bounds what may be proposed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.config import RunConf, configure
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.journal.events import RunStarted, WorkerJoined, WorkerShape
from aiperf.journal.journal import Journal, read
from aiperf.planning.plan import first_event, make_plan
from aiperf.planning.worker_shape import WorkerRequirements, breach, common, shape_of, terms_of, this_machine
from aiperf.rules.limits import STEPS
from aiperf.system.describe import HostDescription, describe
from aiperf.system.sampler import Device
from aiperf.train.trainer_config import TrainerConf
from tests.builders.journal import joined, started
from tests.builders.warnings import warnings_of

GIB = 2**30


def host(*accelerators_gib: int | None, memory_gib: int = 64) -> HostDescription:
    """Return a system with accelerators of this memory. None if their memory cannot be read."""
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


def shape(system: HostDescription, accelerators: int, cores: int = 16, **trainer: Any) -> WorkerShape:
    return shape_of(system, accelerators, cores, TrainerConf(**trainer), None, "a test")


def up(ranks: int, memory_bytes: int = GIB, **machine: Any) -> WorkerJoined:
    return WorkerJoined(
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


def test_memory_is_the_smallest_accelerators_or_a_ranks_share() -> None:
    assert shape(host(80, 40), 2).memory_bytes == 40 * GIB
    assert shape(host(), 0).memory_bytes == 32 * GIB
    assert shape(host(), 0, ranks=4).memory_bytes == 16 * GIB
    assert shape(host(80), 1, memory_limit_bytes=8 * GIB).memory_bytes == 8 * GIB


def test_accelerators_of_unknown_memory_make_no_plan() -> None:
    with pytest.raises(BadConfiguration, match=r"cannot be read on node7.*budget\.memory_bytes"):
        shape(host(None, None), 2)

    assert shape_of(host(None, None), 2, 16, TrainerConf(), 5 * GIB, "a test").memory_bytes == 5 * GIB


def test_more_ranks_than_accelerators_are_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"trainer\.ranks=4 for 2"):
        shape(host(80, 80), 2, ranks=4)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 16), st.integers(1, 128)), min_size=1))
def test_a_plan_for_unequal_nodes_fits_all_of_them(nodes: list[tuple[int, int]]) -> None:
    found = [shape(host(*[gib] * ranks), ranks) for ranks, gib in nodes]

    terms = terms_of(planned(common(found, "all"), "dataset.training_images=1000000"))

    for each in found:
        assert breach(terms, up(each.ranks, each.memory_bytes), each.accelerators) is None


def test_a_plan_has_the_limits_of_the_workers() -> None:
    planned_shape = shape(host(*[40] * 8), 8)

    first = planned(planned_shape, "dataset.training_images=100000")

    space = first.config["space"]
    assert first.shape == planned_shape
    assert (first.machine, first.versions) == ({}, {}), "no machine was looked at"
    assert space["budget"]["memory_bytes"] == int(0.9 * 40 * GIB)
    assert space["largest_batch_size"] == 100000 // (STEPS * 8)


def test_a_worker_with_too_little_memory_is_refused() -> None:
    terms = terms_of(planned(shape(host(80), 1)))

    why = breach(terms, up(1, 40 * GIB), accelerators=1)

    assert why is not None and f"A rank here has {40 * GIB}" in why and "budget.memory_bytes" in why
    assert breach(terms, up(1, 79 * GIB), accelerators=1) is None, "a library keeps a little for itself"


def test_a_processor_worker_is_judged_by_usable_memory() -> None:
    terms = terms_of(planned(shape(host(memory_gib=64), 0)))

    assert breach(terms, up(2, memory_bytes=1 * GIB), accelerators=0) is None
    assert breach(terms, up(2, usable_memory_bytes=32 * GIB), accelerators=0) is not None


def test_a_worker_with_too_many_ranks_is_refused() -> None:
    terms = terms_of(planned(shape(host(40), 1), "dataset.training_images=10000"))

    why = breach(terms, up(8, 40 * GIB), accelerators=8)

    assert why is not None and "It has 8" in why and "batch.largest" in why
    assert breach(terms, up(1, 40 * GIB), accelerators=1) is None


def test_what_the_user_has_declared_is_no_term_for_a_worker() -> None:
    requirements = terms_of(planned(shape(host(40), 1), "batch.largest=64", f"budget.memory_bytes={80 * GIB}"))

    assert requirements == WorkerRequirements(None, None)


def test_a_journal_without_shapes_requires_memory_only() -> None:
    first = planned(shape(host(40), 1))

    terms = terms_of(msgspec.structs.replace(first, shape=None))

    assert terms == WorkerRequirements(int(0.9 * 40 * GIB), None)


def test_the_shape_stands_in_the_journal_as_it_was_planned(tmp_path: Any) -> None:
    first = planned(shape(host(40), 1))
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append([first])

    (again,) = read(tmp_path)

    assert isinstance(again, RunStarted) and again.shape == first.shape


@pytest.mark.parametrize("forged", [{"memory_bytes": 80 * GIB}, {"ranks": 0}, {"accelerators": -1}])
def test_a_first_line_with_a_wrong_budget_is_refused(tmp_path: Any, forged: dict[str, int]) -> None:
    first = planned(shape(host(40), 1))
    assert first.shape is not None
    other = msgspec.structs.replace(first, shape=msgspec.structs.replace(first.shape, **forged))
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append([other])

    with pytest.raises(AiperfError, match=r"shape"):
        list(read(tmp_path))


def test_workers_with_other_ranks_than_planned_are_a_warning() -> None:
    first = started(shape=msgspec.structs.replace(shape(host(40, 40), 2), ranks=2))

    assert not any("planned" in each.text or "plan was made" in each.text for each in warnings_of([first, joined(0)]))
    warnings = [each.text for each in warnings_of([first, joined(0), joined(1, ranks=1)])]
    assert "the plan was made for workers of 2 ranks; 1 of 2 had 1" in warnings


def test_a_plan_cannot_exceed_this_machines_accelerators() -> None:
    conf = configure([])
    accelerators = len(describe().accelerators)

    for declared, law in (
        (accelerators + 1, f"and {accelerators} are usable"),
        (0, "at least 1"),
        (-1, "at least 1"),
        ("al", "at least 1, or all"),
    ):
        with pytest.raises(BadConfiguration, match=law):
            this_machine(replace(conf, accelerators_per_worker=declared))
    assert this_machine(replace(conf, accelerators_per_worker="all")) == this_machine(conf)
