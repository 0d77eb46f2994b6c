"""`python -m aiperf status`: how a run stands that goes on elsewhere, from its journal alone."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DESCRIPTION = """Shows how a run stands that goes on on another host, or in a batch job, as far as its journal
tells. Nothing is asked of the run itself."""
EXAMPLES = ("/shared/runs/20261121-120000-imagenet",)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints a few lines; gives the exit status."""
    from aiperf.planning.plan import run_folder

    for line in lines(run_folder(arguments.run), time.time()):
        print(line)
    return 0


def lines(folder: Path, now_unix: float) -> Iterator[str]:
    """How the run in a folder stands. `now_unix`: the wall clock, for how long ago it was heard of.

    Raises:
        NoSuchRun: its journal holds no whole line yet.
    """
    from aiperf.accounting.score import score
    from aiperf.accounting.work_log import WorkLog
    from aiperf.journal.journal import NAME, folding, read
    from aiperf.rules.replay import replay
    from aiperf.units import duration, flops_per_second
    from aiperf.units import error as error_rate

    reader = read(folder)
    work_log = WorkLog()
    with folding(reader):
        for run, event in replay(reader):  # noqa: B007 - the run as it stands in the end is used below
            work_log.take(event)
    found = score(work_log, run.at)
    heard = max(0.0, now_unix - (folder / NAME).stat().st_mtime)
    state = f"ended ({run.ended})" if run.ended else f"last heard of {duration(heard)} ago"
    yield f"{run.started.run}: {duration(run.at)} of {duration(run.duration)}, {state}"
    figure = "after the warm-up" if found.flops_per_second is None else flops_per_second(found.flops_per_second)
    error = "none yet" if found.error is None else error_rate(found.error)
    yield f"  score {figure} · error {error} · {run.finished} trials finished"
    yield f"  {len(run.workers)} workers up, {len(run.running)} of them in training · {work_log.lost_workers} lost so far"
