"""A simulated run ends once its score has converged, and its journal shows the same decision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aiperf.accounting.convergence import StopRule, rest_at
from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.config import RunConf
from aiperf.journal.events import AnyEvent, RunEnded
from aiperf.journal.journal import NAME, read
from aiperf.rules.limits import progress_seconds
from aiperf.simulate.drive import drive
from aiperf.simulate.session import open_run, world_of
from tests.simulate.test_session import configured

RULE = StopRule(warmup_seconds=1200.0, least_seconds=3600.0, precision=0.05)


def conf(precision: float = RULE.precision) -> RunConf:
    plain = configured(hours=12.0, workers=24, join_seconds=1.0)
    schedule = replace(
        plain.schedule,
        epochs=[1, 2, 3, 4],  # a trial is short compared with the window
        stop="converged",
        stop_precision=precision,
        stop_after_seconds=RULE.least_seconds,
    )
    return replace(plain, schedule=schedule)


def simulated(folder: Path, asked: RunConf) -> list[AnyEvent]:
    opening = open_run(asked)
    folder.mkdir()
    drive(world_of(opening), opening.first, folder / NAME)
    return list(read(folder))


def test_a_run_ends_when_its_score_has_converged(tmp_path: Path) -> None:
    asked = conf()

    events = simulated(tmp_path / "run", asked)

    end = events[-1]
    assert isinstance(end, RunEnded) and end.reason == "converged"
    assert 4800.0 <= end.at < 12 * 3600
    late = 2 * progress_seconds(asked.limits, 24)
    asked_at = RULE.last_look(end.at - late)
    assert asked_at is not None and rest_at(work_log(events), RULE, asked_at).is_reached
    before = asked_at - RULE.least_seconds / 10
    if before >= 4800.0:
        assert not rest_at(work_log(events), RULE, before).is_reached
    assert not rest_at(work_log(events), RULE, asked_at).in_short_rounds
    figures = score(work_log(events))
    assert figures.valid and figures.flops_per_second is not None


def test_run_without_the_precision_continues_to_its_declared_end(tmp_path: Path) -> None:
    asked = conf(precision=1e-6)

    events = simulated(tmp_path / "run", replace(asked, schedule=replace(asked.schedule, duration_seconds=9000.0)))

    assert isinstance(events[-1], RunEnded) and events[-1].reason == "duration"
