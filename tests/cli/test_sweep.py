"""Verb `sweep`: order, seeds and names of the runs, continuation after an interruption, refused commands."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiperf.cli.verbs.runs.sweep import PlannedRun, finished_run, planned, settings_of
from aiperf.config import RunConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME, read
from aiperf.reader_processes import package_environment
from tests.rigs.user import User

SHORT = [
    "+cluster=simulated",
    "cluster.workers=1",
    "start=digits_small",
    "hpo=off",
    "searcher=random",
    "schedule.duration_seconds=36000",
    "limits.trials=1",
    "schedule.warmup_seconds=0",
]


def test_values_of_options_are_combined() -> None:
    assert settings_of([]) == [()]
    assert settings_of(["a=1,2", "b=3,4"]) == [("a=1", "b=3"), ("a=1", "b=4"), ("a=2", "b=3"), ("a=2", "b=4")]


def test_pairs_set_several_options_together() -> None:
    assert settings_of(["a,b=1:2,3:4"]) == [("a=1", "b=2"), ("a=3", "b=4")]
    assert settings_of(["schedule.epochs=[1,2],[3]"]) == [("schedule.epochs=[1,2]",), ("schedule.epochs=[3]",)]


@pytest.mark.parametrize("word", ["a", "a=", "=1", "a=1,", "a,b=1", "a,b=1:2:3", "a,b=1:", "a=1,1"])
def test_wrong_values_are_refused(word: str) -> None:
    with pytest.raises(BadConfiguration, match="--over takes"):
        settings_of([word])


def test_order_alternates_and_each_run_has_its_seed() -> None:
    settings = [("a=1",), ("a=2",), ("a=3",)]

    runs = planned(settings, 3, 5)

    assert [run.setting for run in runs] == settings + settings[::-1] + settings
    assert [run.seed for run in runs] == list(range(5, 14))
    assert len({run.name for run in runs}) == 9
    assert planned([()], 2, 0) == [PlannedRun("01", (), 0), PlannedRun("02", (), 1)]


def test_names_of_many_swept_options_are_valid_names_of_runs() -> None:
    three = ("trainer.ranks=2", "batch.default=32", "trainer.collective=horovod")
    many = tuple(f"trainer.option_{number}=a/b" for number in range(9))

    assert planned([three], 1, 0)[0].name == "01-ranks_2-default_32-collective_horovod"
    for run in planned([three, many, many[::-1]], 4, 0):
        RunConf(name=run.name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--over", "seed=1,2"], "set nowhere else"),
        (["--over", "batch.default=1,2", "batch.default=3"], "set nowhere else"),
        (["--over", "resume=a,b"], "which starts new runs"),
        (["dry_run=true"], "which starts new runs"),
        (["name=mine"], "which starts new runs"),
        (["--over", "batch.defalt=1,2"], "batch.default"),
        (["--over", "batch.default=1,x"], "batch.default"),
        (["seed=-1"], "seed"),
        (["--repeat", "0"], "--repeat"),
    ],
)
def test_wrong_command_starts_no_run(aiperf: User, tmp_path: Path, words: list[str], message: str) -> None:
    answer = aiperf("sweep", *words, f"runs={tmp_path / 'runs'}")

    assert answer.status == 2 and message in answer.err
    assert not (tmp_path / "runs").exists()


def first_lines(folder: Path) -> list[RunStarted]:
    """Return the first events of the runs in a folder, in the order of their names."""
    paths = sorted(folder.glob(f"*/{NAME}"), key=lambda path: path.parent.name.split("-", 2)[2])
    events = [next(iter(read(path.parent))) for path in paths]
    assert all(isinstance(event, RunStarted) for event in events)
    return [event for event in events if isinstance(event, RunStarted)]


def test_sweep_continues_with_the_run_that_was_cut_off(tmp_path: Path) -> None:
    words = ["sweep", "--repeat", "2", "--over", "batch.default=32,64", *SHORT, f"runs={tmp_path}"]

    def sweep() -> str:
        command = [sys.executable, "-m", "aiperf", *words]
        answer = subprocess.run(command, env=package_environment(), capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    assert "4 runs in" in sweep()
    (folder,) = tmp_path.iterdir()
    before = first_lines(folder)
    assert [event.config["batch"]["default"] for event in before] == [32, 64, 64, 32]
    assert [event.seed for event in before] == [0, 1, 2, 3]

    (cut,) = folder.glob("*-03-*")
    journal = cut / NAME
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    printed = sweep()

    assert printed.count("finished before") == 3
    assert [path.name for path in (folder / "interrupted").iterdir()] == [cut.name]
    assert [event.seed for event in first_lines(folder)] == [0, 1, 2, 3]
    assert sweep().count("finished before") == 4


def test_run_without_a_journal_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "20260101-000000-01").mkdir()

    assert finished_run(tmp_path, "01") is None
    assert [path.name for path in (tmp_path / "interrupted").iterdir()] == ["20260101-000000-01"]


@pytest.mark.slow
def test_ctrl_c_ends_the_run_and_the_sweep_cleanly(tmp_path: Path) -> None:
    words = ["dataset=digits", "executor=inline", "schedule.duration_seconds=300", f"runs={tmp_path}"]
    command = [sys.executable, "-m", "aiperf", "sweep", "--repeat", "2", *words]
    process = subprocess.Popen(
        command, env=package_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(f"*/*/{NAME}")) and time.monotonic() < deadline:
        time.sleep(0.2)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)

    assert process.returncode == 130, out + err
    assert "sweep interrupted in run 1 of 2" in out
    (journal,) = tmp_path.glob(f"*/*/{NAME}")
    assert "interrupted" in journal.read_text().splitlines()[-1]
