"""Time from the start of a run's process to its first training step, by part, with the load of the machine.

    python -m benchmarks.warm_start [--times 3] [--folder FOLDER] [key=value …]

Each start is a normal run on this machine, ended after its first training. Starts run one after the other. The first one warms
the page cache and does not count for the best. Wall time depends on the machine too, so its load is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.drive.session import END_REQUEST
from aiperf.journal.journal import NAME
from aiperf.system.processor import cpu_model
from benchmarks.machine_load import Load, watched

WAIT_SECONDS = 300.0
PARTS = {
    "imports": "from the start of the process to the import of Ray: Python, Hydra, the plan",
    "Ray": "import of Ray, and its start on this machine",
    "preflight": "measurements of the node",
    "plan": "the workers' shape, the plan, the journal's first line",
    "worker": "actor, ranks with torch, data set, joining, warm-up, largest batch, measured peak",
    "first trial": "proposal, network, weights, until it is prepared",
    "first word": "from then until the first step is reported",
}


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a run, with wall-clock seconds by part, in order."""

    parts: dict[str, float]
    processor_seconds: float
    """Processor time of all processes of the run until its end."""
    load: Load

    @property
    def seconds(self) -> float:
        """Seconds until the first step was ready. The first message comes later and contains the start time."""
        return sum(seconds for name, seconds in self.parts.items() if name != "first word")


def _child(words: Sequence[str], marks: Path) -> int:
    """Run the command in this process and record the times of its parts."""
    from aiperf.cli import run
    from aiperf.drive import machines

    times: dict[str, float] = {}

    def marked(owner: Any, name: str, before: str, after: str) -> None:
        called: Callable[..., Any] = getattr(owner, name)

        def calling(*arguments: Any, **options: Any) -> Any:
            times.setdefault(before, time.time())
            try:
                return called(*arguments, **options)
            finally:
                times.setdefault(after, time.time())
                marks.write_text(json.dumps(times))

        setattr(owner, name, calling)

    marked(machines, "machines", "imported", "asked")
    marked(machines, "check", "up", "checked")
    return run.main(list(words))


def start(folder: Path, words: Sequence[str]) -> Start:
    """Measure one start. Raise RuntimeError if the run does not train."""
    folder.mkdir(parents=True)
    marks = folder / "marks.json"
    runs = folder / "runs"
    command = [sys.executable, "-m", "benchmarks.warm_start", "--child", str(marks), f"runs={runs}", *words]
    began = time.time()
    with (folder / "output").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        with watched(process.pid) as watch:
            trained = _first_work(runs, process)
            process.wait()
        load = watch.load()
    times: dict[str, float] = json.loads(marks.read_text())
    began_run, events = trained
    joined, prepared, worked = (events[name] for name in ("WorkerJoined", "TrialPrepared", "Progress"))
    ends = [times["imported"], times["up"], times["checked"], began_run, began_run + joined, began_run + prepared]
    ends.append(began_run + worked)
    parts = dict(zip(PARTS, (b - a for a, b in zip([began, *ends], ends, strict=False)), strict=True))
    return Start(parts, watch.own_seconds(), load)


def _first_work(runs: Path, process: subprocess.Popen[bytes]) -> tuple[float, dict[str, float]]:
    """Return the run's start time, and the first time of each kind of event. End the run after its first training."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        for journal in runs.glob(f"*/{NAME}"):
            lines = [
                json.loads(line) for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")
            ]
            first: dict[str, float] = {}
            for line in lines:
                name = "Progress" if line["event"] == "EpochFinished" else line["event"]
                first.setdefault(name, line["at"])
            if "Progress" in first:
                (journal.parent / END_REQUEST).touch()
                return lines[0]["started_unix"], first
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the run trained nothing; its output is in {runs.parent / 'output'}")


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        return _child(sys.argv[3:], Path(sys.argv[2]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.warm_start", description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("words", nargs="*", help="options of the runs")
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="aiperf-warm-start-"))
    print(f"{os.cpu_count()} × {cpu_model()}, {platform.platform()}, Python {platform.python_version()}")
    starts = []
    for number in range(chosen.times + 1):
        one = start(folder / f"start-{number}", chosen.words)
        starts.append(one)
        parts = " · ".join(f"{name} {seconds:.2f}" for name, seconds in one.parts.items())
        print(f"{one.seconds:6.2f} s  {parts}  | processor {one.processor_seconds:.1f} s | {one.load}", flush=True)
    best = min(starts[1:], key=lambda each: each.seconds)
    print(f"\nbest of {chosen.times}: {best.seconds:.2f} s from the start of the process to the first training step")
    for name, meaning in PARTS.items():
        print(f"  {name:<12} {best.parts[name]:6.2f} s  {meaning}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
