"""Rules of docs/benchmark.md, compared with the composed configuration, the plan and the journal of a run.

The right side of each comparison is a figure from the page, never a constant of the code.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.config import RunConf, configure
from aiperf.data.dataset_config import SyntheticConf
from aiperf.journal.events import AnyEvent, EpochFinished, ProposalRequested, TrialFinished, TrialProposed, TrialStarted
from aiperf.journal.journal import NAME, read
from aiperf.planning.plan import Plan
from aiperf.rules.limits import LimitsConf, ScheduleConf, limits_of, progress_seconds, schedule_of
from aiperf.rules.procedure import end_of_trial, epoch_limit, patience, predicted_accuracy, reported_accuracy
from aiperf.rules.state import begin
from aiperf.simulate.session import drive, open_run, world_of
from cluster.faults import WorkerLostConf
from cluster.simulated import SimulatedConf
from morphism import Budget, Convolution, Kernel, Skip, cost, legal, start
from morphism.sites import depths
from searchers.history import Finished, History, Request, TrialInFlight
from searchers.searcher_config import RandomConf, TpeConf

RANKED = configure(["+cluster=simulated", "dataset=imagenet", "schedule=ranking"])
PROCEDURE = RANKED.schedule


def ranked_plan(*words: str) -> Plan:
    return open_run(configure(["+cluster=simulated", "dataset=imagenet", "schedule=ranking", *words])).plan


# --- rounds


@pytest.mark.parametrize(
    ("round_", "epochs", "waits"),
    [(1, 15, 6), (2, 30, 8), (3, 45, 10), (4, 60, 12), (7, 60, 18), (8, 60, 20), (50, 60, 20)],
)
def test_ranking_schedule_lengthens_rounds_as_in_the_paper(round_: int, epochs: int, waits: int) -> None:
    procedure = schedule_of(open_run(RANKED).first)  # as a journal's first line records it

    assert (epoch_limit(procedure, round_), patience(procedure, round_)) == (epochs, waits)


def test_ranking_run_lasts_12_hours_with_1_hour_of_warm_up() -> None:
    first = open_run(RANKED).first

    assert (first.duration_seconds, first.warmup_seconds) == (12 * 3600, 3600)


@pytest.mark.parametrize(("fall", "ends"), [(0.0009, True), (0.0011, False)])
@pytest.mark.parametrize(("round_", "waits"), [(1, 6), (2, 8), (9, 20)])
def test_trial_without_improvement_stops_after_its_patience(fall: float, ends: bool, round_: int, waits: int) -> None:
    still = [1.0] * waits

    assert end_of_trial(PROCEDURE, round_, [1.0 + fall, *still]) == ("early stop" if ends else None)
    assert end_of_trial(PROCEDURE, round_, [1.0 + fall, *still][:-1]) is None  # one epoch before


@pytest.mark.parametrize(("round_", "epochs"), [(1, 15), (2, 30), (3, 45), (4, 60), (30, 60)])
def test_improving_trial_ends_after_the_epochs_of_its_round(round_: int, epochs: int) -> None:
    falling = [10.0 - 0.01 * epoch for epoch in range(60)]

    assert end_of_trial(PROCEDURE, round_, falling[: epochs - 1]) is None
    assert end_of_trial(PROCEDURE, round_, falling[:epochs]) == "epochs"


# --- accuracy reported to the search


@settings(deadline=None)
@given(st.floats(0.3, 0.95), st.floats(0.2, 0.9), st.floats(0.3, 1.5), st.integers(5, 60))
def test_reported_accuracy_is_the_curve_at_epoch_15(ceiling: float, gain: float, exponent: float, epochs: int) -> None:
    gain = min(gain, ceiling - 0.01)
    curve = [ceiling - gain * x**-exponent for x in range(1, epochs + 1)]

    told = reported_accuracy(PROCEDURE, curve)

    assert told == pytest.approx(ceiling - gain * 15**-exponent, abs=3e-3)


@given(st.lists(st.floats(0, 1), min_size=15, max_size=60), st.lists(st.floats(0, 1), max_size=45))
def test_epochs_after_round_1_do_not_change_reported_accuracy(curve: list[float], otherwise: list[float]) -> None:
    assert reported_accuracy(PROCEDURE, curve) == reported_accuracy(PROCEDURE, curve[:15] + otherwise)


def test_noise_of_one_epoch_is_not_reported_as_a_result() -> None:
    curve = [0.9 - 0.5 * x**-0.7 for x in range(1, 16)]
    lucky = [*curve[:9], 0.99, *curve[10:]]

    assert reported_accuracy(PROCEDURE, lucky) < max(curve) + 0.05


def test_best_accuracy_is_reported_with_fewer_than_5_epochs() -> None:
    curve = [0.9 - 0.5 * x**-0.7 for x in range(1, 6)]

    assert reported_accuracy(PROCEDURE, curve) == pytest.approx(0.9 - 0.5 * 15**-0.7, abs=1e-3)
    assert reported_accuracy(PROCEDURE, curve[:4]) == max(curve[:4])


def _least_squares(accuracies: Sequence[float]) -> tuple[float, float]:
    """Return the minimum squared error of c − a·x^(−b), and its value at 60.

    With c ≤ 1 and a ≥ 0, for b from 0.02 to 5 by search.
    """
    best = (math.inf, math.nan)
    y, x = np.array(accuracies), np.arange(1.0, len(accuracies) + 1)
    for exponent in np.geomspace(0.02, 5.0, 2000):
        u = x**-exponent
        design = np.stack([np.ones_like(u), -u], axis=1)
        ceiling, gain = np.linalg.lstsq(design, y, rcond=None)[0]
        if gain < 0:
            ceiling, gain = min(1.0, y.mean()), 0.0
        elif ceiling > 1:
            ceiling, gain = 1.0, max(0.0, float(u @ (1 - y) / (u @ u)))
        error = float(((ceiling - gain * u - y) ** 2).sum())
        best = min(best, (error, float(ceiling - gain * 60**-exponent)))
    return best


@pytest.mark.parametrize(
    "accuracies",
    [
        [0.1 * x for x in range(1, 10)],  # a climb without a ceiling: a fit without c ≤ 1 returns 1.7
        [0.2, 0.4, 0.55, 0.7, 0.8, 0.88],
        [0.31, 0.30, 0.36, 0.35, 0.41, 0.40, 0.47],
        [0.9, 0.8, 0.7, 0.6, 0.5],  # a fall: a ≥ 0 leaves its mean
    ],
)
def test_prediction_is_the_bounded_least_squares_fit(
    accuracies: list[float],
) -> None:
    _, at_60 = _least_squares(accuracies)

    found = predicted_accuracy(accuracies, 60)

    assert found == pytest.approx(at_60, abs=2e-3)
    assert found is not None and found <= 1


# --- a run from its first line to its last


def run_with_losses() -> RunConf:
    """Rounds of 6, 7 and 8 epochs, losses of workers in between, tuning from round 4."""
    return RunConf(
        dataset=SyntheticConf(training_images=4000, validation_images=100, image=8, channels=1),
        schedule=ScheduleConf(
            duration_seconds=4000.0, warmup_seconds=300.0, epochs=[6, 7, 8], patience=2, largest_patience=4
        ),
        searcher=RandomConf(),
        hpo=TpeConf(),
        limits=LimitsConf(),
        cluster=SimulatedConf(
            workers=3,
            accelerators=2,
            flops=2e10,
            memory_bytes=2**31,
            bytes_per_element=4,
            join_seconds=1.0,
            build_seconds=0.5,
            compile_seconds=0.0,
            detection_seconds=1.0,
            return_seconds=5.0,
            proposal_seconds=0.3,
            faults=[WorkerLostConf(rate=0.3)],
        ),
        start="digits_small",
    )


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[AnyEvent]:
    opening = open_run(run_with_losses())
    path = tmp_path_factory.mktemp("rules") / NAME
    drive(world_of(opening), opening.first, path)
    return list(read(path))


def test_the_search_gets_one_update_per_round(events: list[AnyEvent]) -> None:
    rounds = {event.trial: event.round for event in events if isinstance(event, TrialStarted) and event.round}
    curves: dict[int, dict[int, float]] = {}
    for event in events:
        if isinstance(event, EpochFinished):
            curves.setdefault(event.trial, {})[event.epoch] = event.accuracy
    fitted: set[int] = set()

    for event in events:
        if isinstance(event, TrialFinished):
            curve = [accuracy for _, accuracy in sorted(curves[event.trial].items())]
            assert event.accuracy == max(curve)
            at_6 = predicted_accuracy(curve[:6], 6)
            assert event.reported_accuracy == (max(curve) if at_6 is None else at_6)
            if at_6 is not None:
                fitted.add(min(rounds[event.trial], 4))

    assert fitted == {1, 2, 3, 4}


def test_in_a_run_a_round_is_a_trial_and_an_attempt_is_none(events: list[AnyEvent]) -> None:
    """Each worker's rounds are 1, 2, 3 … of the trials that it starts. A retry on another worker changes no round."""
    rounds = {event.trial: event.round for event in events if isinstance(event, TrialStarted) and event.round}
    first = [event for event in events if isinstance(event, TrialStarted) and event.attempt == 1]
    again = [event for event in events if isinstance(event, TrialStarted) and event.attempt > 1]
    of_worker: dict[int, list[int]] = {}
    for event in first:
        of_worker.setdefault(event.worker, []).append(rounds[event.trial])

    assert len(again) > 3
    for begun in of_worker.values():
        assert begun == list(range(begun[0], begun[0] + len(begun)))
    # no round is started more often than there are places, despite losses: each of three workers has one
    assert max(Counter(itertools.chain.from_iterable(of_worker.values())).values()) <= 3


def test_batches_are_default_before_round_4_and_then_tuned(
    events: list[AnyEvent],
) -> None:
    rounds = {event.number: event.round for event in events if isinstance(event, ProposalRequested)}
    proposals = [event for event in events if isinstance(event, TrialProposed)]
    early = [event for event in proposals if rounds[event.number] <= 3]
    late = [event for event in proposals if rounds[event.number] > 3]

    assert {event.batch_size for event in early} == {64}  # the default outside of the ranking schedule
    assert len({event.batch_size for event in late}) > 2
    assert all(event.batch_size % 8 == 0 and 24 <= event.batch_size <= 4000 // (20 * 2) for event in late)
    assert all(event.kernel_size is None for event in early)
    assert {event.kernel_size for event in late} & {3, 5, 7}


# --- budget, batches, tuning


def test_networks_grow_to_4_times_the_start_within_the_memory() -> None:
    plan = ranked_plan("cluster.memory_bytes=34359738368")
    begins = cost(start("resnet50_v1"))

    assert plan.space.budget.forward_flops == 4 * begins.forward_flops
    assert plan.space.budget.parameters == 4 * begins.parameters
    assert plan.space.budget.memory_bytes == int(0.9 * 34359738368)
    assert plan.space.budget.batch == 32


def test_ranking_runs_tune_batches_up_to_a_20th_of_an_epoch() -> None:
    space = ranked_plan("cluster.accelerators=8").space

    assert space.tuning_from_round == 4
    assert (space.default_batch_size, space.smallest_batch_size) == (448, None)  # None: half of the largest
    assert space.largest_batch_size == 1281167 // (20 * 8)
    assert configure([]).batch.default == 64


def test_ranking_run_starts_from_resnet50_with_morphism_and_tpe() -> None:
    plan = ranked_plan()

    assert plan.network.fingerprint == start("resnet50_v1").fingerprint
    assert (plan.conf.searcher.name, plan.conf.hpo.name) == ("morphism", "tpe")


@pytest.mark.parametrize(("workers", "seconds"), [(1, 5.0), (250, 5.0), (500, 10.0), (4096, 4096 / 50)])
def test_worker_reports_every_5_s_or_less_often_with_many(workers: int, seconds: float) -> None:
    assert progress_seconds(limits_of(open_run(RANKED).first), workers) == seconds


def test_the_16_best_trials_can_be_parents() -> None:
    history = History(ranked_plan("start=resnet20").space)
    for number in range(40):
        history.observe([TrialInFlight(number, 1, None, (), 64, None, f"f{number}"), Finished(number, number / 100)])

    assert history.parents() == tuple(range(39, 23, -1))


def test_a_skip_spans_6_relus_at_most_and_a_kernel_grows_to_7() -> None:
    graph = start("resnet50_v1")
    depth = depths(graph)
    morphs = legal(graph, Budget(None, None, None))

    spans = {depth[graph.index(m.target)] - depth[graph.index(m.source)] for m in morphs if isinstance(m, Skip)}
    assert spans == set(range(6))  # with the ReLU that it ends before: 1 to 6
    assert {m.kernel for m in morphs if isinstance(m, Kernel)} == {5, 7}


def test_tuned_kernels_are_odd_and_at_most_7_except_in_the_stem() -> None:
    graph = start("resnet20")  # its stem is a 3×3 convolution of the image
    space = replace(ranked_plan("start=resnet20").space, budget=Budget(None, None, None))
    history = History(space)
    history.observe([TrialInFlight(0, 1, None, (), 64, None, graph.fingerprint), Finished(0, 0.5)])
    tuner = TpeConf().build()

    tuned = [tuner.tune(history, Request(number, 4, 0), graph, graph) for number in range(1, 40)]

    assert {each.kernel_size for each in tuned} == {3, 5, 7}
    enlarged = {morph.convolution for each in tuned for morph in each.morphs if isinstance(morph, Kernel)}
    by_hand = {node.name for node in graph.nodes if isinstance(node.op, Convolution) and node.op.kernel == 3}
    assert enlarged == by_hand - {graph.nodes[1].name}


def test_run_uses_the_configurations_own_limits_and_schedule() -> None:
    first = open_run(RANKED).first

    run = begin(first)

    assert run.limits == RANKED.limits and run.schedule == RANKED.schedule
    assert type(run.limits) is LimitsConf and type(run.schedule) is ScheduleConf
