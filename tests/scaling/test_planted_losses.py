"""Losses planted into real runs of two ranks on two cores. Each is the largest lost line against a run of one rank.

A limited link between two hosts is in `tests/cluster/test_limited_link.py`. `make test-long ARGS=tests/scaling`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from subprocess import Popen
from threading import Event, Thread

import pytest

from aiperf.journal.events import TrialStarted
from aiperf.scaling.efficiency import scaling
from aiperf.scaling.point import Point, point_of
from tests.builders.data_set import make
from tests.rigs.processes import command_line, descendants
from tests.rigs.real_run import RealRun

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two ranks need two cores"),
]
RUN = (
    "trainer.threads=1",
    "trainer.collective=torch",
    "trainer.precision=fp32",
    "trainer.compile=off",
    "batch.default=64",
    "hpo=off",
    "schedule.warmup_seconds=0",
    "schedule.epochs=[3]",
    "limits.trials=1",
    "limits.spares=0",
)
SYNTHETIC = (
    "dataset=synthetic",
    "dataset.image=32",
    "dataset.training_images=2048",
    "dataset.validation_images=128",
    "start=resnet20",
)
RANK = b"aiperf.train.ranks.rank"
Plant = Callable[[Sequence[int]], AbstractContextManager[None]]
"""Called with the processes of the ranks, in order of ranks."""


@contextmanager
def half_speed(ranks: Sequence[int]) -> Iterator[None]:
    """Stop rank 1 for half of the time, in periods of 40 ms."""
    is_over = Event()

    def stop_and_go() -> None:
        with suppress(ProcessLookupError):  # the rank has ended with its run
            while not is_over.is_set():
                os.kill(ranks[1], signal.SIGSTOP)
                time.sleep(0.02)
                os.kill(ranks[1], signal.SIGCONT)
                time.sleep(0.02)

    thread = Thread(target=stop_and_go)
    thread.start()
    yield
    is_over.set()
    thread.join()


@contextmanager
def loaded_core(ranks: Sequence[int]) -> Iterator[None]:
    """Bind each rank to a core, and load the core of rank 1 with another program."""
    cores = sorted(os.sched_getaffinity(0))
    for rank, core in zip(ranks, cores, strict=False):
        for thread in Path(f"/proc/{rank}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})
    busy = Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(busy.pid, {cores[1]})
    yield
    busy.kill()
    busy.wait()


def measured(folder: Path, *words: str, plant: Plant | None = None) -> Point:
    """Run one trial of the starting network, with the plant active while it trains."""
    folder.mkdir()
    run = RealRun(folder, *RUN, *words)
    try:
        run.until(lambda events: any(isinstance(event, TrialStarted) for event in events))
        ranks = sorted(pid for pid in descendants(run.process.pid) if RANK in command_line(pid))
        with nullcontext() if plant is None else plant(ranks):
            assert run.wait() == 0, run.output.read_text()
        return point_of(run.folder)
    finally:
        run.end()


def lost(folder: Path, one: Sequence[str], two: Sequence[str], plant: Plant | None = None) -> dict[str, float]:
    """Return the points lost from one rank with the options `one` to two ranks with the options `two` and the plant."""
    alone = measured(folder / "one", "trainer.ranks=1", *one)
    together = measured(folder / "two", "trainer.ranks=2", *two, plant=plant)
    (pair,) = scaling([alone, together]).pairs
    assert sum(pair.points_lost.values()) == pytest.approx(100 * (1 - pair.efficiency), rel=1e-9)
    print({line: round(points, 1) for line, points in pair.points_lost.items()})
    return pair.points_lost


@pytest.mark.parametrize("plant", [half_speed, loaded_core])
def test_a_slow_rank_1_is_waited_for(plant: Plant, tmp_path: Path) -> None:
    points = lost(tmp_path, SYNTHETIC, SYNTHETIC, plant)

    assert max(points, key=lambda line: points[line]) == "waiting"


def test_decoding_on_one_thread_is_lost_in_input(tmp_path: Path) -> None:
    root = make(tmp_path / "images", training=256, validation=16, height=768, width=1024, suffix=".png")
    images = ("dataset=images", f"dataset.root={root}", "dataset.image=32", "dataset.cache=none", "start=resnet20")

    points = lost(tmp_path, (*images, "dataset.workers=2"), (*images, "dataset.workers=1"))

    assert max(points, key=lambda line: points[line]) == "input"
