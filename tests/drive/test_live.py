"""Table of a running run: its refresh interval, its size, and plain lines without a terminal."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from io import StringIO

from rich.console import Console

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.drive.live import LINE_SECONDS, Live, LiveView, WorkerView, line, table
from tests.builders.journal import one_trial

VIEW = LiveView(
    run="a-run",
    at=90.0,
    duration_seconds=180.0,
    warmup_seconds=20.0,
    flops_per_second=7.1e10,
    score=replace(
        score(work_log(one_trial())),
        flops_per_second=6.95e10,
        regulated_flops_per_second=2.7e11,
        error=0.0194,
        busy_share=0.964,
        trials_finished=7,
    ),
    proposals_waiting=2,
    workers_training=1,
    workers_preparing=0,
    workers_waiting=0,
    workers_lost=0,
    workers=(WorkerView(0, "desk", "training", 7, 8, 3, 10, 0.95),),
)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(view: LiveView, width: int = 120, height: int = 30) -> str:
    console = Console(file=(output := StringIO()), width=width)
    console.print(table(view, height))
    return output.getvalue()


def test_the_line_has_all_important_figures() -> None:
    assert line(VIEW) == (
        "1 min 30 s left · score 69.5 GFLOPS · now 71.0 GFLOPS · regulated 270 GFLOPS · error 1.94 % · busy 96.4 % · trials 7 "
        "· proposals waiting 2 · 1 worker · 1 training · 0 preparing · 0 waiting"
    )


def test_what_is_not_measured_yet_is_not_shown_as_zero() -> None:
    early = replace(VIEW, at=5.0, score=score(work_log(one_trial())))

    assert "score after the warm-up, in 15 s" in line(early)
    assert "error —" in line(early)
    assert "busy —" in line(early)
    assert "—" in shown(early)


def test_a_simulated_run_is_marked() -> None:
    assert "simulated score" in line(replace(VIEW, is_simulated=True))
    assert "simulated score" in shown(replace(VIEW, is_simulated=True))


def test_without_a_terminal_a_line_is_printed_every_minute() -> None:
    clock, output, made = Clock(), StringIO(), []

    def make() -> LiveView:
        made.append(clock.now)
        return VIEW

    with closing(Live(Console(file=output, force_terminal=False, width=40), clock)) as live:
        for tenth in range(1201):
            clock.now = tenth / 10
            live.show(make)

    assert made == [0.0, LINE_SECONDS, 2 * LINE_SECONDS]
    assert output.getvalue() == f"{line(VIEW)}\n" * 3


def test_a_terminal_is_refreshed_at_most_twice_a_second() -> None:
    clock, made = Clock(), []

    with closing(Live(Console(file=StringIO(), force_terminal=True), clock)) as live:
        for hundredth in range(301):
            clock.now = hundredth / 100
            if live.show(lambda: VIEW):
                made.append(clock.now)

    assert made == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]


def test_showing_takes_at_most_a_fiftieth_of_the_drivers_time() -> None:
    clock, spent = Clock(), 0.0

    def slow() -> LiveView:
        clock.now += 0.1
        return VIEW

    with closing(Live(Console(file=StringIO(), force_terminal=True), clock)) as live:
        while clock.now < 100.0:
            spent += 0.1 * live.show(slow)
            clock.now += 0.01

    assert spent <= 0.02 * clock.now + 0.1


def test_names_from_a_journal_cannot_control_the_terminal() -> None:
    evil = "\x1b[2J\x9b31m\u202e[red]x[/nothing]"
    view = replace(VIEW, run=evil, workers=(replace(VIEW.workers[0], host=evil, doing=evil),))

    text = shown(view, width=160)

    assert not set("\x1b\x9b\u202e") & set(text)
    assert text.count("[red]x[/nothing]") == 3
