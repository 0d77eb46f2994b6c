"""A request to end at any time leaves no traceback, no process and no folder that breaks a verb."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from aiperf.__main__ import main
from tests.rigs.processes import comes_true, command_line, descendants
from tests.rigs.user import CTRL_C, Terminal

RUN = ("runs=runs", "schedule.duration_seconds=8", "schedule.warmup_seconds=1", "schedule.epochs=[1]")
END_SECONDS = 120.0
"""On a machine that does much else."""


def assert_ended(terminal: Terminal, statuses: tuple[int, ...] = (130,)) -> None:
    assert terminal.wait(END_SECONDS), terminal.text[-2000:]
    assert terminal.process.returncode in statuses, terminal.text[-2000:]
    assert "Traceback" not in terminal.text, terminal.text[-4000:]
    assert comes_true(lambda: not terminal.left(), 60.0), [
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in terminal.left()
    ]


def assert_runs_can_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verbs answer of what was left: with figures, or with a sentence."""
    for run in (folder / "runs").glob("*"):
        assert (run / "journal.jsonl").is_file(), list(run.iterdir())
        for verb in ("score", "status"):
            assert main([verb, str(run)]) in (0, 1), capsys.readouterr()
    capsys.readouterr()


def interrupted_after(delay: float, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(RUN, folder) as terminal:
        ended_before = terminal.wait(delay)
        is_ours = terminal.is_ours_to_answer()
        if not ended_before:
            terminal.type(CTRL_C)
        if is_ours or ended_before:
            assert_ended(terminal, (130, 0) if ended_before else (130,))
        else:
            # start of the interpreter: Python answers before our code runs
            assert terminal.wait(END_SECONDS) and terminal.process.returncode != 0
    assert_runs_can_be_read(folder, capsys)


@pytest.mark.parametrize("delay", [pytest.param(0.4, marks=pytest.mark.slow), 3.0])
def test_ctrl_c_ends_a_run_that_has_hardly_begun(
    delay: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted_after(delay, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("case", range(24))
def test_ctrl_c_ends_a_run_cleanly_at_any_moment(case: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # evenly over a run on a quiet machine, and a tenth of them within its first second
    delay = 0.02 + random.Random(case).random() * (1.0 if case % 5 == 0 else 30.0)

    interrupted_after(delay, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1.5, 6.0, 15.0])
def test_ctrl_c_twice_ends_a_run_at_once(delay: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(RUN, tmp_path) as terminal:
        terminal.wait(delay)
        terminal.type(CTRL_C)
        terminal.wait(0.3)
        terminal.type(CTRL_C)

        assert terminal.wait(5.0), terminal.text
        assert_ended(terminal)
    assert_runs_can_be_read(tmp_path, capsys)


def test_ctrl_c_twice_leaves_no_process_and_tells_how_to_resume(tmp_path: Path) -> None:
    words = ("runs=runs", "schedule.duration_seconds=600", "schedule.warmup_seconds=1")

    def journals() -> list[Path]:
        return list((tmp_path / "runs").glob("*/journal.jsonl"))

    with Terminal(words, tmp_path) as terminal:
        # `wait` reads the terminal, or the run would wait for its reader
        assert comes_true(
            lambda: terminal.wait(0.2) or any(b"TrialStarted" in path.read_bytes() for path in journals()), 200.0
        ), terminal.text
        known = descendants(terminal.process.pid)
        agents = [
            pid for pid in known if command_line(pid).startswith((b"ray::DashboardAgent", b"ray::RuntimeEnvAgent"))
        ]
        for _ in range(60):  # two signals that a loaded machine delivers within 0.1 s are one request
            if terminal.process.poll() is None:
                terminal.type(CTRL_C)
            if terminal.wait(0.5):
                break

        assert terminal.wait(1.0), terminal.text
        assert len(agents) == 2
        assert comes_true(lambda: not any(command_line(pid) for pid in known), 10.0), "Ray's own end takes 43 s"
    assert (
        f"ended at once. To resume the run: python -m aiperf resume=runs/{journals()[0].parent.name}" in terminal.text
    )


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("delay", [0.5, 4.0, 14.0])
def test_sigterm_and_sighup_end_a_run_cleanly(
    number: signal.Signals, status: int, delay: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Terminal(RUN, tmp_path) as terminal:
        terminal.wait(delay)
        is_ours = terminal.is_ours_to_answer()
        os.kill(terminal.process.pid, number)

        assert_ended(terminal, (status,) if is_ours else (status, -number))
    assert_runs_can_be_read(tmp_path, capsys)


@pytest.mark.slow
def test_a_window_that_is_closed_ends_its_run_with_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Terminal((*RUN[:1], "schedule.duration_seconds=600", "schedule.warmup_seconds=1"), tmp_path) as terminal:
        assert terminal.wait_for(" training", 200.0), terminal.text
        terminal.close()

        assert_ended(terminal, (129,))
    (run,) = (tmp_path / "runs").glob("*")
    assert (run / "report.html").is_file()
    assert_runs_can_be_read(tmp_path, capsys)
