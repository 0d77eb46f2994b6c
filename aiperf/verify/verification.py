"""Verifies a journal: whether it can be true, by everything in it that follows from the rest.

From the journal alone, with what lies beside it where it does. A pass over all lines (`lines.py`) and one by the rules
(`rules_again.py`); of a long journal they go on side by side, in a process each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkLog
from aiperf.journal.journal import NAME
from aiperf.side_processes import interrupts_held, side_processes
from aiperf.verify import sample as drawing
from aiperf.verify.finding import Checked, Verification
from aiperf.verify.lines import read_lines
from aiperf.verify.recorded import telemetry_files
from aiperf.verify.recorders import recorders
from aiperf.verify.rules_again import Looked, follow
from aiperf.verify.scores import scores
from aiperf.verify.telemetry import telemetry

LONG = 64 << 20
"""Bytes of a journal from which on two processes are worth their start."""
RECORDED = 64
"""Files of telemetry that are looked at: one a worker and host."""
BUILT = 5_000
"""Architectures that are built and counted again, at two thousandths of a second each."""
TOLD = 1000
"""Trials of which what the search was told is worked out again, at a thousandth of a second each."""


def verify(path: Path, sample: int | None = drawing.DEFAULT, followed: Path | None = None) -> Verification:
    """Verifies a run's journal; its folder will do for the path. `sample`: proposals that are made again, None: all.
    `followed`: the folder of the run that it follows, of which its proposals are made again, all of them.

    Raises:
        NoSuchRun: there is no journal, or nothing in it.
        JournalDamaged: it is of a schema that this release does not read.
    """
    journal = path / NAME if path.is_dir() else path
    looked = looked_at(journal, sample, followed)
    with _following(journal, looked) as by_rules:
        lines = read_lines(journal)
        work_log = lines.work_log
        # Before the other pass is waited for: it may take longer.
        beside = _of_the_whole(journal, work_log, looked.chain, sample) if lines.is_whole else ()
        found = score(work_log) if work_log.started is not None and lines.is_whole else None
        return Verification(
            path=str(path),
            run=None if work_log.started is None else work_log.started.run,
            lines=lines.lines,
            chain=looked.chain,
            is_whole=lines.is_whole,
            sample=looked.proposals if lines.is_whole else (),
            # Nothing by the rules where a line could not be read.
            checks=(*lines.checked, *(by_rules() if lines.is_whole else ()), *beside),
            score=found,
        )


def looked_at(journal: Path, sample: int | None, followed: Path | None = None) -> Looked:
    """What is looked at of what is costly: drawn by the journal's last hash; `sample`: proposals, None: all of everything."""
    chain, requested = "", 0
    if journal.is_file():
        chain, requested = drawing.last_chain(journal), drawing.proposals_requested(journal)
    return Looked(
        chain=chain,
        requested=requested,
        followed=followed,
        proposals=drawing.drawn(chain, requested, sample),
        told=drawing.drawn(chain, requested, None if sample is None else TOLD),
        built=drawing.drawn(chain, requested, None if sample is None else BUILT),
    )


@contextmanager
def _following(journal: Path, looked: Looked) -> Iterator[Callable[[], tuple[Checked, ...]]]:
    """Gives what waits for the pass by the rules. Of a long journal that begins now, in a process of its own."""
    if not journal.is_file() or journal.stat().st_size < LONG or len(os.sched_getaffinity(0)) < 2:
        yield lambda: follow(journal, looked)
        return
    with side_processes(1) as beside:
        with interrupts_held():
            following = beside.submit(follow, journal, looked)
        yield following.result
        following.cancel()


def _of_the_whole(journal: Path, work_log: WorkLog, chain: str, sample: int | None) -> tuple[Checked, ...]:
    """Checks of what all lines come to, and of what lies beside them."""
    folder = journal.parent
    recorded = len(telemetry_files(folder))
    chosen = drawing.drawn(chain, recorded, None if sample is None else RECORDED)
    beside = telemetry(folder, work_log, chosen), recorders(folder, work_log, chosen)
    return scores(work_log, folder), *beside
