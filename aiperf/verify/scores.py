"""The score, worked out again, against what a report beside the journal says of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkLog
from aiperf.verify.check import Notes
from aiperf.verify.finding import Checked

LAW = "a report's score, error and interval are those of its journal"
REPORT = "report.json"
ROUNDING = 1e-9
"""Relative. Score and error are exact; the interval comes out of numpy (docs/benchmark.md, "The arithmetic")."""
FIGURES = (
    "flops_per_second",
    "cumulative_flops_per_second",
    "regulated_flops_per_second",
    "error",
    "window_seconds",
    "trials_finished",
    "busy_share",
    "wasted_flops",
    "valid",
)


def scores(work_log: WorkLog, folder: Path) -> Checked:
    """Of the report in the run's folder, where there is one."""
    notes = Notes("score", LAW, "figures")
    file = folder / REPORT
    found = score(work_log)
    if not file.is_file():
        notes.not_checked = "no report lies beside the journal to be held to it"
        return notes.checked()
    try:
        told: Any = json.loads(file.read_text())["score"]
        figures = {name: told[name] for name in FIGURES}
    except (OSError, ValueError, LookupError, TypeError) as error:
        notes.add(None, LAW, f"{REPORT} cannot be read ({type(error).__name__}: {error})", "cannot be determined")
        return notes.checked()
    names = list(FIGURES)
    if told.get("interval_method") == found.interval_method:
        for end, name in enumerate(("lower end of the interval", "upper end of the interval")):
            interval, again = told.get("flops_per_second_interval"), found.flops_per_second_interval
            notes.examined += 1
            if not _is_equal(interval and interval[end], again and again[end]):
                notes.add(None, LAW, f"{name}: {interval!r} in {REPORT}, {again!r} by the journal")
    for name in names:
        notes.examined += 1
        again = getattr(found, name)
        if not _is_equal(figures[name], again):
            notes.add(None, LAW, f"{name}: {figures[name]!r} in {REPORT}, {again!r} by the journal")
    return notes.checked()


def _is_equal(told: Any, again: Any) -> bool:
    if isinstance(told, int | float) and isinstance(again, int | float):
        return math.isclose(told, again, rel_tol=ROUNDING)
    return bool(told == again)
