"""One real worker over two hosts in namespaces, with Ray's head and the driver on a third. One whole run for each collective.

A rank of the second host is killed, one is stopped, and the host is cut off in the middle of an epoch. Each loss is named, the
trial continues after its last saved epoch, and the run ends with a valid score. `make test-long ARGS=tests/cluster`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import (
    AnyEvent,
    CheckpointWritten,
    EpochFinished,
    Progress,
    RunEnded,
    RunStarted,
    TrialFinished,
    TrialLost,
    TrialPrepared,
    WorkerJoined,
    WorkerLost,
    WorkerNotStarted,
)
from aiperf.journal.journal import read
from aiperf.report.gather import gather
from aiperf.system.log import Session
from aiperf.system.log import read as read_telemetry
from aiperf.train.collectives.horovod_collective import missing as horovod_missing
from tests.audit.run_model import audit
from tests.rigs.namespaces import HostsRig, begin, hosts, missing, processes_on, until
from tests.rigs.processes import command_line
from tests.rigs.real_run import small

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing() is not None and os.environ.get("AIPERF_SLURM") != "required", reason=f"no hosts: {missing()}"
    ),
]
PATIENCE_SECONDS = 900.0
RANK = b"aiperf.train.ranks.rank"
GIVEN_UP_SECONDS = 120.0
"""`remote_ranks.SILENCE_SECONDS` is twenty seconds. The rest is for a loaded machine."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[HostsRig]:
    folder = tmp_path / "shared"
    folder.mkdir()
    with hosts(folder, 3) as rig:
        yield rig


class SpanningRun:
    """The first host has head and driver, the others make one worker."""

    def __init__(self, rig: HostsRig, *words: str) -> None:
        self.rig = rig
        self.folder = rig.folder / "runs" / "span"
        self.folder.mkdir(parents=True)
        options = small(
            "schedule.duration_seconds=7200",
            "schedule.epochs=[12,14,16]",
            "dataset.training_images=2048",
            "accelerators_per_worker=all",
            "limits.attempts=12",
            "trainer.hang_seconds=10",
            *words,
        )
        head, *others = rig.names
        self.driver = begin(
            rig, self.folder, head, "drive", str(self.folder), "+cluster=slurm", "cluster.nodes=3", *options
        )
        self.nodes = {name: begin(rig, self.folder, name, "join", str(self.folder)) for name in others}

    def until(
        self, happened: Callable[[list[AnyEvent]], bool], what: str, seconds: float = PATIENCE_SECONDS
    ) -> list[AnyEvent]:
        return until(self.folder, happened, what, seconds, self.check_that_the_driver_goes_on, self.logs)

    def check_that_the_driver_goes_on(self) -> None:
        assert self.driver.poll() is None, self.logs()

    def ranks_on(self, name: str) -> list[int]:
        return [pid for pid in processes_on(self.rig, name) if RANK in command_line(pid)]

    def logs(self) -> str:
        own = [self.folder / f"{name}.log" for name in self.rig.names]
        ranks = sorted((self.folder / "logs").glob("*"))
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in [*own, *ranks] if log.exists()
        )

    def close(self) -> None:
        """All hosts lose their power."""
        for name in self.rig.names:
            self.rig.off(name)
        for process in (self.driver, *self.nodes.values()):
            process.wait(PATIENCE_SECONDS)

    def end(self) -> int:
        (self.folder / "end-requested").touch()
        return self.driver.wait(PATIENCE_SECONDS)


def trains_after(line: int) -> Callable[[list[AnyEvent]], bool]:
    """Return whether an attempt that was prepared after this line has just finished an epoch, and has many left."""

    def asked(events: list[AnyEvent]) -> bool:
        prepared = {(event.trial, event.attempt) for event in events[line:] if isinstance(event, TrialPrepared)}
        last = next(event for event in reversed(events) if not isinstance(event, Progress | CheckpointWritten))
        return isinstance(last, EpochFinished) and (last.trial, last.attempt) in prepared and last.epoch < 8

    return asked


def lost_after(line: int) -> Callable[[list[AnyEvent]], bool]:
    return lambda events: any(isinstance(event, TrialLost) for event in events[line:])


@pytest.mark.parametrize(
    "collective",
    [
        pytest.param(
            "horovod", marks=pytest.mark.skipif(horovod_missing(on_cuda=False) is not None, reason="no horovod")
        ),
        "torch",
    ],
)
def test_a_worker_over_two_hosts_survives_losses(collective: str, rig: HostsRig) -> None:
    with closing(SpanningRun(rig, f"trainer.collective={collective}")) as run:
        survives(run, collective)


def survives(run: SpanningRun, collective: str) -> None:
    rig = run.rig
    _, leader, other = rig.names
    events = run.until(trains_after(0), "the worker trains")
    (joined,) = (event for event in events if isinstance(event, WorkerJoined))
    assert joined.hosts == (leader, other) and joined.host == leader
    assert joined.ranks == 4 and joined.collective.startswith(collective)
    assert isinstance(events[0], RunStarted) and events[0].shape is not None and events[0].shape.ranks == 4
    assert (len(run.ranks_on(leader)), len(run.ranks_on(other))) == (2, 2)

    for how, said in ((signal.SIGKILL, "SIGKILL"), (signal.SIGSTOP, "is stopped")):
        before = len(events)
        os.kill(run.ranks_on(other)[0], how)
        events = run.until(lost_after(before), f"the end of an attempt after {how.name}")
        lost = next(event for event in events[before:] if isinstance(event, TrialLost))
        assert "of 4 on " + other in lost.reason and said in lost.reason, lost.reason
        events = run.until(trains_after(before), f"the trial goes on after {how.name}")
        assert next(event for event in events[before:] if isinstance(event, TrialPrepared)).ranks == 4

    before = len(events)
    rig.cut(other)
    events = run.until(lost_after(before), "the host that is cut off is given up", GIVEN_UP_SECONDS)
    lost = next(event for event in events[before:] if isinstance(event, TrialLost))
    assert f"host {other} ({rig.address[other]})" in lost.reason and "it had ranks 2 to 3 of 4" in lost.reason, (
        lost.reason
    )
    events = run.until(trains_after(before), "the trial goes on with the ranks left")
    assert next(event for event in events[before:] if isinstance(event, TrialPrepared)).ranks == 2
    assert not any(isinstance(event, WorkerLost) for event in events)
    run.until(lambda events: any(isinstance(event, TrialFinished) for event in events[before:]), "a trial's end")

    assert run.end() == 0, run.logs()
    events = list(read(run.folder))
    assert isinstance(events[-1], RunEnded)
    audit(events)
    assert score(work_log(events)).valid
    assert gather(iter(events)).score.valid
    assert not any(isinstance(event, WorkerNotStarted) for event in events)
    sampled = {record.host for record in read_telemetry(run.folder / "telemetry") if isinstance(record, Session)}
    assert sampled == {leader, other}
