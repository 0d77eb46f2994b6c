"""JSON file of a list, with all values unrounded. null means "not measured" or "not known", never zero."""

from __future__ import annotations

from typing import Any

import msgspec

from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow, OrderChange
from aiperf.leaderboard.metric import METRICS
from aiperf.leaderboard.valid_flops import EXPONENT, TARGET_ACCURACY

VERSION = 2
"""Raised when a name is removed or changes its meaning. New names do not raise it."""


def json_text(found: Leaderboard) -> str:
    """Return the JSON text."""
    return msgspec.json.format(msgspec.json.encode(_document(found)), indent=1).decode() + "\n"


def _document(found: Leaderboard) -> dict[str, Any]:
    return {
        "format": "aiperf-list",
        "version": VERSION,
        "by": found.by.name,
        "metrics": [
            {"name": each.name, "unit": each.unit, "less_is_better": each.is_less_better, "meaning": each.explained}
            for each in METRICS
        ],
        "valid_flops": {"exponent": EXPONENT, "target_accuracy": TARGET_ACCURACY},
        "lists": [_listing(listing) for listing in found.listings],
        "sites": found.sites,
        "unread": found.unread,
    }


def _listing(listing: BenchmarkRuns) -> dict[str, Any]:
    return {
        "title": listing.title,
        "benchmark": listing.benchmark,
        "differs": dict(listing.differs),
        "rows": [_row(row) for row in listing.rows],
        "changes": [_change(change) for change in listing.changes],
    }


def _row(row: ListedRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "place": row.place,
        "why_not": row.why_not or None,
        "tied": row.tied,
        "copies": row.copies,
        "runs": [
            {"run": run.run, "folder": run.folder, "seed": run.seed, "flops_per_second": run.flops_per_second}
            for run in row.runs
        ],
        "missing": row.missing,
        "places": dict(zip((metric.name for metric in METRICS), row.by_metric, strict=True)),
        "entry": row.entry,
    }


def _change(change: OrderChange) -> dict[str, Any]:
    return {
        "by": change.metric,
        "entries": change.entries,
        "kendall_tau_b": change.correlation,
        "moved": change.moved,
        "first": change.first,
        "furthest_up": change.rise and {"number": change.rise[0], "places": change.rise[1]},
        "furthest_down": change.fall and {"number": change.fall[0], "places": change.fall[1]},
    }
