"""CSV file of a list: one line per run, numbers without units, and units in the header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow
from aiperf.leaderboard.metric import METRICS
from aiperf.leaderboard.tables import models
from aiperf.sanitize import cell

Value = str | int | float | None


def csv_text(found: Leaderboard) -> str:
    """Return the CSV text. A missing value is an empty cell."""
    file = io.StringIO(newline="")
    writer: csv.DictWriter[str] | None = None
    for fields in _rows(found):
        if writer is None:
            writer = csv.DictWriter(file, fieldnames=list(fields))
            writer.writeheader()
        writer.writerow({name: cell(value) if isinstance(value, str) else value for name, value in fields.items()})
    return file.getvalue()


def _rows(found: Leaderboard) -> Iterator[dict[str, Value]]:
    for listing in found.listings:
        yield from (_fields(listing, row) for row in listing.rows)
    for each in found.unread:
        blank: dict[str, Value] = dict.fromkeys(_fields_of_any(found))
        yield blank | {"folder": each.folder, "no place because": each.reason}


def _fields_of_any(found: Leaderboard) -> dict[str, Value]:
    listing = next(listing for listing in found.listings)
    return _fields(listing, listing.rows[0])


def _fields(listing: BenchmarkRuns, row: ListedRow) -> dict[str, Value]:
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
