"""Real runs over several hosts with random losses of driver, head, worker, trainer and node, five in each run.

A run has two workers on two hosts, with Ray's head and the driver on a third. Each loss is repaired as a scheduler does it: a
driver starts again (`python -m aiperf drive` resumes a folder's run), a node boots and joins. After each loss the run
continues. At the end the auditor confirms the totals, and no process, port, shared memory or temporary folder remains on any
host.
AIPERF_DEATHS_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent, EpochFinished, RunEnded, RunResumed, TrialPrepared, WorkerJoined, WorkerLost
from aiperf.journal.journal import read
from tests.audit.run_model import audit
from tests.rigs.namespaces import REPOSITORY, HostsRig, begin, hosts, missing, processes_on, until
from tests.rigs.processes import command_line
from tests.rigs.real_run import small

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing() is not None and os.environ.get("AIPERF_SLURM") != "required", reason=f"no hosts: {missing()}"
    ),
]
PATIENCE_SECONDS = 600.0
TARGETS = {
    "driver": b"aiperf\0drive",
    "head": b"/gcs_server\0",
    "worker": b"ray::WorkerHost",
    "trainer": b"aiperf.train.ranks.rank",
    "node": b"",
}
"""Part of the command line of each process. A node is switched off."""
RUNS, STRIKES = 4, 5
"""Twenty strikes in all, each target four times, in a random order."""


class ClusterRun:
    """A run on the hosts of a rig: the first has the head and the driver, the others join."""

    def __init__(self, rig: HostsRig, folder: Path) -> None:
        self.rig = rig
        self.folder = folder
        folder.mkdir(parents=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def keep_up(self) -> None:
        """Whatever has ended on a host that is up begins again, as a scheduler does it."""
        words = small(
            "schedule.duration_seconds=7200",
            "schedule.epochs=[3,4,5]",
            "limits.silence_seconds=60",
            "limits.attempts=12",
        )
        for place, name in enumerate(self.rig.names):
            running = self._running.get(name)
            if running is not None and running.poll() is None:
                continue
            of_head = ["drive", str(self.folder), "+cluster=slurm", "cluster.nodes=3", *words]
            command = of_head if place == 0 else ["join", str(self.folder)]
            self._running[name] = begin(self.rig, self.folder, name, *command)

    def until(self, happened: Callable[[list[AnyEvent]], bool], what: str) -> list[AnyEvent]:
        return until(self.folder, happened, what, PATIENCE_SECONDS, self.keep_up, self.logs)

    def strike(self, target: str, draw: random.Random) -> None:
        worker_hosts = self.rig.names[1:]
        name = self.rig.names[0] if target in ("driver", "head") else draw.choice(worker_hosts)
        if target == "node":
            self.rig.off(name)
            self._running.pop(name).wait()
            self.rig.on(name)
            return
        deadline = time.monotonic() + PATIENCE_SECONDS  # a worker that was struck just now may still be on its way back
        while not (pids := [pid for pid in processes_on(self.rig, name) if TARGETS[target] in command_line(pid)]):
            assert time.monotonic() < deadline, f"no {target} on {name}\n{self.logs()}"
            self.keep_up()
            time.sleep(0.2)
        os.kill(draw.choice(pids), signal.SIGKILL)

    def end(self) -> int:
        (self.folder / "end-requested").touch()
        driver = self._running[self.rig.names[0]]
        status = driver.wait(PATIENCE_SECONDS)
        for process in self._running.values():
            process.wait(PATIENCE_SECONDS)
        return status

    def left(self) -> list[str]:
        """Return what remains on any host."""
        found: list[str] = []
        for name in self.rig.names:
            found += [f"{name}: {command_line(pid).decode(errors='replace')}" for pid in processes_on(self.rig, name)]
            script = (
                f"find /tmp /dev/shm -mindepth 1 -not -path '{self.rig.folder}*' -not -path '{REPOSITORY}*'; ss -Hltn"
            )
            found += [
                f"{name}: {line}"
                for line in self._output_lines(name, script)
                if not str(self.rig.folder).startswith(line)
            ]
        return found

    def _output_lines(self, name: str, script: str) -> list[str]:
        return subprocess.run(
            [*self.rig.entering(name), "bash", "-c", script], capture_output=True, text=True, check=True
        ).stdout.splitlines()

    def logs(self) -> str:
        return "\n".join(f"--- {name}\n{(self.folder / f'{name}.log').read_text()[-6000:]}" for name in self.rig.names)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[HostsRig]:
    with hosts(tmp_path, 3) as rig:
        yield rig


def trained_since(events: list[AnyEvent], line: int) -> set[int]:
    """Workers by which epochs ended after that line."""
    return {
        event.interval.worker
        for event in events[line:]
        if isinstance(event, EpochFinished) and event.interval is not None
    }


def two_train(events: list[AnyEvent], line: int) -> bool:
    """Return whether workers of two hosts have ended epochs after that line."""
    host_of = {event.worker: event.host for event in events if isinstance(event, WorkerJoined)}
    return len({host_of[worker] for worker in trained_since(events, line)}) == 2


@pytest.mark.parametrize("number", range(RUNS))
def test_a_run_over_hosts_survives_any_loss_with_exact_totals(number: int, rig: HostsRig, tmp_path: Path) -> None:
    seed = int(os.environ.get("AIPERF_DEATHS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"AIPERF_DEATHS_SEED={seed}")
    draw = random.Random(f"{seed} {number}")
    order = list(TARGETS) if number else ["node", "trainer", "worker", "driver", "head"]
    if number:
        draw.shuffle(order)
    run = ClusterRun(rig, tmp_path / "runs" / "struck")

    events = run.until(lambda events: two_train(events, 0), "two workers train")
    for target in order[:STRIKES]:
        time.sleep(draw.uniform(0.0, 8.0))
        before = len(list(read(run.folder)))
        run.strike(target, draw)
        seen = {"driver": RunResumed, "head": RunResumed, "worker": WorkerLost, "node": WorkerLost}.get(
            target, TrialPrepared
        )

        def goes_on(events: list[AnyEvent], before: int = before, seen: type = seen) -> bool:
            place = next((n for n, event in enumerate(events) if n >= before and isinstance(event, seen)), len(events))
            return two_train(events, place)

        events = run.until(goes_on, f"two workers train after the death of a {target} (seed {seed})")
    status = run.end()

    events = list(read(run.folder))
    assert status == 0, run.logs()
    assert isinstance(events[-1], RunEnded), f"{events[-1]}\n{run.logs()}"
    assert len(audit(events).trials) > 5
    assert score(work_log(events)).valid
    assert sum(isinstance(event, RunResumed) for event in events) == 2, "driver and head each died once"
    deadline = time.monotonic() + 60.0
    while (left := run.left()) and time.monotonic() < deadline:
        time.sleep(1.0)
    assert left == [], f"seed {seed}"
