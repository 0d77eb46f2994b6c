"""The live table in terminals of several sizes: complete figures, no line too wide or too many."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from aiperf import units
from aiperf.drive.live import MOST_WORKERS, LiveView, WorkerView, table
from aiperf.journal.events import FollowedRun
from tests.drive.test_live import VIEW

RATE = st.just(0.0) | st.floats(1e-3, 1e30) | st.just(float("nan"))
SHARES = st.none() | st.floats(0, 1) | st.just(float("nan"))
NAMES = st.text(min_size=1, max_size=80) | st.just("a-very-long-host-name.of-a-rack.of-a-site.example.org")


def worker_views(number: int) -> st.SearchStrategy[WorkerView]:
    return st.builds(
        WorkerView,
        worker=st.just(number),
        host=NAMES,
        doing=st.sampled_from(("training", "preparing", "waiting")),
        trial=st.none() | st.integers(0, 10**7),
        round=st.none() | st.integers(1, 10**5),
        epoch=st.integers(1, 10**5),
        epochs=st.integers(1, 10**5),
        accuracy=SHARES,
        silent_seconds=st.floats(0, 1e5),
    )


@st.composite
def views(draw: st.DrawFn) -> LiveView:
    present = draw(st.sampled_from((0, 1, 2, 16, 64, 4096)))
    told = min(present, MOST_WORKERS)
    some = [draw(worker_views(0)) for _ in range(min(told, 3))]
    followed = FollowedRun(
        run="other", path="/runs/other", lines=9, last_hash="0" * 64, trials=10**6, left_out={}, ranks=2
    )
    return LiveView(
        run=draw(NAMES),
        at=draw(st.floats(0, 1e9)),
        duration_seconds=draw(st.floats(1, 1e9)),
        warmup_seconds=draw(st.floats(0, 1e8)),
        flops_per_second=draw(RATE),
        score=replace(
            VIEW.score,
            flops_per_second=draw(st.none() | RATE),
            regulated_flops_per_second=draw(st.none() | RATE),
            error=draw(SHARES),
            busy_share=draw(SHARES),
            trials_finished=draw(st.integers(0, 10**9)),
        ),
        proposals_waiting=draw(st.integers(0, 10**6)),
        workers_training=present,
        workers_preparing=0,
        workers_waiting=0,
        workers_lost=draw(st.integers(0, 10**5)),
        workers=tuple(replace(some[number % 3], worker=number) for number in range(told)) if some else (),
        is_simulated=draw(st.booleans()),
        follows=draw(st.none() | st.just(followed)),
    )


def lines_of(view: LiveView, width: int = 80, height: int = 24) -> list[str]:
    output = StringIO()
    Console(file=output, width=width, force_terminal=True, color_system=None).print(table(view, height))
    return output.getvalue().splitlines()


@given(view=views(), width=st.integers(20, 220), height=st.integers(20, 70))
def test_the_table_fits_the_terminals_width_and_height(view: LiveView, width: int, height: int) -> None:
    assert all(cell_len(line) <= width for line in lines_of(view, width, height))
    assert width < 80 or len(lines_of(view, width, height)) <= height


@given(view=views(), size=st.sampled_from(((80, 24), (200, 60))))
def test_every_head_figure_is_complete(view: LiveView, size: tuple[int, int]) -> None:
    text = " ".join(line.strip(" ") for line in lines_of(view, *size))

    rates = (view.flops_per_second, view.score.flops_per_second, view.score.regulated_flops_per_second)
    for value in rates:
        if value is not None and value == value:
            assert whole(units.flops_per_second(value), text)
    for share, written in ((view.score.busy_share, units.share), (view.score.error, units.error)):
        if share is not None and share == share:
            assert whole(written(share), text)
    assert whole(units.count(view.proposals_waiting), text)


def whole(figure: str, text: str) -> bool:
    """Return whether the text is shown, separated from all other figures."""
    return re.search(rf"(?<![\d.,/]){re.escape(figure)}(?![\d.,/A-Za-z])", text) is not None


def many(count: int) -> LiveView:
    told = tuple(replace(VIEW.workers[0], worker=number) for number in range(min(count, MOST_WORKERS)))
    return replace(VIEW, workers=told, workers_training=count)


@pytest.mark.parametrize("height", [24, 60])
@pytest.mark.parametrize("count", [1, 16, 64, 4096])
def test_workers_that_have_no_line_are_counted(count: int, height: int) -> None:
    lines = lines_of(many(count), 80, height)

    shown = sum(re.match(r" *\d+  .*training", line) is not None for line in lines)
    assert shown == count or f"and {units.count(count - shown)} more" in "\n".join(lines)
    assert shown == count or shown >= 10
    assert len(lines) <= height


def test_where_not_all_have_a_line_the_worst_come_first() -> None:
    silent = replace(VIEW.workers[0], worker=70, silent_seconds=500.0)
    waiting = WorkerView(90, "desk", "waiting")
    view = many(100)
    view = replace(view, workers=(*view.workers[:70], silent, *view.workers[71:90], waiting, *view.workers[91:]))

    rows = [line.split() for line in lines_of(view)]

    first = next(place for place, row in enumerate(rows) if row[:1] == ["worker"]) + 1
    assert [row[0] for row in rows[first : first + 3]] == ["90", "70", "0"]


def test_before_the_first_worker_the_table_names_the_wait() -> None:
    view = replace(VIEW, workers=(), workers_training=0, score=replace(VIEW.score, trials_finished=0))

    assert any("workers are starting, and import torch" in line for line in lines_of(view))
