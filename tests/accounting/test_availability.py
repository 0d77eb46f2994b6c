"""Present share of the planned accelerator time, from a journal alone."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.accounting.accelerator_time import accelerator_time, availability, planned_accelerators
from aiperf.accounting.intervals import Window
from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkerPresence, WorkLog, window, work_log
from aiperf.journal.events import RunStarted, TrialLost
from tests.builders.journal import begun, one_trial, prepared, started

WINDOW = Window(100.0, 300.0)


def log_of(*there: tuple[float, float | None, int], cluster: dict[str, object] | None = None) -> WorkLog:
    """Return the work log of a run with workers only: (joined, left, ranks)."""
    event = started()
    log = work_log([msgspec.structs.replace(event, config={**event.config, "cluster": cluster})])
    for number, (joined, left, ranks) in enumerate(there):
        log.presences.append(WorkerPresence(number, "host", "CPU", ranks, joined, left))
    return log


def kubernetes(workers: int, accelerators: int) -> dict[str, object]:
    return {"kind": "kubernetes", "max_workers": workers, "accelerators": accelerators}


def test_run_with_all_planned_accelerators_is_fully_available() -> None:
    found = availability(log_of((0.0, None, 8), (50.0, None, 8), cluster=kubernetes(2, 8)), WINDOW, 300.0, 5e12)

    assert (found.planned, found.is_declared, found.share) == (16, True, 1.0)
    assert found.adjusted_flops_per_second == 5e12


def test_worker_present_for_half_of_the_window_counts_half() -> None:
    found = availability(log_of((0.0, 200.0, 8), (0.0, None, 8), cluster=kubernetes(4, 8)), WINDOW, 300.0, 3e12)

    assert found.share == pytest.approx((0.5 + 1.0) / 4)
    assert found.adjusted_flops_per_second == pytest.approx(8e12)
    assert found.steps == ((0.0, 16), (200.0, 8), (300.0, 8))


def test_ranks_of_a_lost_host_are_absent_from_the_loss_on() -> None:
    """A worker of two hosts loses one at 150 s and continues without it. The next preparation reports the loss."""
    lost = TrialLost(at=150.0, trial=0, attempt=1, reason="host b is gone")
    without_it = msgspec.structs.replace(prepared(0, 170.0, attempt=2), ranks=1)
    log = work_log(one_trial(prepared(0, 5.0), lost, begun(0, 160.0, attempt=2), without_it))

    found = availability(log, WINDOW, 300.0, 1e9)

    assert found.share == pytest.approx((2 * 50 + 1 * 150) / (2 * 200))
    assert found.steps == ((0.0, 2), (150.0, 1), (300.0, 1))
    spent = accelerator_time(log, WINDOW)
    assert spent.present == 2 * 50 + 1 * 150 and spent.accelerators == 2
    assert spent.start + spent.compile + spent.gap == pytest.approx(10 + 10), "one accelerator from 150 to 170 s"


def test_without_a_declared_number_the_most_at_once_are_the_plan() -> None:
    found = availability(log_of((0.0, 150.0, 2), (150.0, None, 2), (200.0, None, 2)), WINDOW, 300.0, 1e9)

    assert (found.planned, found.is_declared) == (4, False), "one that leaves as another comes is no moment with both"
    assert found.share == pytest.approx((50 + 150 + 100) / (2 * 200))


def test_more_accelerators_than_planned_keep_the_share_at_one() -> None:
    found = availability(log_of((0.0, None, 8), (0.0, None, 8), cluster=kubernetes(1, 8)), WINDOW, 300.0, 1e9)

    assert (found.planned, found.share) == (16, 1.0)


def test_without_a_window_or_a_worker_nothing_is_adjusted() -> None:
    nobody = availability(log_of(), WINDOW, 300.0, 0.0)
    too_short = availability(log_of((0.0, None, 8)), Window(100.0, 100.0), 50.0, None)

    assert (nobody.share, nobody.adjusted_flops_per_second) == (None, None)
    assert (too_short.share, too_short.adjusted_flops_per_second) == (None, None)
    never_came = availability(log_of(cluster=kubernetes(1, 8)), WINDOW, 300.0, 0.0)
    assert (never_came.share, never_came.adjusted_flops_per_second) == (0.0, None)


@given(
    st.lists(st.tuples(st.floats(0, 400), st.floats(0, 400), st.integers(1, 8)), max_size=12),
    st.none() | st.integers(1, 200),
)
def test_share_is_the_area_under_the_steps(there: list[tuple[float, float, int]], declared: int | None) -> None:
    spans = [(min(one, other), max(one, other), ranks) for one, other, ranks in there if one != other]
    cluster = None if declared is None else kubernetes(declared, 1)
    found = availability(log_of(*spans, cluster=cluster), WINDOW, 400.0, 1e9)

    area = math.fsum(
        count * max(0.0, min(until, WINDOW.end) - max(since, WINDOW.start))
        for (since, count), (until, _) in zip(found.steps, found.steps[1:], strict=False)
    )
    assert found.planned >= max(count for _, count in found.steps)
    if found.planned:
        assert found.share == pytest.approx(area / (found.planned * WINDOW.seconds))
        assert found.share is not None and 0 <= found.share <= 1 + 1e-12


def test_planned_number_is_read_from_the_first_line() -> None:
    event = started()

    def planned(cluster: dict[str, object] | None) -> int | None:
        first: RunStarted = msgspec.structs.replace(event, config={**event.config, "cluster": cluster})
        return planned_accelerators(first.config, None if first.shape is None else first.shape.ranks)

    assert planned(None) is None
    assert planned(kubernetes(3, 4)) == 12
    assert planned({"kind": "simulated", "workers": 5, "accelerators": 2}) == 10
    assert planned({"kind": "ray", "ask_nodes": 0, "ask_accelerators": 0}) is None
    assert planned({"kind": "ray", "ask_nodes": 2, "ask_accelerators": 8}) == 16
    assert planned({"kind": "slurm", "nodes": 4}) is None
    shape = event.shape
    assert planned(kubernetes(3, 0)) == (None if shape is None else 3 * shape.ranks)


def test_the_adjusted_figure_leaves_the_score_alone() -> None:
    log = log_of((0.0, None, 1))

    before = score(log)
    availability(log, window(log), 300.0, before.flops_per_second)

    assert score(log) == before
