"""`aiperf.load`: figures as in the report, tables as DataFrames, and a cheap `import aiperf`."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aiperf
from aiperf.errors import AiperfError, NoSuchRun
from aiperf.journal.events import EpochFinished, RunEnded, TrialFailed, TrialFinished
from aiperf.loaded_run import OF_A_VALID_SCORE
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
    values = run.figures.set_index("name")["value"]
    shown = [None if math.isnan(values[name]) else values[name] for name in ("score", "mfu", "busy")]
    assert shown == [run.score, run.mfu, run.busy]
    assert (run.mfu, run.busy) == (report.utilisation.mfu, report.score.busy_share)
    assert run.warnings == report.warnings and run.config == report.run.config
    assert run.name in repr(run)


@pytest.mark.parametrize("lines", [0.3, 0.6, 0.98])
def test_a_run_cut_short_has_no_score_anywhere(lines: float, tmp_path: Path) -> None:
    events = list(invented(Shape(workers=2)))
    folder = write_run(tmp_path / "cut", events[: int(lines * len(events))])

    run, printed = aiperf.load(folder), closing_lines(report_of(folder), tmp_path / "report.html")

    assert (run.is_valid, run.score, run.interval, run.regulated_score) == (False, *3 * (None,))
    assert run.figures.set_index("name")["value"][[*OF_A_VALID_SCORE]].isna().all()
    assert "no valid score" in repr(run)
    assert printed[-1].startswith("no valid score: ") and "FLOPS" not in printed[-1]
    assert not [line for line in printed if line.startswith("score ")]


def test_tables_have_a_row_per_trial_worker_and_sample(folder: Path) -> None:
    pytest.importorskip("pandas")
    run = aiperf.load(folder / "journal.jsonl")

    assert list(run.trials["number"]) == [trial.number for trial in run.facts.trials]
    assert list(run.trials["accuracy"].dropna()) == [
        trial.accuracy for trial in run.facts.trials if trial.accuracy is not None
    ]
    assert list(run.workers["host"]) == [worker.host for worker in run.facts.workers]
    assert len(run.curve) == len(run.facts.curve)
    assert run.telemetry[["worker", "device", "utilisation", "at"]].to_numpy().tolist() == [[0, "host", 0.5, 3.0]]
    assert run.telemetry.attrs["damaged"] == []


TABLES = ("figures", "trials", "epochs", "workers", "curve", "telemetry")
SHAPES = {
    "a worker lost, resumed": Shape(workers=3, duration=60.0, warmup=10.0, lose_worker_at=30.0, resume_at=45.0),
    "other texts": Shape(
        workers=2, duration=30.0, warmup=5.0, device="Größe ≥ “1”, \U0001f680", precision="bf16", name="a,b"
    ),
    "simulated": Shape(duration=30.0, warmup=5.0, simulated=True),
}


@given(shape=st.sampled_from(sorted(SHAPES)), part=st.floats(0.0, 1.0), fails=st.booleans(), data=st.data())
@settings(max_examples=15, deadline=None)
def test_every_table_comes_back_equal_from_parquet_and_feather(
    shape: str, part: float, fails: bool, data: st.DataObject
) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    events = list(invented(SHAPES[shape]))
    events = events[: max(1, int(part * len(events)))]
    under_way = {event.trial for event in events if isinstance(event, EpochFinished)}
    under_way -= {event.trial for event in events if isinstance(event, TrialFinished)}
    if fails and under_way and not isinstance(events[-1], RunEnded):
        events.append(
            TrialFailed(at=events[-1].at, trial=data.draw(st.sampled_from(sorted(under_way))), reason="ünlucky")
        )
    with tempfile.TemporaryDirectory() as folder:
        run = aiperf.load(write_run(Path(folder) / "run", events))
        for name in TABLES:
            table = getattr(run, name)
            for form in ("parquet", "feather"):
                getattr(table, f"to_{form}")(f"{folder}/{name}")
                pandas.testing.assert_frame_equal(getattr(pandas, f"read_{form}")(f"{folder}/{name}"), table)

        assert {str(kind) for name in TABLES for kind in getattr(run, name).dtypes} <= {
            "int64", "Int64", "float64", "bool", "boolean", "string"
        }  # fmt: skip
        assert [json.loads(each) for each in run.trials["morphs"]] == [list(each.morphs) for each in run.facts.trials]
        assert len(run.epochs) == sum(isinstance(event, EpochFinished) for event in events)


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


def test_the_version_is_that_of_the_distribution() -> None:
    assert aiperf.__version__ == metadata.version("aiperf-cluster")


@pytest.mark.parametrize(
    "notebook", sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb")), ids=lambda path: path.name
)
def test_every_cell_of_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), (
        "results belong to the reader's runs, not into the repository"
    )
    for number, name in enumerate(("before", "after")):
        shape = Shape(name=name, workers=2, duration=60.0, warmup=10.0, seed=7 + number)
        write_run(tmp_path / "runs" / name, invented(shape))

    script = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "gallery").glob("*.parquet")) and list((tmp_path / "gallery").glob("*.svg"))


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
