"""Real runs of which one process is killed or stopped at a random time. Each ends as docs/failures.md states.

A run ends with a valid report, or with a line that names `resume=`. It never ends in a traceback and never hangs.
Nothing remains on the machine: no process (and so no port), no shared memory, no temporary folder.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import (
    AnyEvent,
    EpochFinished,
    HelperLost,
    Progress,
    RunEnded,
    TrialFinished,
    TrialLost,
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal.journal import read
from tests.rigs.processes import Census, command_line, descendants
from tests.rigs.real_run import CTRL_C, RealRun, small

KILL, STOP = signal.SIGKILL, signal.SIGSTOP
OF = {
    "rank": b"aiperf.train.ranks.rank",
    "host actor": b"ray::WorkerHost",
    "mailbox": b"ray::Mailbox",
    "generator": b"ray::Generator",
    "recorder": b"aiperf.system.recorder",
    "raylet": b"/raylet\0",
    "gcs": b"/gcs_server\0",
}
"""Part of the command line of each process that can be struck, apart from the driver."""
ENDS_THE_RUN = ("raylet", "gcs", "mailbox")
"""Processes that a run needs. After their loss it ends, and can be resumed."""
CASES = [(target, how) for how in (KILL, STOP) for target in ("driver", *OF)] + [
    ("driver", KILL),
    ("rank", KILL),
    ("rank", STOP),
    ("host actor", KILL),
]
"""Twenty cases: each process killed and stopped once, and the most frequent losses twice."""


@dataclass(slots=True)
class Strike:
    """One run, and what was done to it."""

    run: RealRun
    census: Census
    target: str
    how: signal.Signals
    rank: int | None = None
    """Rank that was struck, or None."""
    before: int = 0
    """Lines of the journal when it was."""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A temporary folder of the run's own, short enough for the names of Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "target", "how"),
    [(number, *case) for number, case in enumerate(CASES)],
    ids=[f"{number}-{target.replace(' ', '-')}-{how.name}" for number, (target, how) in enumerate(CASES)],
)
def test_a_run_ends_as_documented_after_any_process_loss(
    number: int, target: str, how: signal.Signals, tmp_path: Path, scratch: Path
) -> None:
    seed = int(os.environ.get("AIPERF_DEATHS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"AIPERF_DEATHS_SEED={seed}")
    draw = random.Random(f"{seed} {number}")
    run = RealRun(
        tmp_path,
        *small(
            "schedule.duration_seconds=7200",
            "schedule.epochs=[3,4,5]",
            # a new group of ranks sends no message while it starts
            f"limits.silence_seconds={600 if target == 'rank' else 20}",
            "trainer.hang_seconds=6",
        ),
        environment=places_of(scratch),
    )
    try:
        with Census(run.process.pid) as census:
            struck = _strike(Strike(run, census, target, how), draw)
            if target == "driver" and how == KILL:
                status = run.process.wait()
            elif target in ENDS_THE_RUN:
                status = run.wait()
            else:
                _go_on(struck)
                status = run.interrupt()
        _check_end(struck, status, seed)
        if status != CTRL_C:
            lines = len(run.events())
            again = RealRun(tmp_path, f"resume={run.folder}", environment=places_of(scratch))
            with Census(again.process.pid) as second:
                again.until(lambda events: _has_gone_on(events, lines))
                assert again.interrupt() == CTRL_C, again.output.read_text()
            _check_sound(run.folder)
            assert second.left_over(300) == []
        assert census.left_over(300) == [], f"seed {seed}"
        assert list(scratch.rglob("*")) == [], f"seed {seed}"
    finally:
        run.end()


def places_of(scratch: Path) -> dict[str, str]:
    """Return the temporary folder of a run. All its temporary files are inside."""
    return {"TMPDIR": str(scratch), "RAY_TMPDIR": str(scratch)}


def _has_gone_on(events: list[AnyEvent], before: int) -> bool:
    """Return whether training has continued after that line: two epochs and a trial have ended."""
    after = events[before:]
    return (
        sum(isinstance(event, EpochFinished) for event in after) >= 2
        and any(isinstance(event, TrialFinished) for event in after)
        and any(isinstance(event, Progress | EpochFinished) for event in after[-3:])
    )


def _go_on(strike: Strike) -> None:
    """Wait until the run has noticed the strike, if it must, and has continued."""

    def seen(events: list[AnyEvent]) -> int:
        """Return the lines up to the one that reports it."""
        kinds: dict[str, type[WorkerLost | HelperLost]] = {"host actor": WorkerLost, "recorder": HelperLost}
        kind = kinds.get(strike.target)
        if kind is None or (strike.target, strike.how) == ("recorder", STOP):
            return strike.before
        return next((n for n, event in enumerate(events) if n >= strike.before and isinstance(event, kind)), 1 << 30)

    strike.run.until(lambda events: _has_gone_on(events, seen(events)))


def _strike(strike: Strike, draw: random.Random) -> Strike:
    """At a random instant from the worker's first word to some seconds before the end."""
    run = strike.run
    run.until(lambda events: any(isinstance(event, WorkerJoined) for event in events))
    time.sleep(draw.uniform(0.0, 15.0))
    if strike.target == "driver":
        pids = [run.process.pid]
    else:
        pids = [pid for pid in descendants(run.process.pid) if OF[strike.target] in command_line(pid)]
    assert pids, f"no {strike.target} among {[command_line(pid) for pid in descendants(run.process.pid)]}"
    if strike.target == "rank":
        strike.rank = draw.randrange(len(pids))
    strike.before = len(run.events())
    os.kill(sorted(pids)[strike.rank or 0], strike.how)
    if strike.target == "driver" and strike.how == STOP:
        time.sleep(5.0)  # a person's Ctrl-Z and fg
        os.kill(run.process.pid, signal.SIGCONT)
    return strike


def _check_end(strike: Strike, status: int, seed: int) -> None:
    said = f"seed {seed}, {strike.target}, {strike.how.name}:\n{strike.run.output.read_text()}"
    if strike.target == "driver" and strike.how == KILL:
        assert status == -KILL
        return
    assert "Traceback" not in said, said
    assert status >= 0, f"it died of signal {-status}; {said}"
    events = list(read(strike.run.folder))
    assert (strike.run.folder / "report.html").stat().st_size > 0, said
    if strike.target in ENDS_THE_RUN:
        assert status == 2 and f"resume={strike.run.folder}" in said and f" {strike.target}" in said, said
        return
    assert status == CTRL_C, said
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "interrupted", said
    _check_sound(strike.run.folder)
    after = events[strike.before :]
    match strike.target:
        case "rank":
            reasons = [event.reason for event in after if isinstance(event, TrialLost)]
            # between two trials no attempt can be lost. Else the right one is named
            assert all(f"rank {strike.rank} of 2" in reason for reason in reasons[:1]), f"{reasons}\n{said}"
            assert not any(isinstance(event, WorkerLost) for event in after), said
        case "host actor":
            lost = [event.reason for event in after if isinstance(event, WorkerLost)]
            assert lost and ("host actor" in lost[0] or "no word" in lost[0]), f"{lost}\n{said}"
            assert sum(isinstance(event, WorkerJoined) for event in after) >= 1, said
        case "recorder":
            assert strike.how == STOP or any(isinstance(event, HelperLost) for event in after), said
        case _:
            assert not any(isinstance(event, WorkerLost) for event in after), said


def _check_sound(folder: Path) -> list[AnyEvent]:
    """Assert that each image of an epoch counts once, and that there is a score."""
    events = list(read(folder))
    kept = work_log(events)
    assert score(kept).valid
    assert any(isinstance(event, EpochFinished) for event in events)
    return events
