"""Output of a list of runs: HTML, CSV and JSON files, and lines for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aiperf.atomic_files import replace_file
from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow
from aiperf.leaderboard.tables import MOST_ROWS, about, models, remarks, sections, torn
from aiperf.page import html
from aiperf.page.terminal import section_lines
from aiperf.report.figures import RANKED, by_name
from aiperf.sanitize import cell, sanitize


def page(ranking: Leaderboard) -> str:
    """Return the content of rank.html, a complete HTML page: orders, places, details, announcements and unreadable journals."""
    return html.page(
        f"AIPerf list by {ranking.by.title}",
        html.header("list of runs", f"By {ranking.by.title}", about(ranking)),
        sections(ranking),
        "Every figure is computed from the runs’ journals; rank.json has them unrounded. "
        "How to read it: docs/ranking.md.",
        kind="list",
        skip="To the list",
        remarks=remarks(ranking),
    )


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


def write(ranking: Leaderboard, folder: Path) -> tuple[Path, ...]:
    """Write rank.html, rank.csv and rank.json to a folder, and replace earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, form in (("html", page), ("csv", csv_text), ("json", json_text)):
        paths.append(folder / f"rank.{suffix}")
        replace_file(paths[-1], form(ranking).encode())
    return tuple(paths)


def csv_text(ranking: Leaderboard) -> str:
    """Return the content of rank.csv: one row for each entry and each unreadable journal, after a row of names."""
    rows = [_csv_row(listing, row) for listing in ranking.listings for row in listing.rows]
    rows += [{"folder": each.folder, "no place because": each.reason} for each in ranking.unread]
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
        "range is tested": "yes" if row.is_tested else "no",
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
        "proposals ended [share]": entry.proposals_ended_share,
        "witnessed [share]": entry.witnessed,
        "quality shown": entry.quality_shown,
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


def json_text(ranking: Leaderboard) -> str:
    """Return the content of rank.json: metrics, lists of entries, announcements by log, and unreadable journals."""
    metrics = [
        {"name": each.name, "unit": each.unit, "less_is_better": each.better == "less", "meaning": each.meaning}
        for each in map(by_name, RANKED)
    ]
    lists = msgspec.to_builtins(ranking.listings)
    for entry in (entry for listing in lists for row in listing["rows"] for entry in (row["entry"], *row["runs"])):
        entry |= {former: entry["figures"][name] for former, name in FORMER.items()}
    document = {
        "schema": "aiperf-list",
        "version": VERSION,
        "by": ranking.by.name,
        "metrics": metrics,
        "lists": lists,
        "sites": ranking.sites,
        "unread": ranking.unread,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def lines(ranking: Leaderboard, width: int = 0) -> Iterator[str]:
    """Yield the list as lines of text for a terminal: at most 100 rows per benchmark, announcements, unreadable journals."""
    yield f"by {ranking.by.title}: {about(ranking)}"
    for each in sections(ranking, MOST_ROWS):
        yield ""
        yield from section_lines(each, width)
    yield from (sanitize(f"warning: {each}") for each in torn(ranking))
