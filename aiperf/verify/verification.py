"""Verification of a journal by everything in it that follows from the rest.

One pass reads all lines (`lines.py`), another applies the rules (`replayed_rules.py`). For a long journal the two run in
parallel, in a process each. `report.json` next to the journal is compared with the journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiperf.accounting.score import score
from aiperf.journal.journal import NAME
from aiperf.reader_processes import interrupts_held, side_processes
from aiperf.rules.verify_proposals import check_rules
from aiperf.verify import sample as drawing
from aiperf.verify.finding import CheckResult, Verification
from aiperf.verify.lines import read_lines
from aiperf.verify.replayed_rules import CostlySamples, follow
from aiperf.verify.scores import scores

LONG = 64 << 20
"""Size of a journal in bytes from which a second process is used."""
BUILT = 5_000
"""Number of rebuilt architectures, at 2 ms each."""
REPORTED = 1000
"""Number of trials whose reported accuracy is recomputed, at 1 ms each."""


def verify(path: Path, sample: int | None = drawing.DEFAULT, followed: Path | None = None) -> Verification:
    """Verify a run's journal; `path` is the journal or its run folder.

    `sample`: number of proposals to recompute, None for all. `followed`: folder of the run that this run follows. All
    proposals are then recomputed from that run's journal.

    Raises:
        NoSuchRun: no journal exists, or it has no complete line.
        JournalDamaged: this release does not read the journal's schema.
        OtherRules: this release does not have the rules of the journal's proposals.
    """
    journal = path / NAME if path.is_dir() else path
    with _following(journal, sample, followed) as by_rules:
        lines = read_lines(journal)
        if lines.work_log.started is not None:
            check_rules(lines.work_log.started)
        # The other pass may take longer, so this comes before waiting for it.
        score_checks = (scores(lines.work_log, journal, lines.lines),) if lines.is_whole else ()
        samples = samples_of(lines.chain, lines.answered, sample, followed)
        return Verification(
            path=str(path),
            run=None if lines.work_log.started is None else lines.work_log.started.run,
            lines=lines.lines,
            chain=samples.chain,
            is_whole=lines.is_whole,
            sample=samples.proposals if lines.is_whole else (),
            # Without an unreadable line, add the pass by the rules.
            checks=(*lines.checked, *(by_rules(samples) if lines.is_whole else ()), *score_checks),
            score=score(lines.work_log) if lines.work_log.started is not None and lines.is_whole else None,
        )


def samples_of(chain: str, answered: Sequence[int], sample: int | None, followed: Path | None = None) -> CostlySamples:
    """Return the samples of the costly checks, drawn by the journal's last hash from the answered proposals."""
    return CostlySamples(
        chain=chain,
        answered=len(answered),
        followed=followed,
        proposals=drawing.drawn(chain, answered, sample),
        reported=drawing.drawn(chain, answered, None if sample is None else REPORTED),
        built=drawing.drawn(chain, answered, None if sample is None else BUILT),
    )


@contextmanager
def _following(
    journal: Path, sample: int | None, followed: Path | None
) -> Iterator[Callable[[CostlySamples], tuple[CheckResult, ...]]]:
    """Yield the pass by the rules. For a long journal it starts at once in its own process, with the expected sample.

    Its result is used only if the parsed lines give the same sample.
    """
    if not journal.is_file() or journal.stat().st_size < LONG or len(os.sched_getaffinity(0)) < 2:
        yield lambda samples: follow(journal, samples)
        return
    begun = samples_of(*drawing.expected(journal), sample, followed)
    with side_processes(1) as processes:
        with interrupts_held():
            following = processes.submit(follow, journal, begun)
        yield lambda samples: following.result() if samples == begun else follow(journal, samples)
        following.cancel()
