"""Workers must have the data set of the plan. A worker with other files is refused with a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiperf.config import configure
from aiperf.data.survey import data_fingerprint
from aiperf.drive import machines
from aiperf.drive.ray import ray_executor
from aiperf.drive.session import SessionState
from aiperf.planning.plan import first_event, make_plan
from aiperf.planning.worker_shape import this_machine
from tests.builders.data_set import make

REPOSITORY = Path(__file__).parents[2]


def test_workers_get_the_fingerprint_of_the_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(tmp_path / "set")
    conf = configure(["dataset=images", f"dataset.root={root}", "start=resnet20"])
    first = first_event(make_plan(conf, this_machine(conf)), "a run", 1e6)
    plans: list[Any] = []
    monkeypatch.setattr(ray_executor, "RayExecutor", lambda plan, *_, **__: plans.append(plan))

    machines.on_ray(conf, tmp_path, SessionState.at(first))

    assert first.dataset["fingerprint"] == data_fingerprint(conf.dataset)
    assert [plan.dataset.fingerprint for plan in plans] == [first.dataset["fingerprint"]]
    assert first.config["dataset"]["fingerprint"] is None, "what the user has not said stands in no configuration"
