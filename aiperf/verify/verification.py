"""Verification of a journal by everything in it that follows from the rest.

`read_lines` and `replayed_rules` make one pass each, in parallel for a long journal. Its last hash determines the samples: the
author does not know them before the last line is written.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import msgspec

from aiperf.accounting.score import Score, score
from aiperf.accounting.work_log import WorkLog
from aiperf.errors import JournalDamaged
from aiperf.files import bounded_lines
from aiperf.journal.events import RunResumed, TrialProposed, TrialRejected
from aiperf.journal.journal import NAME, Reader, folding, read
from aiperf.journal.sealed_log import LONGEST_LINE
from aiperf.reader_processes import interrupts_held, side_processes
from aiperf.rules.proposals import check_rules
from aiperf.verify.check import Attempts, Certainty, Check, CheckResult, Verification, handlers
from aiperf.verify.machines import Machines, NodeFaults, Presence, Rates
from aiperf.verify.plan import PlanCheck, PredictedScore, RecordedDataSet
from aiperf.verify.replayed_rules import CostlySamples, follow
from aiperf.verify.times import Clocks, Edges, Images, Intervals, LearningRates, Silences, Weights

SCORE_LAW = "a report's score, error and interval are those of the journal lines that it names"
REPORT_FILE = "report.json"
LARGEST_REPORT = 1 << 30
"""Bytes. The report of 12 hours of 4096 workers has some 100 MB."""
ROUNDING = 1e-9
"""Relative. Score and error are exact, the interval is computed by numpy (docs/benchmark.md, "The arithmetic")."""


class _Run(msgspec.Struct, frozen=True):
    """Part of the report that names the journal's lines."""

    events: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    """Number of journal lines that the report was made from."""


class _Report(msgspec.Struct, frozen=True):
    run: _Run
    score: Score


FIGURES = tuple(each.name for each in fields(Score) if "interval" not in each.name and each.name != "warnings")
_decoder = msgspec.json.Decoder(_Report)


def scores(work_log: WorkLog, journal: Path, lines: int) -> CheckResult:
    """Compare report.json with the lines that it names. Without report.json nothing is compared."""
    notes = CheckResult("score", SCORE_LAW, "figures")
    file = journal.parent / REPORT_FILE
    if not file.is_file():
        notes.not_checked = f"no {REPORT_FILE} next to the journal"
        return notes.close()
    try:
        report = _read_report(file)
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        notes.add(None, f"{REPORT_FILE} cannot be read ({type(error).__name__}: {error})", "cannot be determined")
        return notes.close()
    named = report.run.events
    differing = _differing(report.score, score(work_log)) if named == lines else None
    if differing is None or differing:
        prefix, may_be_of_cut_lines = _prefix(journal, min(named, lines), named)
        certainty: Certainty = "cannot be determined" if may_be_of_cut_lines else "contradiction"
        if named > lines:
            notes.add(None, f"{REPORT_FILE} is made from {named} lines; the journal has {lines}", certainty)
            return notes.close()
        differing = _differing(report.score, score(prefix))
        for found in differing:
            notes.add(None, f"{found} by the {named} lines that the report names", certainty)
    notes.examined = len(FIGURES)
    if named < lines:
        notes.not_checked = f"{lines - named} of {lines} lines were written after {REPORT_FILE}"
    return notes.close()


def _read_report(file: Path) -> _Report:
    with file.open("rb") as opened:
        content = opened.read(LARGEST_REPORT + 1)
    if len(content) > LARGEST_REPORT:
        raise ValueError(f"it has more than {LARGEST_REPORT} bytes")
    return _decoder.decode(content)


def _prefix(journal: Path, lines: int, named: int) -> tuple[WorkLog, bool]:
    """Return the fold of the first `lines` lines, and if a rollback cut lines that the report may be made from."""
    work_log, may_be_of_cut_lines = WorkLog(), False
    reader = read(journal, lines)
    with folding(reader):
        for before, event in enumerate(reader):
            work_log.take(event)
            if isinstance(event, RunResumed) and before + event.rolled_back_lines >= named:
                may_be_of_cut_lines = True
    return work_log, may_be_of_cut_lines


def _differing(reported: Score, again: Score) -> list[str]:
    names = list(FIGURES)
    if reported.interval_method == again.interval_method:
        names.append("flops_per_second_interval")
    return [
        f"{name}: {getattr(reported, name)!r} in {REPORT_FILE}, {getattr(again, name)!r}"
        for name in names
        if not _is_equal(getattr(reported, name), getattr(again, name))
    ]


def _is_equal(reported: object, again: object) -> bool:
    if isinstance(reported, tuple) and isinstance(again, tuple):
        return len(reported) == len(again) and all(map(_is_equal, reported, again))
    if isinstance(reported, int | float) and isinstance(again, int | float):
        return math.isclose(reported, again, rel_tol=ROUNDING)
    return reported == again


DEFAULT = 50
"""Number of recomputed proposals. Default of `--sample`."""
_ANSWER = re.compile(rb'\{"event":"Trial(?:Proposed|Rejected)","at":[^,]+,"number":(\d{1,10}),')
_CHAIN = re.compile(rb'"chain":"([0-9a-f]{64})"\}\n$')


def drawn(chain: str, numbers: Sequence[int], size: int | None) -> tuple[int, ...]:
    """Return the `size` numbers with the smallest SHA-256 over `chain` and number, ascending. All for None."""
    if size is None or size >= len(numbers):
        return tuple(sorted(numbers))
    return tuple(sorted(heapq.nsmallest(size, numbers, key=lambda number: _rank(chain, number))))


def _rank(chain: str, number: int) -> bytes:
    return hashlib.sha256(f"{chain}{number}".encode()).digest()


def expected(path: Path) -> tuple[str, list[int]]:
    """Return (last hash, answered proposals) from a fast scan. Compare it: a forger can write lines in another form."""
    numbers: list[int] = []
    last = b""
    with path.open("rb", buffering=1 << 20) as file:
        for line in bounded_lines(file, LONGEST_LINE):
            if (
                line.startswith((b'{"event":"TrialP', b'{"event":"TrialR'))
                and (match := _ANSWER.match(line)) is not None
            ):
                numbers.append(int(match[1]))
            if line[-1] == 0x0A:
                last = line
    chain = _CHAIN.search(last)
    return "" if chain is None else chain[1].decode(), numbers


LONG = 64 << 20
"""Size of a journal in bytes from which a second process is used."""
BUILT = 5_000
"""Number of rebuilt architectures, at 2 ms each."""
REPORTED = 1000
"""Number of trials whose reported accuracy is recomputed, at 1 ms each."""


def verify(path: Path, sample: int | None = DEFAULT, followed: Path | None = None) -> Verification:
    """Verify the journal or the run's folder. `sample`: proposals to recompute, None for all.

    `followed`: folder of the run that it follows. A damaged line is a finding. Raise NoSuchRun, JournalDamaged for another
    schema, and OtherRules if its proposals follow another version of the rules.
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
            has_seals=bool(lines.work_log.sealed),
        )


def samples_of(chain: str, answered: Sequence[int], sample: int | None, followed: Path | None = None) -> CostlySamples:
    return CostlySamples(
        chain=chain,
        answered=len(answered),
        followed=followed,
        proposals=drawn(chain, answered, sample),
        reported=drawn(chain, answered, None if sample is None else REPORTED),
        built=drawn(chain, answered, None if sample is None else BUILT),
    )


@contextmanager
def _following(
    journal: Path, sample: int | None, followed: Path | None
) -> Iterator[Callable[[CostlySamples], tuple[CheckResult, ...]]]:
    """For a long journal the pass starts at once, with the expected sample, and counts only if the lines give the same."""
    if not journal.is_file() or journal.stat().st_size < LONG or len(os.sched_getaffinity(0)) < 2:
        yield lambda samples: follow(journal, samples)
        return
    begun = samples_of(*expected(journal), sample, followed)
    with side_processes(1) as processes:
        with interrupts_held():
            following = processes.submit(follow, journal, begun)
        yield lambda samples: following.result() if samples == begun else follow(journal, samples)
        following.cancel()


LAW = "every line has the hash that follows from the previous line, is an event of the schema, and keeps the rules of reading"


@dataclass(frozen=True, slots=True)
class Lines:
    work_log: WorkLog
    """Work up to the last readable line."""
    chain: str
    """Hash of the last line. Empty if a line is damaged."""
    lines: int
    answered: tuple[int, ...]
    """Numbers of the accepted and rejected proposals, in the journal's order."""
    is_whole: bool
    """True if no line is damaged."""
    checked: tuple[CheckResult, ...]


def read_lines(path: Path) -> Lines:
    """Read to the end or to the first damaged line, which is a finding. Raise JournalDamaged for another schema."""
    attempts, work_log = Attempts(), WorkLog()
    rates = Rates()
    checks: tuple[Check, ...] = (
        RecordedDataSet(),
        PlanCheck(),
        PredictedScore(),
        Presence(),
        Machines(),
        NodeFaults(),
        Clocks(),
        Intervals(attempts),
        Edges(attempts),
        Images(attempts),
        LearningRates(attempts),
        Silences(attempts, work_log),
        Weights(),
        rates,
    )
    answered: list[int] = []
    reading = CheckResult("reading", LAW, "lines")
    reader = Reader(path)
    try:
        reading.examined = _show(reader, checks, attempts, work_log, answered)
    except JournalDamaged as damage:
        if damage.line is None:
            raise
        reading.examined = damage.line - 1
        reading.not_checked = "all lines after it"
        reading.add(damage.line, str(damage))
        return Lines(work_log, "", reading.examined, (), False, _closed(reading, checks))
    rates.add_work(work_log)
    end = reader.reading
    if end.warning is not None:
        reading.not_checked = end.warning.text
    return Lines(work_log, end.chain.decode(), reading.examined, tuple(answered), True, _closed(reading, checks))


def _closed(reading: CheckResult, checks: Iterable[Check]) -> tuple[CheckResult, ...]:
    return (reading.close(), *(check.checked() for check in checks))


def _show(reader: Reader, checks: Iterable[Check], attempts: Attempts, work_log: WorkLog, answered: list[int]) -> int:
    shown: dict[type, list[Callable[[int, Any], None]]] = defaultdict(list)
    for check in checks:
        for kind, handle in handlers(check):
            shown[kind].append(handle)
    taken = dict(handlers(attempts))
    take = work_log.take
    line = 0
    with folding(reader):
        for line, event in enumerate(reader, 1):
            kind = type(event)
            for handle in shown.get(kind, ()):
                handle(line, event)
            take(event)
            if kind in taken:
                taken[kind](event)
            elif isinstance(event, TrialProposed | TrialRejected):
                answered.append(event.number)
    return line
