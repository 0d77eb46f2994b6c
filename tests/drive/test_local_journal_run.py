"""Complete run with the journal on the driver's own disk: driven, resumed and read like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.config import configure
from aiperf.drive.driver import Driver
from aiperf.drive.machines import machines
from aiperf.drive.session import resumable, resume, run_session
from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunResumed
from aiperf.journal.journal import NAME, read
from aiperf.journal.local_journal import local_path
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import this_machine
from morphism import encode
from tests.builders.order import plain_graph
from tests.rigs.executors import TINY


def test_a_run_with_a_local_journal_is_resumed_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "start.json").write_text(encode(plain_graph()))
    disk = tmp_path / "disk"
    words = [*TINY, "executor=inline", f"runs={tmp_path / 'runs'}", f"start={tmp_path / 'start.json'}"]
    conf = configure([*words, f"storage.journal=local:{disk}", "schedule.duration_seconds=3600"])

    def end_after(trials: int, driver: Driver) -> None:
        driver.interrupted = driver.run.finished >= trials

    with machines(conf) as executor_of:
        folder = run_session(make_plan(conf, this_machine(conf)), executor_of, lambda driver: end_after(1, driver))
        own = local_path(folder, disk)
        assert own.read_bytes() == (folder / NAME).read_bytes()
        (folder / NAME).write_bytes(own.read_bytes()[:-100])  # as if the driver had been killed before it was copied

        found = resumable(replace(conf, resume=str(folder), storage=configure([]).storage))
        resume(found, executor_of, lambda driver: end_after(2, driver))

    events = list(read(folder))
    assert own.read_bytes() == (folder / NAME).read_bytes()
    assert sum(isinstance(event, RunResumed) for event in events) == 1


def test_a_place_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"storage\.journal is 'shared', or 'local:FOLDER'"):
        configure(["storage.journal=nowhere", f"runs={tmp_path}"])
