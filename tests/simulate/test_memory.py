"""Memory of simulated accelerators: ceilings are reported and respected, and too large batches run out of memory."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.config import BatchConf, BudgetConf, RunConf
from aiperf.data.dataset_config import ImagenetConf, SyntheticConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import (
    AnyEvent,
    BatchReduced,
    CeilingMeasured,
    RunResumed,
    TrialFailed,
    TrialPrepared,
    TrialProposed,
    TrialStarted,
    WorkerJoined,
)
from aiperf.journal.journal import NAME, read
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.simulate.model.machine_state import memory_of
from aiperf.simulate.session import open_run, world_of
from aiperf.train.memory_limits import largest_batch
from aiperf.train.precision import Precision
from aiperf.train.trainer_config import ELEMENT_BYTES, TrainerConf
from cluster.faults import FaultConf, MemoryRunsOutConf, WorkerLostConf
from cluster.simulated import SimulatedConf
from morphism import Graph, Lineage, cost, decode_morph, rebuild, start
from searchers.batch_sizes import smaller
from searchers.searcher_config import OffConf, RandomConf, TpeConf
from tests.audit.ground_truth import GroundTruth
from tests.audit.planted_faults import DriverDiesConf, LateConf, NeverConf
from tests.audit.restarts import drive

DIGITS = start("digits_small", image=8, channels=1, classes=10)
LEAST_BYTES = cost(DIGITS).training_memory(8)
"""Minimum bytes for training digits_small at batch 8 in FP32."""


def configured(memory_bytes: int, seed: int = 0, seconds: float = 250.0, **options: object) -> RunConf:
    """Return a run with epochs of a few seconds on accelerators of a few MiB. Networks may grow until only batch 8 fits."""
    cluster = SimulatedConf(
        workers=3,
        accelerators=2,
        flops=2e9,
        memory_bytes=memory_bytes,
        bytes_per_element=4,
        join_seconds=4.0,
        build_seconds=0.5,
        compile_seconds=1.0,
        proposal_seconds=0.3,
    )
    for option, value in options.items():
        setattr(cluster, option, value)
    return RunConf(
        dataset=SyntheticConf(training_images=400, validation_images=100, image=8, channels=1),
        schedule=ScheduleConf(
            duration_seconds=seconds, warmup_seconds=50.0, epochs=[2, 3], patience=2, warmup_rounds=1
        ),
        searcher=RandomConf(),
        hpo=OffConf(),
        limits=LimitsConf(silence_seconds=40.0),
        budget=BudgetConf(batch=8, memory_share=1.0),
        trainer=TrainerConf(ceiling_share=1.0),
        cluster=cluster,
        start="digits_small",
        seed=seed,
    )


def played(conf: RunConf, *faults: FaultConf, truth: GroundTruth | None = None) -> list[AnyEvent]:
    opening = open_run(conf)
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        drive(world_of(opening), opening.first, path, faults=faults, truth=truth)
        return list(read(path))


def graphs(events: list[AnyEvent]) -> dict[int, Graph]:
    """Return the graph of each trial, rebuilt from its whole lineage."""
    lineages: dict[int | None, Lineage] = {None: Lineage(DIGITS)}
    for event in events:
        if isinstance(event, TrialProposed):
            lineage = lineages[event.parent]
            for morph in event.morphs:
                lineage = lineage.then(decode_morph(morph))
            lineages[event.number] = lineage
    return {number: rebuild(lineage) for number, lineage in lineages.items() if number is not None}


@settings(max_examples=30, deadline=None)
@given(
    st.integers(LEAST_BYTES, 3 * LEAST_BYTES),
    st.integers(0, 2**20),
    st.lists(
        st.sampled_from([LateConf(rate=0.3), NeverConf(), MemoryRunsOutConf(), DriverDiesConf(), WorkerLostConf()]),
        max_size=3,
    ),
    st.sampled_from([None, 512]),
)
def test_no_simulated_attempt_exceeds_its_memory(
    memory_bytes: int, seed: int, faults: list[FaultConf], ceiling: int | None
) -> None:
    ground_truth = GroundTruth()

    found = graphs(played(configured(memory_bytes, seed=seed, ceiling=ceiling), *faults, truth=ground_truth))

    for (trial, _), epochs in ground_truth.sums.items():
        for _, _, batch in (sums for epoch in epochs.values() for sums in epoch):
            assert cost(found[trial]).training_memory(batch, 4) <= memory_bytes


@settings(deadline=None)
@given(st.integers(40, 200_000), st.sampled_from(["fp32", "bf16"]), st.floats(0.5, 1.0))
def test_simulated_ceiling_equals_that_of_a_real_rank(megabytes: int, precision: str, share: float) -> None:
    graph, trainer, limit = start("resnet20"), TrainerConf(ceiling_share=share), megabytes * 2**20

    memory = memory_of(SimulatedConf(memory_bytes=limit, bytes_per_element=ELEMENT_BYTES[precision]), trainer, graph)

    real = largest_batch(graph, torch.device("cpu"), Precision(precision, "cpu"), trainer, limit)
    assert memory.ceiling == real


def test_resnet50_on_32_gib_at_16_bits_has_a_ceiling_of_672() -> None:
    graph, conf = start("resnet50_v1"), SimulatedConf()

    assert memory_of(conf, TrainerConf(), graph).ceiling == 672
    assert memory_of(conf, TrainerConf(precision="fp32"), graph).ceiling == 320
    assert memory_of(SimulatedConf(ceiling=448), TrainerConf(), graph).ceiling == 448
    assert memory_of(conf, TrainerConf(memory_limit_bytes=2**34), graph).usable_bytes == 2**34


def test_every_worker_reports_its_ceiling_at_its_start() -> None:
    events = played(configured(3 * LEAST_BYTES), WorkerLostConf(rate=0.5))

    joined = [before for before, after in pairwise(events) if isinstance(after, CeilingMeasured)]
    assert all(isinstance(each, WorkerJoined) for each in joined)
    assert len(joined) == sum(isinstance(event, WorkerJoined) for event in events) > 3


@pytest.mark.parametrize("tuner", [OffConf(), TpeConf()], ids=["default", "tuned"])
def test_ceiling_below_the_default_bounds_default_and_tuning(tuner: OffConf | TpeConf) -> None:
    conf = configured(LEAST_BYTES + 2**22)
    conf.hpo, conf.batch = tuner, BatchConf(default=64)

    events = played(conf)

    (ceiling,) = {event.batch_size for event in events if isinstance(event, CeilingMeasured)}
    batches = [event.batch_size for event in events if isinstance(event, TrialProposed)]
    assert 8 < ceiling < 64
    assert batches[0] == max(batches) == ceiling


def test_batch_is_reduced_stepwise_before_preparation() -> None:
    """The workers report a ceiling that exceeds their memory."""
    events = played(configured(LEAST_BYTES + 2**22, ceiling=512))
    found = graphs(events)

    batches: dict[int, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, TrialStarted):
            batches[event.trial] = [event.batch_size]
        elif isinstance(event, BatchReduced):
            assert event.from_batch_size == batches[event.trial][-1]
            batches[event.trial].append(event.to_batch_size)
        elif isinstance(event, TrialPrepared):
            tried = batches[event.trial]
            assert all(after == smaller(before) for before, after in pairwise(tried))
            fits = [cost(found[event.trial]).training_memory(batch, 4) <= LEAST_BYTES + 2**22 for batch in tried]
            assert fits == [False] * (len(tried) - 1) + [True]
    assert len(batches[0]) > 2


def test_network_that_fits_at_no_batch_fails_without_a_retry() -> None:
    conf = configured(LEAST_BYTES, seconds=400.0)
    conf.budget = BudgetConf(batch=8, memory_bytes=2**30)

    events = played(conf)

    failed = {event.trial: event.reason for event in events if isinstance(event, TrialFailed)}
    assert failed and set(failed.values()) == {"out of memory even at batch 8"}
    assert all(event.attempt == 1 for event in events if isinstance(event, TrialStarted) and event.trial in failed)
    assert not any(isinstance(event, TrialPrepared) and event.trial in failed for event in events)


def test_tuning_on_1_gib_respects_the_ceiling() -> None:
    conf = RunConf(
        dataset=ImagenetConf(),
        schedule=ScheduleConf(duration_seconds=6 * 3600.0, warmup_seconds=1200.0, epochs=[5, 10]),
        searcher=RandomConf(),
        hpo=TpeConf(),
        budget=BudgetConf(batch=8),
        cluster=SimulatedConf(workers=4, memory_bytes=2**30),
        start="resnet18",
    )

    events = played(conf)

    assert {event.batch_size for event in events if isinstance(event, CeilingMeasured)} == {48}
    assert max(event.batch_size for event in events if isinstance(event, TrialProposed)) == 48
    assert any(isinstance(event, BatchReduced) for event in events)


def test_equal_seeds_run_out_of_memory_equally_despite_restarts() -> None:
    conf = configured(LEAST_BYTES + 2**22, ceiling=64)

    first, second = (played(conf, DriverDiesConf(rate=0.03), MemoryRunsOutConf(rate=0.4)) for _ in range(2))

    assert first == second
    assert any(isinstance(event, RunResumed) for event in first)
    assert any(isinstance(event, BatchReduced) for event in first)


def test_starting_graph_that_fits_at_no_batch_is_refused() -> None:
    conf = configured(LEAST_BYTES - 1)
    conf.budget = BudgetConf(batch=8, memory_bytes=2**30)

    with pytest.raises(BadConfiguration, match=rf"batch 8; .*{LEAST_BYTES} bytes .*{LEAST_BYTES - 1} may be used"):
        open_run(conf)
    with pytest.raises(BadConfiguration, match=r"nothing can be proposed.*budget\.batch"):
        open_run(configured(LEAST_BYTES - 1))
