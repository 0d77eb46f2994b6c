"""Record a real run for tests/golden: `python -m tests.verify.record FOLDER`.

Real Ray, two ranks, the digits of scikit-learn. The driver is killed (SIGKILL) and the run resumed. Later a rank is killed. The
run then continues to its declared end. FOLDER/runs contains a normal run folder.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from aiperf.journal.events import AnyEvent, TrialFinished, TrialLost
from tests.rigs.real_run import RealRun, rank_of

OPTIONS = (
    "dataset=digits",
    "name=forged",
    "schedule.epochs=[2,3,4]",
    "schedule.warmup_seconds=10",
    "schedule.duration_seconds=180",
    "trainer.decay_epochs=4",
    "hpo.startup_trials=3",
)


def record(folder: Path) -> Path:
    """Record a run and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run = RealRun(folder, *OPTIONS)
    try:
        run.until(lambda events: sum(isinstance(event, TrialFinished) for event in events) >= 2)
        run.kill()
        resumed = RealRun(folder, f"resume={run.folder}")
        try:
            before = len(run.events())
            resumed.until(lambda events: sum(isinstance(e, TrialFinished) for e in events[before:]) >= 2)
            os.kill(rank_of(resumed), signal.SIGKILL)
            resumed.until(lost)
            assert resumed.wait() == 0, resumed.output.read_text()
        finally:
            resumed.end()
    finally:
        run.end()
    return run.folder


def lost(events: list[AnyEvent]) -> bool:
    """Return True if an attempt was lost."""
    return any(isinstance(event, TrialLost) for event in events)


if __name__ == "__main__":
    print(record(Path(sys.argv[1])))
