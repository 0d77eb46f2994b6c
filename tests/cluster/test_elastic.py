"""Run whose nodes Ray's own autoscaler starts. One is drained and dies. Real Ray, real training."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from aiperf.accounting.accelerator_time import planned_accelerators
from aiperf.journal.events import (
    CheckpointWritten,
    RunEnded,
    RunStarted,
    TrialLost,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal.journal import NAME, read
from aiperf.report.write import report_of
from tests.audit.run_model import audit
from tests.rigs.autoscaler import NODES, run_story
from tools.verify_standalone import verified


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root, for a process namespace of its own"
)
def test_autoscaled_nodes_train_and_a_drained_one_costs_an_epoch(
    tmp_path: Path,
) -> None:
    done = run_story(tmp_path, "schedule.duration_seconds=1500", "schedule.warmup_seconds=5")

    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "head.log").read_text()
    assert "another trains" in done.stdout
    (folder,) = {path.parent for path in tmp_path.glob(f"*/{NAME}")}
    events = list(read(folder))
    first, last = events[0], events[-1]
    assert isinstance(first, RunStarted)
    assert isinstance(last, RunEnded) and last.reason == "interrupted"
    joined = [event for event in events if isinstance(event, WorkerJoined)]
    lost = [event for event in events if isinstance(event, WorkerLost)]
    assert len(joined) > NODES, "no node but the head was there when it began: the autoscaler has brought them all"
    assert lost
    started = [event for event in events if isinstance(event, TrialStarted)]
    assert {event.worker for event in started} >= {event.worker for event in joined[: NODES + 1]}
    for one in [event for event in events if isinstance(event, TrialLost)]:
        again = next((each for each in started if each.trial == one.trial and each.attempt > one.attempt), None)
        saved = [
            each.epoch
            for each in events
            if isinstance(each, CheckpointWritten) and each.trial == one.trial and each.at <= one.at
        ]
        assert again is None or again.epoch > max(saved, default=0), "the epoch in progress is lost, and no other"
    assert audit(events).trials, "the books balance: the score is the work that was done"
    mine = verified(folder)
    report = report_of(folder)
    assert report.score.flops_per_second == mine["flops_per_second"]
    assert report.availability.planned == planned_accelerators(first.config) == NODES
    assert report.availability.share is not None and 0 < report.availability.share < 1
    assert max(count for _, count in report.availability.steps) == NODES
