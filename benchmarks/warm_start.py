"""How long a run takes from its first word to its first training step, by parts, beside the machine's load: ours, and Ray's.

    python -m benchmarks.warm_start [--times 3] [--folder FOLDER] [key=value …]

Each start is a run of this machine as a user begins it, ended as soon as it has trained. Starts are made one after the
other; the first warms the page cache and is not counted in the best. Wall time is the machine's as well as ours: the load
stands beside it.
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
    "imports": "from the process's start until Ray is about to be imported: Python, Hydra, the plan",
    "Ray": "import of Ray, and its start on this machine",
    "preflight": "what is measured of the node",
    "plan": "the workers' shape, the plan, the journal's first line",
    "worker": "actor, ranks with torch, data set, joining, warm-up, largest batch, measured peak",
    "first trial": "proposal, network, weights, until it is prepared",
    "first word": "from there until a step has been told of",
}


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a run. Seconds of wall time by part, in their order."""

    parts: dict[str, float]
    processor_seconds: float
    """Of all of the run's processes, until it had ended."""
    load: Load

    @property
    def seconds(self) -> float:
        """Until the first step was prepared to be taken: the first word comes later, and says when it began."""
        return sum(seconds for name, seconds in self.parts.items() if name != "first word")


def _child(words: Sequence[str], marks: Path) -> int:
    """The run itself, in a process of its own; says when its parts were over."""
    from aiperf.cli import run
    from aiperf.drive import machines

    said: dict[str, float] = {}

    def marked(owner: Any, name: str, before: str, after: str) -> None:
        called: Callable[..., Any] = getattr(owner, name)

        def calling(*arguments: Any, **options: Any) -> Any:
            said.setdefault(before, time.time())
            try:
                return called(*arguments, **options)
            finally:
                said.setdefault(after, time.time())
                marks.write_text(json.dumps(said))

        setattr(owner, name, calling)

    marked(machines, "machines", "imported", "asked")
    marked(machines, "check", "up", "checked")
    return run.main(list(words))


def start(folder: Path, words: Sequence[str]) -> Start:
    """One start. Raises RuntimeError where the run does not train."""
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
    said: dict[str, float] = json.loads(marks.read_text())
    began_run, events = trained
    joined, prepared, worked = (events[name] for name in ("WorkerJoined", "TrialPrepared", "Progress"))
    ends = [said["imported"], said["up"], said["checked"], began_run, began_run + joined, began_run + prepared]
    ends.append(began_run + worked)
    parts = dict(zip(PARTS, (b - a for a, b in zip([began, *ends], ends, strict=False)), strict=True))
    return Start(parts, watch.own_seconds(), load)


def _first_work(runs: Path, process: subprocess.Popen[bytes]) -> tuple[float, dict[str, float]]:
    """When the run began, and when each kind of event came first after that; the run is asked to end once it has trained."""
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
    raise RuntimeError(f"the run has trained nothing; its output lies in {runs.parent / 'output'}")


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
    print(f"\nbest of {chosen.times}: {best.seconds:.2f} s from the first word to the first training step")
    for name, meaning in PARTS.items():
        print(f"  {name:<12} {best.parts[name]:6.2f} s  {meaning}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
