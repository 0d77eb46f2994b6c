"""The sweep over cluster sizes: near-perfect scaling without faults, and one picture of it."""

from __future__ import annotations

from pathlib import Path

from aiperf.conf import RunConf
from aiperf.limits import ScheduleConf
from aiperf.simulate.picture import draw
from aiperf.simulate.rehearse import line, lost, perfect, rehearse, sizes, table
from aiperf.train.data.conf import ImagenetConf
from cluster.conf import SimulatedConf
from searchers.conf import OffConf, RandomConf


def test_each_size_is_a_fourth_of_the_next_and_the_largest_is_the_one_asked_for() -> None:
    assert [sizes(largest) for largest in (1, 2, 4, 64, 100)] == [
        [1],
        [1, 2],
        [1, 4],
        [1, 4, 16, 64],
        [1, 4, 16, 64, 100],
    ]


def test_clusters_without_faults_scale_within_two_per_cent_and_are_drawn(tmp_path: Path) -> None:
    conf = RunConf(
        dataset=ImagenetConf(),
        schedule=ScheduleConf(duration_seconds=10_000.0, warmup_seconds=2000.0),
        searcher=RandomConf(),
        hpo=OffConf(),
        cluster=SimulatedConf(),
    )
    alone = perfect(conf)

    sweep = [rehearse(conf, workers, alone) for workers in (1, 8)]
    png, svg = draw(sweep, tmp_path)

    assert all(0.98 < each.efficiency < 1.03 for each in sweep)
    assert sweep[1].score_flops_per_second > 7 * sweep[0].score_flops_per_second
    assert png.read_bytes().startswith(b"\x89PNG") and "<svg" in svg.read_text()
    assert "efficiency" in line(sweep[1]) and "compile" in lost(sweep[1]) and table(sweep).count("\n") == 3
