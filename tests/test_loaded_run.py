"""`aiperf.load`: figures as in the report, tables as DataFrames, and a cheap `import aiperf`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import aiperf
from aiperf.errors import AiperfError, NoSuchRun
from aiperf.report.write import closing_lines, report_of
from aiperf.system.log import Log, Session
from aiperf.system.log import path as telemetry_of
from aiperf.system.sampler import Device, DeviceSample
from tests.builders.report_journal import Shape, invented
from tests.rigs.user import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two workers with telemetry of one."""
    folder = write_run(tmp_path_factory.mktemp("runs") / "one", invented(Shape(workers=2)))
    host = Device(id="host", kind="host")
    log = Log(telemetry_of(folder, 0))
    log.begin(Session(host="desk", worker=0, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=(host,)))
    log.append(3.0, 3.0, [DeviceSample(device="host", utilisation=0.5)])
    log.close()
    return folder


def test_figures_equal_those_of_the_report(folder: Path) -> None:
    run, report = aiperf.load(folder), report_of(folder)

    assert (run.score, run.error) == (report.score.flops_per_second, report.score.error)
    assert run.interval == report.score.flops_per_second_interval
    assert (run.figures["score"], run.figures["mfu"], run.figures["busy"]) == (run.score, run.mfu, run.busy)
    assert (run.mfu, run.busy) == (report.utilisation.mfu, report.score.busy_share)
    assert run.warnings == report.warnings and run.config == report.run.config
    assert run.name in repr(run)


@pytest.mark.parametrize("lines", [0.3, 0.6, 0.98])
def test_a_run_cut_short_has_no_score_anywhere(lines: float, tmp_path: Path) -> None:
    events = list(invented(Shape(workers=2)))
    folder = write_run(tmp_path / "cut", events[: int(lines * len(events))])

    run, printed = aiperf.load(folder), closing_lines(report_of(folder), tmp_path / "report.html")

    assert (run.is_valid, run.score, run.interval, run.regulated_score, run.figures["score"]) == (False, *4 * (None,))
    assert "no valid score" in repr(run)
    assert printed[-1].startswith("no valid score: ") and "FLOPS" not in printed[-1]
    assert not [line for line in printed if line.startswith("score ")]


def test_tables_have_a_row_per_trial_worker_and_sample(folder: Path) -> None:
    pytest.importorskip("pandas")
    run = aiperf.load(folder / "journal.jsonl")

    assert list(run.trials.index) == [trial.number for trial in run.facts.trials]
    assert list(run.trials["accuracy"].dropna()) == [
        trial.accuracy for trial in run.facts.trials if trial.accuracy is not None
    ]
    assert list(run.workers["host"]) == [worker.host for worker in run.facts.workers]
    assert len(run.curve) == len(run.facts.curve)
    assert run.telemetry[["worker", "device", "utilisation", "at"]].to_numpy().tolist() == [[0, "host", 0.5, 3.0]]
    assert run.telemetry.attrs["damaged"] == []


def test_a_run_writes_its_report(folder: Path, tmp_path: Path) -> None:
    page = aiperf.load(folder).report(tmp_path / "shown")

    assert page == tmp_path / "shown" / "report.html" and page.is_file()


def test_a_missing_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchRun):
        aiperf.load(tmp_path / "nowhere")


def test_without_pandas_tables_name_the_fix(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    assert aiperf.load(folder).score is not None
    with pytest.raises(AiperfError, match="python -m pip install pandas"):
        _ = aiperf.load(folder).trials


def test_importing_aiperf_loads_no_other_package() -> None:
    asked = "import sys; before = set(sys.modules); import aiperf; print(*sorted(set(sys.modules) - before))"

    answer = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert not {name.partition(".")[0] for name in answer.stdout.split()} & {
        "msgspec",
        "numpy",
        "pandas",
        "torch",
        "ray",
    }
