"""Simulated runs with known machine, seed and batch size. Hundreds of trials take a second."""

from __future__ import annotations

from pathlib import Path

from aiperf.config import configure
from aiperf.journal.journal import NAME
from aiperf.report.facts import Report
from aiperf.report.write import report_of
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.session import open_run, world_of

FLOPS = 2e9
STEP_SECONDS = 0.01
BASE = {
    "+cluster": "simulated",
    "cluster.workers": 4,
    "cluster.accelerators": 1,
    "cluster.join_seconds": 2,
    "cluster.speed_spread": 1e-9,
    "cluster.compile_seconds": 0.5,
    "cluster.build_seconds": 0.5,
    "dataset": "synthetic",
    "dataset.image": 8,
    "dataset.channels": 1,
    "dataset.training_images": 384,
    "dataset.validation_images": 128,
    "start": "digits_small",
    "budget.batch": 8,
    "batch.default": 16,
    "searcher": "random",
    "hpo": "off",
    "schedule.duration_seconds": 600,
    "schedule.warmup_seconds": 100,
    "schedule.epochs": "[2]",
}


def folder_of(
    tmp_path: Path, name: str, options: dict[str, object] | None = None, *, seed: int = 0, slower: float = 0.0
) -> Path:
    """Plays a run into a folder of that name. `slower`: every step takes 1 ÷ (1 − slower) times as long."""
    machine = {"cluster.flops": FLOPS * (1 - slower), "cluster.step_seconds": STEP_SECONDS / (1 - slower)}
    words = BASE | machine | {"name": name, "seed": seed} | (options or {})
    opening = open_run(configure([f"{option}={value}" for option, value in words.items()]))
    folder = tmp_path / name
    folder.mkdir(parents=True)
    drive(world_of(opening), opening.first, folder / NAME)
    return folder


def run_of(
    tmp_path: Path, name: str, options: dict[str, object] | None = None, *, seed: int = 0, slower: float = 0.0
) -> Report:
    """The same, as its report."""
    return report_of(folder_of(tmp_path, name, options, seed=seed, slower=slower))
