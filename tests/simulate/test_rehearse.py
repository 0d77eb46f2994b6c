"""Simulated clusters of several sizes: near-perfect scaling without faults, the cost of faults, and one plot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.__main__ import main as command_line
from aiperf.config import RunConf
from aiperf.data.dataset_config import ImagenetConf
from aiperf.errors import BadConfiguration
from aiperf.rules.limits import ScheduleConf
from aiperf.simulate.study.rehearsal import (
    alone,
    configured,
    draw,
    introduction,
    lost,
    reference_text,
    rehearse,
    size_table,
    sizes,
)
from cluster.simulated import SimulatedConf
from searchers.searcher_config import OffConf, RandomConf


@pytest.fixture(scope="module")
def conf() -> RunConf:
    return RunConf(
        dataset=ImagenetConf(),
        schedule=ScheduleConf(duration_seconds=10_000.0, warmup_seconds=2000.0),
        searcher=RandomConf(),
        hpo=OffConf(),
        cluster=SimulatedConf(),
    )


def test_sizes_are_fourths_up_to_the_requested_size() -> None:
    assert [sizes(largest) for largest in (1, 2, 4, 64, 100)] == [
        [1],
        [1, 2],
        [1, 4],
        [1, 4, 16, 64],
        [1, 4, 16, 64, 100],
    ]


def test_a_rehearsal_is_short_unless_a_schedule_is_named() -> None:
    assert configured([]).schedule.duration_seconds == 3 * 3600
    assert configured(["schedule=ranking"]).schedule.duration_seconds == 12 * 3600
    assert configured(["schedule.duration_seconds=7200"]).schedule.duration_seconds == 7200


def test_clusters_without_faults_scale_within_1_percent(conf: RunConf, tmp_path: Path) -> None:
    reference = alone(conf, seeds=4)

    clusters = [rehearse(conf, workers, reference) for workers in (1, 8)]
    png, svg = draw(clusters, tmp_path)

    assert all(0.98 < each.efficiency < 1.02 for each in clusters)
    assert all(0.99 < each.busy_efficiency < 1.01 for each in clusters)
    assert clusters[1].score_flops_per_second > 7 * clusters[0].score_flops_per_second
    assert sum(clusters[1].shares.values()) == pytest.approx(1.0)
    assert png.read_bytes().startswith(b"\x89PNG") and "<svg" in svg.read_text()
    assert [row[0].text for row in size_table(clusters).rows] == ["1", "8"]
    assert "with 1 worker:" in lost(clusters[0]) and "compile" in lost(clusters[1])
    assert "one worker alone" in reference_text(reference)


def test_a_run_too_short_for_a_score_is_refused(conf: RunConf) -> None:
    short = replace(conf, schedule=ScheduleConf(duration_seconds=20.0, warmup_seconds=10.0))

    with pytest.raises(BadConfiguration, match="one worker has no score after 20 s"):
        alone(short, seeds=1)


def test_a_rehearsal_first_states_that_nothing_is_measured(conf: RunConf) -> None:
    assert introduction(conf).startswith("simulated clusters: 2 h 47 min of a virtual clock each")
    assert "searcher random, tuning off, faults: none. No work is done" in introduction(conf)


def test_a_rehearsal_has_a_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["rehearse", "--help"]) == 0
    assert "usage: python -m aiperf rehearse" in capsys.readouterr().out
