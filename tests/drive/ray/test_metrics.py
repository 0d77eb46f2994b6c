"""Metrics of a run at Ray's Prometheus endpoint.

Compared with its journal and with the queries of the Grafana dashboard.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiperf.__main__ import main
from aiperf.config import configure
from aiperf.drive.driver import Driver
from aiperf.drive.ray import metrics
from aiperf.drive.ray.metrics import METRICS, figures, publisher
from aiperf.errors import BadConfiguration
from aiperf.journal.events import EpochFinished, WorkerJoined
from aiperf.journal.journal import read
from aiperf.report.gather import gather
from aiperf.simulate.session import open_run, simulate
from tests.rigs.foreign_processes import REPOSITORY

DASHBOARD = REPOSITORY / "grafana" / "aiperf.json"


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
    assert found["aiperf_trials", "finished"] == sum(
        trial.outcome in ("epochs", "early stop") for trial in report.trials
    )
    assert found["aiperf_workers_lost", ""] > 0
    assert found["aiperf_journal_lines", ""] == len(events)


class Recorded:
    """A gauge that keeps what it was set to."""

    made: ClassVar[dict[str, Recorded]] = {}

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        self.tag_keys = tag_keys
        self.values: list[float] = []
        Recorded.made[name] = self

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert set(tags) == set(self.tag_keys)
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

    conf = configure(["+cluster=simulated", "cluster.workers=2", f"runs={tmp_path}", "schedule.duration_seconds=600"])
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


def test_dashboard_queries_match_the_exported_metrics() -> None:
    dashboard = json.loads(DASHBOARD.read_text())

    asked = [query for query in queries(dashboard) if query != "prometheus"]
    named = [set(re.findall(r"\bray_(aiperf_\w+)", query)) for query in asked]

    assert len(asked) > len(METRICS)
    assert all(named), asked
    assert set().union(*named) == set(METRICS)
    for panel in dashboard["panels"]:
        assert {"id", "type", "title", "gridPos", "targets", "fieldConfig", "options"} <= set(panel)
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert {"title", "uid", "schemaVersion", "templating", "time"} <= set(dashboard)


def test_an_endpoint_that_cannot_be_had_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, told in (
        (["metrics_port=0"], "metrics_port is between 1 and 65535, but found 0"),
        (["metrics_port=9090", "executor=inline"], "found it with executor=inline: it has no Ray"),
        (["metrics_port=9090", "+cluster=simulated"], "found it with +cluster=simulated: it has no Ray"),
    ):
        assert main(words) == 2
        assert told in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray.dashboard.optional_deps", None)
    with pytest.raises(BadConfiguration, match=r"pip install 'ray\[default\]'"):
        metrics.require_endpoint()


def _missing() -> str | None:
    names = ("prometheus_client", "opencensus", "aiohttp_cors", "opentelemetry.exporter.prometheus")
    for name in names:
        try:
            if importlib.util.find_spec(name) is None:
                return name
        except ModuleNotFoundError:
            return name
    return None


@pytest.mark.slow
@pytest.mark.skipif(_missing() is not None, reason=f"no ray[default]: there is no {_missing()}")
def test_prometheus_reads_metrics_that_match_the_journal(tmp_path: Path) -> None:
    parse = importlib.import_module("prometheus_client.parser").text_string_to_metric_families

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["schedule.duration_seconds=900", "schedule.warmup_seconds=1", f"metrics_port={port}", f"runs={tmp_path}"]
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "aiperf", *words],
            env=mine | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), mine.get("PYTHONPATH", "")])},
            stdout=said,
            stderr=said,
            cwd=tmp_path,
        )
    found: dict[str, dict[str, float]] = {}
    try:
        deadline = time.monotonic() + 600.0
        while found.get("ray_aiperf_trials", {}).get("finished", 0.0) < 1.0:
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < deadline, found
            time.sleep(2.0)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    text = answer.read().decode()
            except OSError:
                continue
            found = {
                family.name: {sample.labels.get("state", ""): sample.value for sample in family.samples}
                for family in parse(text)
                if family.name.startswith("ray_aiperf")
            }
        addresses = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        listening = [line.split()[1] for line in addresses.splitlines() if line.split()[3] == "0A"]
        assert [one for one in listening if one.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"], "loopback alone"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(300)

    (folder,) = tmp_path.glob("*-digits")
    events = list(read(folder))
    report = gather(iter(events))
    assert found.keys() <= {f"ray_{name}" for name in METRICS}
    assert found.keys() >= {f"ray_{name}" for name in METRICS} - {"ray_aiperf_regulated_flops_per_second"}
    (joined,) = [event for event in events if isinstance(event, WorkerJoined)]
    assert found["ray_aiperf_accelerators"][""] == joined.ranks
    assert (
        1
        <= found["ray_aiperf_trials"]["finished"]
        <= sum(trial.outcome in ("epochs", "early stop") for trial in report.trials)
    )
    assert found["ray_aiperf_error"][""] in {
        1.0 - event.accuracy for event in events if isinstance(event, EpochFinished)
    }
    assert 0 < found["ray_aiperf_journal_lines"][""] <= len(events)
    assert found["ray_aiperf_score_flops_per_second"][""] > 0
