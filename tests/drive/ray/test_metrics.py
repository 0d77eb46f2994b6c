"""Metrics of a run at Ray's Prometheus endpoint.

Compared with its journal and with the queries of the Grafana dashboard.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
import ray
import yaml

from aiperf.config import configure
from aiperf.drive.driver import Driver
from aiperf.drive.ray import metrics
from aiperf.drive.ray.metrics import FORMER, METRICS, figures, publisher
from aiperf.journal.journal import read
from aiperf.report.gather import gather
from aiperf.simulate.session import open_run, simulate
from tests.rigs.foreign_processes import REPOSITORY

DASHBOARD = REPOSITORY / "grafana" / "aiperf.json"
ALERTS = REPOSITORY / "prometheus" / "alerts.yaml"


def test_the_figures_are_those_of_the_journal(tmp_path: Path) -> None:
    words = ["+cluster=simulated", "cluster.workers=3", "cluster.faults=[{kind: worker_lost}]", f"runs={tmp_path}"]
    seen: list[dict[tuple[str, str], float]] = []
    conf = configure([*words, "schedule.duration_seconds=7200", "schedule.warmup_seconds=600"])

    folder = simulate(open_run(conf), lambda driver: seen.append(figures(driver)) if driver.run.ended else None)

    events = list(read(folder))
    report = gather(iter(events))
    found = seen[-1]
    assert {name for name, _ in found} == set(METRICS)
    assert found["aiperf_score_flops_per_second", ""] == pytest.approx(report.score.flops_per_second)
    assert found["aiperf_regulated_flops_per_second", ""] == pytest.approx(report.score.regulated_flops_per_second)
    assert found["aiperf_error", ""] == report.score.error
    assert found[FORMER, ""] == found["aiperf_busy", ""]
    assert found["aiperf_trials", "finished"] == sum(
        trial.outcome in ("epochs", "early stop") for trial in report.trials
    )
    assert found["aiperf_workers_lost", ""] > 0
    assert found["aiperf_journal_lines", ""] == len(events)


class Recorded:
    """A gauge that keeps what it was set to. Ray takes ASCII alone."""

    made: ClassVar[dict[str, Recorded]] = {}

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        assert (name + description).isascii()
        self.tag_keys = tag_keys
        self.values: list[float] = []
        Recorded.made[name] = self

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert set(tags) == set(self.tag_keys) and "".join(tags.values()).isascii()
        self.values.append(value)


def test_they_are_set_every_few_seconds_and_not_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray.util.metrics

    monkeypatch.setattr(ray.util.metrics, "Gauge", Recorded)
    now = 100.0
    publish = publisher(lambda: now)
    turns: list[float] = []

    def after_turn(driver: Driver) -> None:
        nonlocal now
        now += 1.0
        turns.append(now)
        publish(driver)

    words = ["+cluster=simulated", "cluster.workers=2", "schedule.duration_seconds=600", "name=größe"]
    conf = configure([*words, f"runs={tmp_path}"])
    simulate(open_run(conf), after_turn)

    assert set(Recorded.made) == set(METRICS)
    times = len(Recorded.made["aiperf_run_seconds"].values)
    assert times == pytest.approx(len(turns) / metrics.EVERY_SECONDS, abs=1.0)


def queries(node: Any) -> list[str]:
    """All that a dashboard asks of Prometheus."""
    if isinstance(node, list):
        return [found for one in node for found in queries(one)]
    if isinstance(node, dict):
        own = [node[key] for key in ("expr", "query", "definition") if isinstance(node.get(key), str)]
        return [*own, *(found for one in node.values() for found in queries(one))]
    return []


def metrics_of_ray() -> set[str]:
    """Names that Ray's agent of a node exports."""
    agent = Path(ray.__file__).parent / "dashboard" / "modules" / "reporter" / "reporter_agent.py"
    return set(re.findall(r'"(node_\w+)": Gauge', agent.read_text()))


def test_queries_and_alerts_use_exported_metrics() -> None:
    dashboard, alerts = json.loads(DASHBOARD.read_text()), yaml.safe_load(ALERTS.read_text())

    asked = [query for query in queries(dashboard) if query != "prometheus"]
    rules = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    named = [set(re.findall(r"\bray_(\w+)", query)) for query in [*asked, *rules]]

    assert len(rules) == 3 and all(named), asked
    assert set().union(*named) <= {*METRICS, *metrics_of_ray()}
    assert set(METRICS) - set().union(*named) == {FORMER}
    for panel in dashboard["panels"]:
        assert {"id", "type", "title", "gridPos", "targets", "fieldConfig", "options"} <= set(panel)
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["fieldConfig"]["defaults"]["unit"] and not panel["fieldConfig"]["overrides"]
        assert panel["type"] == "stat" or panel["options"]["tooltip"]["mode"] == "multi"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert {"title", "uid", "schemaVersion", "templating", "time"} <= set(dashboard)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_alerts() -> None:
    checked = subprocess.run(["promtool", "check", "rules", ALERTS], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
