"""Tests of the difference between a worker's matrix products at start-up and after the end."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aiperf.errors import JournalDamaged
from aiperf.journal.events import AnyEvent, WorkerJoined
from aiperf.journal.journal import NAME, Journal, read
from aiperf.report.gather import gather
from aiperf.report.sections.score import result
from tests.builders.journal import ended, evaluated, finished, interval, one_trial


def run(first: float, again: dict[str, float]) -> list[AnyEvent]:
    events = one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 0.9), finished(0, 30, 0.9), ended())
    measured: list[AnyEvent] = []
    for event in events:
        if isinstance(event, WorkerJoined):
            event = msgspec.structs.replace(event, machine=event.machine | {"measured_matmul_flops": {"bf16": first}})
        measured.append(event)
    measured[-1] = msgspec.structs.replace(measured[-1], measured_matmul_flops=again)
    return measured


@pytest.mark.parametrize(("again", "is_warned_of"), [(91e9, False), (109e9, False), (89e9, True), (111e9, True)])
def test_more_than_ten_per_cent_between_the_two_is_warned_of(again: float, is_warned_of: bool) -> None:
    report = gather(run(100e9, {"0": again}))

    (found,) = report.peaks_again
    assert (found.worker, found.precision, found.first_flops, found.again_flops) == (0, "bf16", 100e9, again)
    assert found.change == pytest.approx(again / 100e9 - 1)
    warned = [warning.text for warning in report.warnings if "measured matrix product" in warning.text]
    assert bool(warned) == is_warned_of
    assert [row[0].text for row in result(report).rows].count("measured peak, change") == 1


def test_a_run_that_was_not_measured_again_says_nothing_of_it() -> None:
    report = gather(run(100e9, {}))

    assert report.peaks_again == ()
    assert "measured peak, change" not in [row[0].text for row in result(report).rows]


@pytest.mark.parametrize("again", [{"7": 1e9}, {"0": 0.0}, {"0": float("inf")}, {"x": 1e9}])
def test_a_measurement_without_worker_or_value_is_refused(tmp_path: Path, again: dict[str, float]) -> None:
    with Journal(tmp_path / NAME) as journal:
        journal.append(run(100e9, again))

    with pytest.raises(JournalDamaged):
        list(read(tmp_path))
