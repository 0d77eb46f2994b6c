"""Since when a running score stayed near its end."""

from __future__ import annotations

import pytest

from aiperf.accounting.intervals import Window
from aiperf.accounting.score import CurvePoint, settled


def _curve(*values: float | None) -> list[CurvePoint]:
    return [CurvePoint(float(at + 1), value, 0.0, 0.0, None, None) for at, value in enumerate(values)]


def test_the_last_entry_into_the_band_counts() -> None:
    points = _curve(None, 100.0, 80.0, 99.5, 104.0, 100.5, 100.0)

    near = settled(points, Window(1.0, 7.0), (0.05, 0.01))

    assert [(each.share, each.at) for each in near] == [(0.05, 4.0), (0.01, 6.0)]
    assert near[0].part_of_window == pytest.approx(0.5)


def test_a_score_that_climbs_to_the_end_settles_only_there() -> None:
    near = settled(_curve(10.0, 20.0, 40.0, 80.0), Window(0.0, 4.0), (0.01,))

    assert near[0].at == 4.0 and near[0].part_of_window == 1.0


def test_a_run_without_a_window_or_without_work_has_not_settled() -> None:
    assert settled(_curve(None, None), Window(5.0, 2.0)) == ()
    assert settled(_curve(0.0, 0.0), Window(0.0, 2.0)) == ()
