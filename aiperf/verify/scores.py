"""Score, error and interval of the report next to a journal, compared with the lines that the report was made from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import msgspec

from aiperf.accounting.score import Score, score
from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import RunResumed
from aiperf.journal.journal import folding, read
from aiperf.verify.check import Notes
from aiperf.verify.finding import Certainty, CheckResult

LAW = "a report's score, error and interval are those of the journal lines that it names"
REPORT = "report.json"
LARGEST_REPORT = 1 << 30
"""Bytes. The report of 12 hours of 4096 workers has some 100 MB."""
ROUNDING = 1e-9
"""Relative. Score and error are exact, the interval is computed by numpy (docs/benchmark.md, "The arithmetic")."""


class _Run(msgspec.Struct, frozen=True):
    """Part of the report that names the journal's lines."""

    events: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    """Number of journal lines that the report was made from."""


class _Score(msgspec.Struct, frozen=True):
    """Figures of the report that follow from the journal."""

    flops_per_second: float | None
    cumulative_flops_per_second: float
    regulated_flops_per_second: float | None
    error: float | None
    window_seconds: float
    trials_finished: int
    busy_share: float | None
    wasted_flops: float
    valid: bool
    interval_method: int | None = None
    flops_per_second_interval: tuple[float, float] | None = None


class _Report(msgspec.Struct, frozen=True):
    run: _Run
    score: _Score


FIGURES = tuple(name for name in _Score.__struct_fields__ if "interval" not in name)
_decoder = msgspec.json.Decoder(_Report)


def scores(work_log: WorkLog, journal: Path, lines: int) -> CheckResult:
    """Check the report in the journal's folder. `work_log`: fold of all `lines` lines of the journal."""
    notes = Notes("score", LAW, "figures")
    file = journal.parent / REPORT
    if not file.is_file():
        notes.not_checked = f"no {REPORT} next to the journal"
        return notes.checked()
    try:
        report = _read(file)
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        notes.add(None, LAW, f"{REPORT} cannot be read ({type(error).__name__}: {error})", "cannot be determined")
        return notes.checked()
    named = report.run.events
    differing = _differing(report.score, score(work_log)) if named == lines else None
    if differing is None or differing:
        prefix, may_be_of_cut_lines = _prefix(journal, min(named, lines), named)
        certainty: Certainty = "cannot be determined" if may_be_of_cut_lines else "contradiction"
        if named > lines:
            notes.add(None, LAW, f"{REPORT} is made from {named} lines; the journal has {lines}", certainty)
            return notes.checked()
        differing = _differing(report.score, score(prefix))
        for found in differing:
            notes.add(None, LAW, f"{found} by the {named} lines that the report names", certainty)
    notes.examined = len(FIGURES)
    if named < lines:
        notes.not_checked = f"{lines - named} of {lines} lines were written after {REPORT}"
    return notes.checked()


def _read(file: Path) -> _Report:
    with file.open("rb") as opened:
        content = opened.read(LARGEST_REPORT + 1)
    if len(content) > LARGEST_REPORT:
        raise ValueError(f"it has more than {LARGEST_REPORT} bytes")
    return _decoder.decode(content)


def _prefix(journal: Path, lines: int, named: int) -> tuple[WorkLog, bool]:
    """Return the fold of the first `lines` lines, and if a rollback among them cut lines that the report may be made from."""
    work_log, may_be_of_cut_lines = WorkLog(), False
    reader = read(journal, lines)
    with folding(reader):
        for before, event in enumerate(reader):
            work_log.take(event)
            if isinstance(event, RunResumed) and before + event.rolled_back_lines >= named:
                may_be_of_cut_lines = True
    return work_log, may_be_of_cut_lines


def _differing(reported: _Score, again: Score) -> list[str]:
    """Return the figures that differ, as text."""
    names = list(FIGURES)
    if reported.interval_method == again.interval_method:
        names.append("flops_per_second_interval")
    return [
        f"{name}: {getattr(reported, name)!r} in {REPORT}, {getattr(again, name)!r}"
        for name in names
        if not _is_equal(getattr(reported, name), getattr(again, name))
    ]


def _is_equal(reported: object, again: object) -> bool:
    if isinstance(reported, tuple) and isinstance(again, tuple):
        return len(reported) == len(again) and all(map(_is_equal, reported, again))
    if isinstance(reported, int | float) and isinstance(again, int | float):
        return math.isclose(reported, again, rel_tol=ROUNDING)
    return reported == again
