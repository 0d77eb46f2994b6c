"""A run without workers stops with the reason, and names the command to resume."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.config import configure
from aiperf.drive import machines
from aiperf.drive.driver import Driver, Executor
from aiperf.drive.ray.slots import Slot, StartLaw, Starts
from aiperf.drive.session import END_REQUEST, resumable, run_session
from aiperf.errors import AiperfError, BadConfiguration, NoWorkers, RunStopped
from aiperf.journal.events import RunEnded, WorkerJoined, WorkerLost, WorkerNotStarted
from aiperf.journal.journal import read
from aiperf.journal.messages import Message, Order
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.report.write import closing_lines, report_of
from searchers.history import Observation

UP = WorkerJoined(worker=0, host="a", ranks=1, device="cpu", device_memory_bytes=1, collective="none", machine={})
DOWN = WorkerLost(worker=0, reason="on a: its devices are gone")
GONE = NoWorkers("a run needs at least one worker, but all are lost (last failure: on a: its devices are gone)")
VAIN = WorkerNotStarted(host="a", failures=1, reason="on a: no rank can be started")


class Doomed:
    """Says what it was given, turn by turn, and then that no worker is left."""

    def __init__(self, turns: Sequence[Message], end: AiperfError = GONE) -> None:
        self._turns = list(turns)
        self._end = end

    def start(self) -> None:
        pass

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def send(self, order: Order) -> None:
        pass

    def messages(self, timeout: float) -> list[Message]:
        if not self._turns:
            raise self._end
        return [self._turns.pop(0)]

    def close(self) -> None:
        pass


def run(tmp_path: Path, *turns: Message) -> None:
    conf = configure([f"runs={tmp_path}", "executor=inline"])

    def doomed(*_: object) -> Executor:
        return Doomed(turns)

    run_session(make_plan(conf, this_machine(conf)), doomed, lambda driver: None)


def test_a_run_without_workers_left_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match=r"its devices are gone.*resume=") as stopped:
        run(tmp_path, UP, DOWN, VAIN)

    events = list(read(stopped.value.folder))
    assert [kind for event in events if (kind := type(event)) in (WorkerJoined, WorkerLost, WorkerNotStarted)] == [
        WorkerJoined, WorkerLost, WorkerNotStarted
    ]  # fmt: skip
    again = resumable(configure([f"resume={stopped.value.folder}"]))
    assert again.state.run.next_worker == 1


def test_a_run_without_any_worker_reports_the_reason(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match="its devices are gone") as stopped:
        run(tmp_path, VAIN)

    last = closing_lines(report_of(stopped.value.folder))[-1]
    assert last.startswith("no valid score: no worker came up. ") and "no rank can be started" in last
    assert f"resume={stopped.value.folder.name}" in last


def test_a_fixable_error_at_every_place_ends_with_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, why = Slot("a", "a", 0, 0, 1), "the data set must be on each node, but found none at '/data'"
    tried = Starts(StartLaw(), 0.0)
    tried.failed(place, 1.0, f"on a: {why}", BadConfiguration(why))
    end = tried.hopeless([place], now=1.0)
    assert end is not None
    monkeypatch.setattr(
        machines,
        "InlineExecutor",
        lambda *_, **__: Doomed([WorkerNotStarted(host="a", failures=1, reason=f"on a: {why}")], end),
    )

    status = main([f"runs={tmp_path}", "executor=inline"])

    (run,) = tmp_path.iterdir()
    told = capsys.readouterr()
    assert status == 2 and why in told.err and f"resume={run}" in told.err
    assert why in (run / "report.html").read_text().replace("&#x27;", "'").replace("&#39;", "'")


def test_a_file_in_the_runs_folder_asks_for_its_end(tmp_path: Path) -> None:
    conf = configure([f"runs={tmp_path}", "executor=inline"])

    def ask(driver: Driver) -> None:
        (driver.journal.path.parent / END_REQUEST).touch()

    def idle(*_: object) -> Executor:
        return Doomed([UP, *[WorkerNotStarted(host="b", failures=1, reason="on b: it is busy")] * 50])

    folder = run_session(make_plan(conf, this_machine(conf)), idle, ask)

    *_, last = read(folder)
    assert isinstance(last, RunEnded)
    assert last.reason == "interrupted"
