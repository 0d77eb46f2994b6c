"""`python -m aiperf scale` as a user types it, on simulated workers of one and more accelerators."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.builders.run import folder_of
from tests.rigs.user import User

FREE: dict[str, object] = {"cluster.workers": 1, "cluster.overlap": 0, "schedule.duration_seconds": 300}


def test_simulated_workers_show_their_slow_links(aiperf: User, tmp_path: Path) -> None:
    links = "[{width: 0, latency_seconds: 0.01, bytes_per_second: 1e9}]"
    for size in (1, 2, 4):
        folder_of(tmp_path / "sweep", f"size-{size}", FREE | {"cluster.accelerators": size, "cluster.links": links})

    answer = aiperf("scale", "sweep", "--json")
    shown = aiperf("scale", "sweep", "--evaluation", "in").out

    found = json.loads(answer.out)
    assert answer.status == 0 and found["scaling"] == "weak"
    assert [(each["from"], each["to"]) for each in found["pairs"]] == [(1, 2), (1, 4)]
    for pair in found["pairs"]:
        assert math.fsum(pair["points_lost"].values()) == pytest.approx(100 * (1 - pair["efficiency"]), abs=1e-9)
        assert max(pair["points_lost"], key=lambda line: pair["points_lost"][line]) == "communication"
    assert found["pairs"][1]["efficiency"] < found["pairs"][0]["efficiency"] < 1
    assert "weak scaling of 3 runs, evaluation in" in shown
    assert "1 to 4 accelerators: " in shown and "Most was lost in communication" in shown


def test_runs_of_one_size_are_refused(aiperf: User, tmp_path: Path) -> None:
    folder_of(tmp_path / "runs", "one", FREE)

    answer = aiperf("scale", "one")

    assert answer.status == 2
    assert "scaling needs runs with at least two numbers of accelerators, but found [1]" in answer.err
