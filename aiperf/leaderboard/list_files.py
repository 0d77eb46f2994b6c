"""Files of a list: HTML, Markdown, CSV and JSON. Each is written atomically, and equal lists give equal bytes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from aiperf.atomic_files import replace_file
from aiperf.leaderboard import tables
from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow, OrderChange
from aiperf.leaderboard.metric import METRICS
from aiperf.leaderboard.page import page
from aiperf.leaderboard.phrases import about, differences, remarks
from aiperf.leaderboard.tables import models
from aiperf.report.tables import Cell, Table
from aiperf.sanitize import cell, sanitize

Value = str | int | float | None
VERSION = 3
"""Raised when a name is removed or changes its meaning. New names do not raise it."""
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#|~@:!$^=]|(?<=www)\.)")
"""Characters that could form a table's edge, a link, mark-up or a tag."""


def write(found: Leaderboard, folder: Path) -> tuple[Path, ...]:
    """Write rank.html, rank.md, rank.csv and rank.json, and replace earlier ones. Raises OSError if the disk refuses them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, form in (("html", page), ("md", markdown), ("csv", csv_text), ("json", json_text)):
        paths.append(folder / f"rank.{suffix}")
        replace_file(paths[-1], form(found).encode())
    return tuple(paths)


def csv_text(found: Leaderboard) -> str:
    """Return the CSV text. A missing value is an empty cell."""
    file = io.StringIO(newline="")
    writer: csv.DictWriter[str] | None = None
    for fields in _csv_rows(found):
        if writer is None:
            writer = csv.DictWriter(file, fieldnames=list(fields))
            writer.writeheader()
        writer.writerow({name: cell(value) if isinstance(value, str) else value for name, value in fields.items()})
    return file.getvalue()


def _csv_rows(found: Leaderboard) -> Iterator[dict[str, Value]]:
    for listing in found.listings:
        yield from (_csv_row(listing, row) for row in listing.rows)
    for each in found.unread:
        blank: dict[str, Value] = dict.fromkeys(_csv_columns(found))
        yield blank | {"folder": each.folder, "no place because": each.reason}


def _csv_columns(found: Leaderboard) -> dict[str, Value]:
    listing = next(listing for listing in found.listings)
    return _csv_row(listing, listing.rows[0])


def _csv_row(listing: BenchmarkRuns, row: ListedRow) -> dict[str, Value]:
    entry, power = row.entry, row.entry.power
    low, high = entry.flops_per_second_interval or (None, None)
    best, worst = row.tied or (None, None)
    return {
        "list": listing.title,
        "standing": listing.benchmark.standing,
        "place": row.place,
        "best place that the data allow": best,
        "worst place that the data allow": worst,
        "no place because": row.why_not,
        "run": entry.run,
        "system": entry.system,
        "site": entry.site,
        "folder": entry.folder,
        **{f"{metric.name}{f' [{metric.unit}]' if metric.unit else ''}": metric.of(entry) for metric in METRICS},
        "score 95 % low [FLOPS]": low,
        "score 95 % high [FLOPS]": high,
        "runs": len(row.runs),
        "announced runs without a valid result": row.missing,
        "attempts lost [share]": entry.attempts_lost_share,
        "trials given up [share]": entry.trials_given_up_share,
        "accelerators": entry.accelerator_count,
        "models": models(entry),
        "power [W]": None if power is None else power.watts,
        "power of": None if power is None else power.scope,
        "EEHPC level": None if power is None else power.level,
        "length [s]": entry.seconds,
        "valid window [s]": entry.window_seconds,
        "announced runs": None if entry.announced is None else entry.announced.announced,
        "published runs": None if entry.announced is None else entry.announced.published,
        "rules not met": len(entry.breaches),
        "warnings": len(entry.warnings),
        "critical warnings": sum(each.severity == "critical" for each in entry.warnings),
        "seed": entry.seed,
        "configuration": entry.config_hash,
        "aiperf": entry.release,
        "began [s since 1970, UTC]": entry.started_unix,
    }


def json_text(found: Leaderboard) -> str:
    """Return the JSON text."""
    return msgspec.json.format(msgspec.json.encode(_json_document(found)), indent=1).decode() + "\n"


def _json_document(found: Leaderboard) -> dict[str, Any]:
    return {
        "format": "aiperf-list",
        "version": VERSION,
        "by": found.by.name,
        "metrics": [
            {"name": each.name, "unit": each.unit, "less_is_better": each.is_less_better, "meaning": each.explained}
            for each in METRICS
        ],
        "lists": [_json_listing(listing) for listing in found.listings],
        "sites": found.sites,
        "unread": found.unread,
    }


def _json_listing(listing: BenchmarkRuns) -> dict[str, Any]:
    return {
        "title": listing.title,
        "benchmark": listing.benchmark,
        "differs": dict(listing.differs),
        "rows": [_json_row(row) for row in listing.rows],
        "changes": [_json_change(change) for change in listing.changes],
    }


def _json_row(row: ListedRow) -> dict[str, Any]:
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


def _json_change(change: OrderChange) -> dict[str, Any]:
    return {
        "by": change.metric,
        "entries": change.entries,
        "kendall_tau_b": change.correlation,
        "moved": change.moved,
        "first": change.first,
        "furthest_up": change.rise and {"number": change.rise[0], "places": change.rise[1]},
        "furthest_down": change.fall and {"number": change.fall[0], "places": change.fall[1]},
    }


def markdown(found: Leaderboard) -> str:
    """Return the Markdown text."""
    return "\n".join(_markdown_lines(found))


def _markdown_lines(found: Leaderboard) -> Iterator[str]:
    yield f"# AIPerf: runs by {escaped(found.by.title)}\n"
    yield f"{escaped(about(found))}\n"
    for index, listing in enumerate(found.listings, 1):
        yield f"## {escaped(listing.title)}\n"
        if listing.differs:
            yield f"{escaped(differences(listing))}\n"
        yield from _markdown_table(tables.order(listing, found.by, index))
        if len(listing.rows) > 1:
            yield from _markdown_table(tables.changes(listing, found.by, index))
    if found.sites:
        yield "## Announced runs\n"
        yield from _markdown_table(tables.sites(found))
    if found.unread:
        yield "## Not in the list\n"
        yield from _markdown_table(tables.unread(found))
    for title, text in remarks(found):
        yield f"**{escaped(title)}.** {escaped(text)}\n"


def _markdown_table(shown: Table) -> Iterator[str]:
    yield f"{escaped(shown.caption)}\n"
    yield _markdown_row(column.name for column in shown.columns)
    yield "|" + "|".join(" ---: " if column.is_number else " --- " for column in shown.columns) + "|"
    yield from (_markdown_row(map(_markdown_text, row)) for row in shown.rows)
    yield f"\n{escaped(shown.footnote)}\n" if shown.footnote else ""


def _markdown_text(cell: Cell) -> str:
    return f"{cell.text} ({cell.second_line})" if cell.second_line else cell.text


def _markdown_row(cells: Iterator[str]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    """Return one line of literal text, sanitized and without active mark-up."""
    return _MARKS.sub(r"\\\1", sanitize(text))
