"""Runs for exports and statistics: recorded ones, and simulated ones with planted properties."""

from __future__ import annotations

from pathlib import Path

import msgspec

from aiperf.config import configure
from aiperf.journal.events import AnyEvent, EpochFinished, Progress, TrialProposed, WorkerJoined
from aiperf.journal.journal import NAME
from aiperf.report.facts import Report
from aiperf.report.write import report_of
from aiperf.simulate.session import drive, open_run, world_of
from tests.audit.random_runs import play, random_case
from tests.builders.journal import ended, evaluated, interval, one_trial, started
from tests.rigs.user import write_run

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = '=HYPERLINK("http://x")\r\n<script>\x1b[2J../../x\u202e,"\''
"""A formula, a page's script, a terminal's command, a way out of a folder, turned text: all that a name may try."""


def any_run(folder: Path, seed: int, share: float) -> Path:
    """Return a simulated run with any faults (lost workers or drivers, out of memory), cut after a share of its lines."""
    folder.mkdir(parents=True)
    lines = play(random_case(seed)).journal.splitlines(keepends=True)
    (folder / NAME).write_bytes(b"".join(lines[: max(1, round(share * len(lines)))]))
    return folder


def recorded(folder: Path, name: str) -> Path:
    """A run's folder that holds a recorded journal, and its telemetry where there is some."""
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").symlink_to(GOLDEN / f"{name}.jsonl")
    if (GOLDEN / f"{name}.telemetry").is_dir():
        (folder / "telemetry").symlink_to(GOLDEN / f"{name}.telemetry")
    return folder


def hostile(folder: Path) -> Path:
    """Return a run in which every name is `HOSTILE`, including its configuration. Its only trial was cut off."""
    config = started().config | {"../../../" + HOSTILE: {"..": HOSTILE, "/etc/passwd": "=1+1"}}
    changed: list[AnyEvent] = [started(config=config, run=HOSTILE)]
    _, *rest = one_trial(interval(0, 5.0, 20.0, 100, 50, busy=10.0), evaluated(0, 20.0, 0.9), ended())
    for event in rest:
        match event:
            case WorkerJoined():
                changed.append(msgspec.structs.replace(event, host=HOSTILE, device=HOSTILE, collective=HOSTILE))
            case TrialProposed():
                changed.append(msgspec.structs.replace(event, searcher=HOSTILE, fingerprint=HOSTILE))
            case _:
                changed.append(event)
    return write_run(folder, changed)


def evaluations(events: list[AnyEvent]) -> dict[int, dict[int, EpochFinished]]:
    """Return by trial the valid evaluations by epoch, read from the journal by the test itself."""
    found: dict[int, dict[int, EpochFinished]] = {}
    for event in events:
        if isinstance(event, EpochFinished):
            found.setdefault(event.trial, {})[event.epoch] = event
    return found


def works(events: list[AnyEvent]) -> list[tuple[float, float, int, float]]:
    """Start, end, training images and busy time of each interval in the journal."""
    return [
        (event.interval.start, event.interval.end, event.interval.training_images, event.interval.busy_seconds)
        for event in events
        if isinstance(event, Progress | EpochFinished) and event.interval is not None
    ]


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
