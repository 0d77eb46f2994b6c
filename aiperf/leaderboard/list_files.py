"""Output of a list of runs: HTML, CSV and JSON files, and lines for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aiperf.atomic_files import replace_file
from aiperf.leaderboard import tables
from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow
from aiperf.leaderboard.tables import about, differences, models, remarks, torn
from aiperf.page import html
from aiperf.page.html import listed, note, section, table, text
from aiperf.page.section import Cell
from aiperf.page.terminal import aligned, cut
from aiperf.report.figures import RANKED, by_name
from aiperf.sanitize import cell, sanitize


def page(found: Leaderboard) -> str:
    """Return the content of rank.html, a complete HTML page: orders, places, details, announcements and unreadable journals."""
    listings = list(enumerate(found.listings, 1))
    links = [(f"list-{index}", f"{listing.title} ({len(listing.rows)})") for index, listing in listings]
    if found.sites:
        links.append(("announced", "Announced runs"))
    if found.unread:
        links.append(("not-listed", "Not in the list"))
    sections = [
        *(_listing(found, listing, index) for index, listing in listings),
        *([section("announced", "Announced runs", [table(tables.sites(found))])] if found.sites else []),
        *([section("not-listed", "Not in the list", [table(tables.unread(found))])] if found.unread else []),
    ]
    return html.page(
        f"AIPerf list by {found.by.title}",
        html.header("list of runs", f"By {found.by.title}", about(found)),
        sections,
        "Every figure is computed from the runs’ journals; rank.json has them unrounded. "
        "How to read it: docs/ranking.md.",
        kind="list",
        links=links,
        skip="To the list",
        remarks="".join(note("clear", title, f"<p>{text(remark)}</p>", "") for title, remark in remarks(found)),
    )


def _listing(found: Leaderboard, listing: BenchmarkRuns, index: int) -> str:
    places = f"<details><summary>Places by every figure</summary>{table(tables.every_place(listing, index))}</details>"
    return section(
        f"list-{index}",
        listing.title,
        [
            f'<div class="{listing.benchmark.standing}">',
            *_differs(listing),
            table(tables.order(listing, found.by, index)),
            places if len(listing.rows) > 1 else "",
            '<details class="screen"><summary>Rules, warnings and origin of each run</summary>',
            *map(_details, listing.rows),
            "</details>",
            "</div>",
        ],
    )


def _differs(listing: BenchmarkRuns) -> Iterator[str]:
    if listing.benchmark.is_simulated:
        remark = "Virtual clock, invented learning curves: no work was done, and no such run is ever ranked."
        yield note("simulated", "Simulated runs", f"<p>{remark}</p>", "")
    if listing.differs:
        yield f"<p>{text(differences(listing))}</p>"


def _details(row: ListedRow) -> str:
    entry = row.entry
    parts = [table(tables.details(row))]
    if entry.rules_not_met:
        rules = "".join(f"<li>{text(rule)}</li>" for rule in entry.rules_not_met)
        heading = f"<p>{text(entry.rules_heading)}</p>" if entry.rules_heading else ""
        parts.append(note("simulated" if entry.is_simulated else "outside", "Rules not met", heading, rules))
    if entry.warnings:
        criticals = any(each.severity == "critical" for each in entry.warnings)
        parts.append(note("critical" if criticals else "warned", "Warnings", "", listed(entry.warnings)))
    return f'<div class="entry" id="{tables.details_of(row)}">{"".join(parts)}</div>'


Value = str | int | float | None
VERSION = 4
"""Version of rank.json. It increases if a name is removed or changes its meaning."""
FORMER = {
    "flops_per_second": "score",
    "regulated_flops_per_second": "regulated",
    "valid_flops": "valid-flops",
    **{name: name for name in ("error", "mfu", "availability")},
}
"""Former names of figures in rank.json, kept beside `figures` for one release."""


def write(found: Leaderboard, folder: Path) -> tuple[Path, ...]:
    """Write rank.html, rank.csv and rank.json to a folder, and replace earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, form in (("html", page), ("csv", csv_text), ("json", json_text)):
        paths.append(folder / f"rank.{suffix}")
        replace_file(paths[-1], form(found).encode())
    return tuple(paths)


def csv_text(found: Leaderboard) -> str:
    """Return the content of rank.csv: one row for each entry and each unreadable journal, after a row of names."""
    rows = [_csv_row(listing, row) for listing in found.listings for row in listing.rows]
    rows += [{"folder": each.folder, "no place because": each.reason} for each in found.unread]
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, fieldnames=list(rows[0]))
    writer.writeheader()
    for fields in rows:
        writer.writerow({name: cell(value) if isinstance(value, str) else value for name, value in fields.items()})
    return file.getvalue()


def _csv_row(listing: BenchmarkRuns, row: ListedRow) -> dict[str, Value]:
    entry, power = row.entry, row.entry.power
    low, high = entry.flops_per_second_interval or (None, None)
    figures = map(by_name, RANKED)
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
        **{f"{each.name}{f' [{each.unit}]' if each.unit else ''}": entry.figures[each.name] for each in figures},
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
    """Return the content of rank.json: metrics, lists of entries, announcements by log, and unreadable journals."""
    metrics = [
        {"name": each.name, "unit": each.unit, "less_is_better": each.better == "less", "meaning": each.meaning}
        for each in map(by_name, RANKED)
    ]
    lists = msgspec.to_builtins(found.listings)
    for entry in (entry for listing in lists for row in listing["rows"] for entry in (row["entry"], *row["runs"])):
        entry |= {former: entry["figures"][name] for former, name in FORMER.items()}
    document = {
        "format": "aiperf-list",
        "version": VERSION,
        "by": found.by.name,
        "metrics": metrics,
        "lists": lists,
        "sites": found.sites,
        "unread": found.unread,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


MOST_ROWS = 100
"""Rows of one benchmark. The files contain all rows."""
_SHOWN = ("place", "run", "runs", "score", "regulated score", "error", "lost", "accelerators", "validity")
_WITH_SMALLER_LINE = ("place", "lost")
_WIDEST = {"run": 36, "validity": 44}


def lines(found: Leaderboard) -> Iterator[str]:
    """Yield the list as lines of text for a terminal: at most 100 rows per benchmark, then notes on journals and announcements.

    The notes are about journals with an incomplete last line, logs of announcements, and unreadable journals.
    """
    yield f"by {found.by.title}: {about(found)}"
    for index, listing in enumerate(found.listings, 1):
        yield ""
        yield from _printed_listing(found, listing, index)
    yield from (sanitize(f"warning: {each}") for each in torn(found))
    if found.sites:
        yield ""
    for site in tables.sites(found).rows:
        log, published, missing, broken, twice = (sanitize(cell.text) for cell in site)
        yield f"{log}: {published}; missing: {missing}; not as announced: {broken}; run more often: {twice}"
    if found.unread:
        yield "\nnot in the list:"
        yield from (sanitize(f"  {each.folder}: {each.reason}") for each in found.unread)


def _printed_listing(found: Leaderboard, listing: BenchmarkRuns, index: int) -> Iterator[str]:
    shown = tables.order(listing, found.by, index)
    yield sanitize(f"{listing.title}: {shown.caption}")
    if listing.differs:
        yield sanitize(f"  {differences(listing)}")
    names = [column.name for column in shown.columns]
    exponents = [column.name for column in tables.EXPONENT_COLUMNS]
    wanted = [*_SHOWN, *exponents, *([found.by.title] if found.by.title not in _SHOWN else [])]
    columns = sorted(names.index(name) for name in wanted if name in names)
    table = [[names[column] for column in columns]]
    table += [
        [cut(_printed_text(row[column], names[column]), _WIDEST.get(names[column])) for column in columns]
        for row in shown.rows[:MOST_ROWS]
    ]
    yield from aligned(table, [shown.columns[column].is_number for column in columns])
    if len(shown.rows) > MOST_ROWS:
        yield f"  and {len(shown.rows) - MOST_ROWS} more, in the files of --out"
    if basis := tables.basis(listing, found.by):
        yield sanitize(f"  {basis}")


def _printed_text(cell: Cell, column: str) -> str:
    return f"{cell.text} ({cell.second_line})" if cell.second_line and column in _WITH_SMALLER_LINE else cell.text
