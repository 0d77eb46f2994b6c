"""Cost of many workers for the driver: real Ray and real actors, with ranks that do not train (tests/rigs/stand_in_ranks.py).

    python -m benchmarks.executor_size --workers 10 --nodes 2 [--workers 100 --nodes 4 …]

Nodes are raylets on this machine that declare a number of accelerators. Each accelerator is a worker. The workers start and
receive proposal requests, observations and trials. Then the run is idle for a while, a tenth of the host actors are killed and
replaced, and all workers end. Printed for each part: processor time of the driver (all its threads, including Ray's), per
message and per look. Other work on the machine changes processor time only a little. A worker needs about 200 MB, and 100
workers need their own machine.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiperf.data.dataset_config import SyntheticConf
from aiperf.drive.ray.actors import WorkerPlan
from aiperf.drive.ray.failed_starts import StartLaw
from aiperf.drive.ray.ray_executor import RayExecutor
from aiperf.journal.messages import (
    ProposalReturned,
    Propose,
    TrialDone,
    Word,
    WorkerDown,
    WorkerUp,
)
from aiperf.rules.proposals import Proposer
from aiperf.train.trainer_config import TrainerConf
from benchmarks.pairs import describe_machine
from morphism import Budget, start
from searchers import Space, history
from searchers.searcher_config import RandomConf
from tests.rigs.processes import command_line, descendants
from tests.rigs.ray_cluster import small_cluster
from tests.rigs.stand_in_ranks import open_stand_in, order

TURNS = 100
TRIALS = 5
"""Trials per worker."""
PATIENCE_SECONDS = 900.0
OBSERVATIONS = 2000
"""Observations before a generator is replaced."""


class TimedExecutor:
    """An executor, and the processor time of its parts."""

    def __init__(self, executor: RayExecutor) -> None:
        self.executor = executor
        self.received: list[Word] = []

    def part(self, name: str, until: Callable[[], bool], begin: Callable[[], None] = lambda: None) -> None:
        """Call `begin` and receive messages until the condition holds. Print the cost."""
        before, messages, wall = time.process_time(), len(self.received), time.monotonic()
        begin()
        while not until():
            assert time.monotonic() - wall < PATIENCE_SECONDS, f"{name}: not in {PATIENCE_SECONDS:.0f} s"
            self.received += self.executor.words(0.1)
        spent, count, lasted = time.process_time() - before, len(self.received) - messages, time.monotonic() - wall
        each = f"{1000 * spent / count:8.2f} ms a message" if count else ""
        print(f"{name:34} {spent:8.2f} s of processor, {lasted:7.1f} s, {count:6} messages {each}", flush=True)

    def of(self, kind: type[Any]) -> list[Any]:
        return [word for word in self.received if isinstance(word, kind)]

    def present(self) -> list[int]:
        lost = {word.worker for word in self.of(WorkerDown)}
        return [word.worker for word in self.of(WorkerUp) if word.worker not in lost]


def measure(workers: int, nodes: int) -> None:
    """Measure one size from start to end."""
    print(f"\n{workers} workers on {nodes} nodes")
    with small_cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        for _ in range(nodes):
            cluster.add(cpus=workers // nodes, accelerators=workers // nodes)
        graph = start("digits_small", image=8)
        run = TimedExecutor(
            RayExecutor(
                WorkerPlan(0, TrainerConf(), SyntheticConf(), "", Path(folder), 0, 1, time.time()),
                Proposer(RandomConf().build(), None),
                Space(graph, Budget.of(graph), 64, 8, 128, 4),
                first_worker=0,
                accelerators_per_worker=1,
                open_group=open_stand_in,
                law=StartLaw(first_pause_seconds=0.5),
            )
        )
        executor = run.executor
        run.part("start", lambda: len(run.present()) == workers, executor.start)
        print(f"{'':34} {memory_megabytes():8.0f} MB are this process's and its descendants' (shared pages divided)")
        count = len(run.of(ProposalReturned))
        run.part("a proposal each", lambda: len(run.of(ProposalReturned)) == count + workers, lambda: propose(run, 0))
        send_observations(executor)
        run.part(
            f"another, with {OBSERVATIONS} observations",
            lambda: len(run.of(ProposalReturned)) == count + 2 * workers,
            lambda: propose(run, 10**6),
        )
        run.part(f"{TRIALS} trials each", lambda: len(run.of(TrialDone)) == TRIALS * workers, lambda: train(run))
        measure_quiet_turns(executor)
        victims = [pid for pid in descendants(os.getpid()) if b"ray::WorkerHost" in command_line(pid)]
        victims = victims[: max(1, workers // 10)]

        def kill() -> None:
            for pid in victims:
                os.kill(pid, signal.SIGKILL)

        run.part(
            f"{len(victims)} lost and replaced",
            lambda: len(run.of(WorkerDown)) == len(victims) and len(run.present()) == workers,
            kill,
        )
        run.part("end", lambda: True, executor.close)


def measure_quiet_turns(executor: RayExecutor) -> None:
    """Print the cost of a turn without events, with and without a look at workers and nodes."""
    costs = {}
    for name, is_due in (("without a look", False), ("with a look", True)):
        before = time.process_time()
        for _ in range(TURNS):
            executor._next_look = 0.0 if is_due else float("inf")
            executor.words(0.0)
        costs[name] = (time.process_time() - before) / TURNS
        executor._next_look = 0.0
        print(f"{'a quiet turn ' + name:34} {1000 * costs[name]:8.2f} ms of processor")


def propose(run: TimedExecutor, first: int) -> None:
    for worker in run.present():
        run.executor.send(Propose(number=first + worker, worker=worker, round=1, seed=worker))


def send_observations(executor: RayExecutor) -> None:
    """Send observations of requested trials that failed."""
    executor.tell([history.Requested(2 * 10**6 + number) for number in range(OBSERVATIONS)])


def train(run: TimedExecutor) -> None:
    for trial in range(TRIALS):
        for worker in run.present():
            run.executor.send(order(worker, trial * 10**5 + worker))


def memory_megabytes() -> float:
    """Return the sum of proportional set sizes in MB."""
    total = 0
    for pid in [os.getpid(), *descendants(os.getpid())]:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--nodes", type=int, action="append")
    chosen = parser.parse_args()
    print(describe_machine())
    for workers, nodes in zip(chosen.workers or [10], chosen.nodes or [2], strict=True):
        measure(workers, nodes)


if __name__ == "__main__":
    main()
