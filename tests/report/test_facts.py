"""Tests that the facts of a report equal those of the journal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import (
    SCHEMA,
    AnyEvent,
    EpochFinished,
    Progress,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFinished,
    TrialPrepared,
    TrialProposed,
    TrialStarted,
    TunedBy,
    WorkerJoined,
)
from aiperf.report import phrases
from aiperf.report.facts import Proposals, Report, Utilisation
from aiperf.report.gather import gather, thinned
from aiperf.report.html import page
from aiperf.report.sections.time_spent import waterfall
from aiperf.report.worker_timeline import busy_grid
from aiperf.report.write import closing_lines
from tests.builders.journal import begun, ended, finished, interval, joined, proposed, requested, started
from tests.builders.report_journal import MACHINE, Shape, invented, many_workers

SMALL = invented(Shape())
LOSSY = invented(Shape(workers=4, lose_worker_at=70.0, end=120.0, ends="interrupted"))
RESUMED = invented(Shape(workers=2, resume_at=70.0))
RUNS = {"small": SMALL, "lossy": LOSSY, "resumed": RESUMED, "one trial": invented(Shape(most_trials=1, ends="trials"))}


@pytest.fixture(params=list(RUNS.values()), ids=list(RUNS))
def events(request: pytest.FixtureRequest) -> Sequence[AnyEvent]:
    found: Sequence[AnyEvent] = request.param
    return found


def test_the_report_shows_the_score_that_the_score_module_gives(events: Sequence[AnyEvent]) -> None:
    assert gather(events).score == score(work_log(events))


def test_every_trial_is_in_the_report_with_its_best_accuracy(events: Sequence[AnyEvent]) -> None:
    report = gather(events)

    assert [trial.number for trial in report.trials] == [e.number for e in events if isinstance(e, TrialProposed)]
    for trial in report.trials:
        measured = [e.accuracy for e in events if isinstance(e, EpochFinished) and e.trial == trial.number]
        assert trial.accuracy == max(measured, default=None)
    finished = {e.trial for e in events if isinstance(e, TrialFinished)}
    assert {t.number for t in report.trials if t.outcome in ("epochs", "early stop")} == finished


def test_the_time_breakdown_in_the_report_adds_up_to_the_whole(events: Sequence[AnyEvent]) -> None:
    spent = gather(events).time_breakdown

    assert math.fsum(line.seconds for line in spent.lines) == pytest.approx(spent.whole_seconds, abs=1e-6)


def test_the_error_only_falls_and_never_below_half_an_image() -> None:
    points = gather(SMALL).errors

    best = [point.best for point in points]
    assert best == sorted(best, reverse=True)
    assert best[-1] >= 1 / (2 * 360)


@given(st.lists(st.floats(0.01, 0.99), max_size=300), st.integers(1, 50))
def test_thinning_keeps_every_improvement_and_both_ends(errors: list[float], most: int) -> None:
    best = np.minimum.accumulate(np.array(errors)) if errors else np.zeros(0)

    kept = thinned(best, most)

    improvements = {at for at in range(1, len(errors)) if best[at] < best[at - 1]}
    ends = {0, len(errors) - 1} if errors else set()
    assert improvements | ends <= set(kept)
    assert kept == sorted(set(kept))
    assert len(kept) <= most + len(improvements) + 2


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(1, 4))
def test_the_grid_holds_all_busy_time_however_it_is_cut(columns: int, groups: int) -> None:
    kept = work_log(LOSSY)
    end = 120.0
    numbers = [0, 1, 2, 3]
    cut = [numbers[i::groups] for i in range(groups)]

    grid = busy_grid(kept, cut, end, columns)

    width = end / columns
    present = {presence.worker: presence for presence in kept.presences}
    found = 0.0
    for row, group in zip(grid, cut, strict=True):
        for column, cell in enumerate(row):
            left, right = column * width, (column + 1) * width
            there = sum(
                present[n].ranks * max(0.0, min(right, present[n].left or end) - max(left, present[n].joined))
                for n in group
            )
            found += 0.0 if cell is None else cell * there
    rows = kept.intervals
    assert found == pytest.approx(
        math.fsum(b * r for b, r in zip(rows.clock("busy"), rows.ranks, strict=True)), rel=1e-6
    )


def test_bars_of_a_worker_are_in_its_presence_without_overlap(events: Sequence[AnyEvent]) -> None:
    chart = gather(events).gantt

    assert chart.bars
    for bar in chart.bars:
        joined, left = chart.present[bar.row]
        assert joined - 1e-9 <= bar.start < bar.end <= left + 1e-9
    for row in range(len(chart.workers)):
        for kind in ("prepare", "train", "validate"):
            spans = [(bar.start, bar.end) for bar in chart.bars if bar.row == row and bar.kind == kind]
            assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(spans))


def test_thousands_of_workers_become_a_grid_and_the_first_twenty() -> None:
    chart = gather(many_workers(workers=500, trials_each=1)).gantt

    assert len(chart.workers) == 20
    assert chart.all_workers == 500
    assert len(chart.grid) == len(chart.grid_rows) <= 64
    assert chart.grid_rows[0][0] == 0
    assert chart.grid_rows[-1][1] == 499
    assert all(cell is None or 0 <= cell <= 1 for row in chart.grid for cell in row)


def test_tree_nodes_have_distinct_places_right_of_their_parents(events: Sequence[AnyEvent]) -> None:
    nodes = gather(events).tree.nodes

    assert len({(node.generation, node.row) for node in nodes}) == len(nodes)
    for index, node in enumerate(nodes):
        if node.trial is None:
            assert index == 0
        else:
            assert node.parent is not None
            assert node.parent < index
            assert nodes[node.parent].generation == node.generation - 1


def test_a_large_tree_keeps_the_best_with_all_their_ancestors() -> None:
    report = gather(invented(Shape(workers=12)))

    tree = report.tree
    shown = {node.trial for node in tree.nodes}
    assert tree.trials > tree.shown == len(tree.nodes) - 1
    assert report.best in shown
    parents = {trial.number: trial.parent for trial in report.trials}
    assert all(parents[number] is None or parents[number] in shown for number in shown if number is not None)


def test_the_best_architecture_is_rebuilt_from_its_lineage() -> None:
    report = gather(SMALL)

    assert report.architecture is not None
    assert report.architecture.graph is not None
    assert report.architecture.trial == report.best
    generation = next(trial.generation for trial in report.trials if trial.number == report.best)
    assert len(report.architecture.morphs) == generation - 1
    assert report.architecture.added


def test_an_unreadable_graph_leaves_the_other_figures() -> None:
    import msgspec

    first = msgspec.structs.replace(SMALL[0], start_graph={"format": "another"})

    report = gather([first, *SMALL[1:]])

    assert report.architecture is not None
    assert report.architecture.graph is None
    assert "morphism-graph" in (report.architecture.why_not or "")
    assert report.score == gather(SMALL).score


def test_mfu_needs_a_known_peak() -> None:
    unknown = gather(SMALL).utilisation
    measured = gather(invented(Shape(machine={**MACHINE, "measured_matmul_flops": {"fp32": 1e11}}))).utilisation
    known = gather(invented(Shape(device="NVIDIA A100-SXM4-80GB", precision="bf16"))).utilisation

    assert unknown.mfu is None and unknown.peak_flops is None
    assert measured.peak_source is not None and "measured" in measured.peak_source
    assert known.peak_flops == 312e12
    assert known.mfu is not None
    assert known.mfu == pytest.approx(known.tensor_flops / (known.accelerator_seconds * 312e12))
    assert known.mfu_busy is not None and known.mfu_busy > known.mfu


def test_a_declared_peak_gives_mfu_and_is_marked_everywhere() -> None:
    events = invented(Shape(device="NVIDIA GB10", precision="bf16"))
    assert isinstance(events[0], RunStarted)
    config = events[0].config | {"system": {"peak": {"bf16": 1e14, "source": "a sheet"}}}

    report = gather([msgspec.structs.replace(events[0], config=config), *events[1:]])

    used = report.utilisation
    assert used.is_peak_declared and not used.is_peak_measured and used.mfu is not None
    assert used.mfu == pytest.approx(used.tensor_flops / (used.accelerator_seconds * 1e14))
    assert used.peak_source == "declared peak of NVIDIA GB10 in bf16 (system.peak, source: a sheet)"
    assert phrases.mfu(report).endswith(" % (declared peak)")
    assert phrases.mfu(report) in "\n".join(closing_lines(report))
    assert "per rank × 2: declared peak" in page(report, [])


def test_equal_processors_share_the_fastest_measured_peak() -> None:
    def measured(*rates: float | None, last: str = "AMD EPYC 9R14") -> Utilisation:
        events = many_workers(workers=3, trials_each=1)
        places = [place for place, event in enumerate(events) if isinstance(event, WorkerJoined)]
        (precision,) = {event.precision for event in events if isinstance(event, TrialPrepared)}
        for place, rate, device in zip(places, rates, ("AMD EPYC 9R14", "AMD EPYC 9R14", last), strict=True):
            event = events[place]
            assert isinstance(event, WorkerJoined)
            machine = event.machine | ({} if rate is None else {"measured_matmul_flops": {precision: rate}})
            events[place] = msgspec.structs.replace(event, machine=machine, device=device)
        return gather(events).utilisation

    used = measured(1e11, 3e11, 2e11)
    assert used.peak_flops == 3e11
    assert used.peak_source is not None and "3 workers measured" in used.peak_source
    assert measured(2e11, 2e11, 2e11).peak_flops == 2e11
    assert measured(1e11, 3e11, None).peak_flops is None
    assert measured(1e11, 3e11, 2e11, last="AMD EPYC 7R13").peak_flops is None


def test_compute_units_select_the_peak_of_a_shared_name() -> None:
    def peak_of(units: int | None) -> float | None:
        machine = {**MACHINE, "accelerators": [{"compute_units": units} if units else {}]}
        shape = Shape(device="AMD Instinct MI250X / MI250", precision="bf16", machine=machine)
        return gather(invented(shape)).utilisation.peak_flops

    assert [peak_of(units) for units in (110, 104, None)] == [191.5e12, 181.05e12, None]


def test_hosts_alike_are_one_row() -> None:
    systems = gather(many_workers(workers=100, trials_each=1)).systems

    assert [(system.hosts, system.workers, system.accelerators) for system in systems] == [(100, 100, 800)]


def test_a_run_that_has_only_begun_has_a_report_without_figures() -> None:
    report: Report = gather(SMALL[:1])

    assert report.score.flops_per_second is None
    assert not report.curve and not report.errors and not report.trials
    assert report.best is None and report.architecture is None
    assert report.run.end_reason is None


def test_a_resume_is_reported_with_downtime_and_new_versions() -> None:
    run = gather(RESUMED).run

    assert run.resumes == 1
    assert run.down_seconds == pytest.approx(18.0)
    assert run.versions_changed == ("ray",)


def test_images_of_lost_attempts_count_for_their_trial() -> None:
    report = gather(LOSSY)

    images = sum(
        event.interval.training_images
        for event in LOSSY
        if isinstance(event, Progress | EpochFinished) and event.interval is not None
    )
    assert sum(trial.training_images for trial in report.trials) == images
    assert sum(worker.trials for worker in report.workers) == sum(isinstance(e, TrialStarted) for e in LOSSY)


def test_a_trial_of_a_lost_worker_is_lost_for_its_reason() -> None:
    report = gather(LOSSY)

    gone = next(worker for worker in report.workers if worker.lost is not None)
    lost = [trial for trial in report.trials if trial.outcome == "lost"]
    assert [(trial.worker, trial.ended, trial.reason) for trial in lost] == [(gone.number, gone.lost, gone.lost_reason)]


def late(duration: float, end: float) -> list[AnyEvent]:
    """A run that was killed in its first seconds and resumed long after its declared end. Its window is `duration` − 20 s."""
    shape = Shape(duration=duration, end=15.0, ends=None)
    before = invented(shape)
    at = before[-1].at
    resumed = RunResumed(
        schema=SCHEMA, at=end, down_seconds=end - at, clock_stepped_back_seconds=0.0, versions={}, machine={}
    )
    return [*before, resumed, RunEnded(at=end, reason="duration")]


def test_the_window_of_the_ranking_is_the_scores_own() -> None:
    report = gather(late(duration=60.0, end=9000.0))

    assert report.score.window_seconds == 40.0
    (breach,) = (each for each in report.breaches if each.rule.startswith("a valid window"))
    assert breach.found == "a window of 40 s"


def test_an_evaluation_after_the_declared_end_does_not_count() -> None:
    run = invented(Shape(duration=60.0, warmup=10.0))
    first = run[0]
    assert isinstance(first, RunStarted)
    half = [msgspec.structs.replace(first, duration_seconds=30.0), *run[1:]]

    whole, report = gather(run), gather(half)

    assert report.score.error is not None and whole.score.error is not None
    assert report.score.error == 1.0 - max(e.accuracy for e in run if isinstance(e, EpochFinished) and e.at <= 30.0)
    assert report.score.error > whole.score.error
    assert report.errors[-1].best == report.score.error == report.curve[-1].error
    assert max(point.at for point in report.errors) <= 30.0
    best = next(trial for trial in report.trials if trial.number == report.best)
    assert best.accuracy == 1.0 - report.score.error


def test_a_device_without_a_peak_leaves_a_rule_unknown() -> None:
    report = gather(invented(Shape(duration=60.0, warmup=10.0, device="Abacus 9")))

    unknown = {each.id: each for each in report.breaches if each.is_unknown}
    assert unknown.keys() == {"peak", "contents"}
    assert unknown["peak"].found.startswith("unknown: ") and "Abacus 9" in unknown["peak"].found
    assert "2 rules could not be checked" in phrases.standing_parts(report)[1]


def test_the_share_of_random_tuning_needs_recorded_tuners() -> None:
    def gathered(*tuned_by: TunedBy) -> Proposals:
        events: list[AnyEvent] = [started(), joined()]
        for number, by in enumerate(tuned_by):
            at = 20.0 + 10 * number
            events += [
                requested(number, round=number + 1),
                msgspec.structs.replace(proposed(number, at), tuned_by=by),
                begun(number, at),
                interval(number, at, at + 8, 40, busy=2.0 + number),
                finished(number, at + 8, 0.5),
            ]
        return gather([*events, ended()]).proposals

    recorded, old = gathered("default", "startup", "tpe"), gathered("default", "", "tpe")

    assert (recorded.startup_trials, recorded.startup_share) == (1, 3 / 9)
    assert (old.startup_trials, old.startup_share) == (0, None)


def test_the_waterfall_names_every_loss_and_ends_at_the_score() -> None:
    report = gather(LOSSY)
    assert report.losses is not None

    picture = waterfall(report)

    assert picture.svg is not None and picture.png is not None
    for loss in report.losses.losses:
        assert loss.name in (picture.svg if loss.flops_per_second else picture.caption), loss.name
    assert report.losses.losses[-1].after_flops_per_second == report.score.flops_per_second
    assert report.losses.largest[0].name in picture.described


def test_without_a_window_a_note_replaces_the_waterfall() -> None:
    picture = waterfall(gather([started(), joined()]))

    assert picture.svg is None and "no valid window" in picture.empty
