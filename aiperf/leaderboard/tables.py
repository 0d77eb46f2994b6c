"""A list's tables as values, which page, Markdown and terminal show each in its way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from aiperf import units
from aiperf.leaderboard.entry import Entry
from aiperf.leaderboard.leaderboard import Change, Leaderboard, Listing, Row
from aiperf.leaderboard.metric import METRICS, Metric
from aiperf.report.tables import Cell, Column, Table
from aiperf.submission.published import Missing

NONE = "—"
"""A place that there is not, a figure that was not measured or does not apply."""
_SCORE, _REGULATED, _ERROR, _VALID, _MFU, _PER_WATT, _AVAILABILITY = METRICS


def details_of(row: Row) -> str:
    """The name by which a row leads to what else there is of its entry."""
    return f"entry-{row.number}"


def name(entry: Entry) -> str:
    """What an entry is called: its system, where that is known, else the run."""
    return entry.system or entry.run


def order(listing: Listing, by: Metric, index: int) -> Table:
    """The order itself, without the columns that are empty of all its runs: the footnote names them."""
    columns = (
        Column("place", True, "under it the places that the data allow", is_less_first=True, sorted="ascending"),
        Column("run"),
        Column("validity", explained="under it the warnings beside its figures"),
        Column("score", True, f"{_SCORE.explained}; under it its 95 % interval, by how evenly the run went"),
        *(_head(metric) for metric in (_REGULATED, _ERROR, _VALID, _MFU)),
        Column("accelerators", True, "of each model as many as worked at once; on machines without, processes"),
        Column("power", True, "mean in the valid window; under it what was measured"),
        _head(_PER_WATT),
        Column("length", True, "from the run’s beginning to its end"),
        _head(_AVAILABILITY),
        Column("announced", True, "of the runs that its site announced, so many were published"),
    )
    rows = tuple(_row(row) for row in listing.rows)
    kept = [at for at, column in enumerate(columns) if at < 2 or any(row[at].text != NONE for row in rows)]
    runs = f"{units.count(len(rows))} {'run' if len(rows) == 1 else 'runs'}"
    return Table(
        f"order-{index}",
        f"{runs} by {by.title}",
        tuple(columns[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in rows),
        is_sortable=len(rows) > 1,
        heads_rows=1,
        footnote=_footnote(listing, [column.name for at, column in enumerate(columns) if at not in kept]),
    )


def _head(metric: Metric) -> Column:
    return Column(metric.title, True, metric.explained, is_less_first=metric.is_less_better)


def _row(row: Row) -> tuple[Cell, ...]:
    entry = row.entry
    beside = ", ".join(filter(None, (entry.site, entry.run if entry.system else None)))
    return (
        Cell(NONE) if row.place is None else Cell(str(row.place), row.place, beside=tied(row)),
        Cell(name(entry), beside=beside, link=details_of(row), kind="name"),
        Cell(validity(row), beside=warnings(entry), link=details_of(row), kind=_kind(row)),
        _figure(_SCORE, entry, _interval(entry)),
        *(_figure(metric, entry) for metric in (_REGULATED, _ERROR, _VALID, _MFU)),
        Cell(units.count(entry.accelerator_count), entry.accelerator_count, beside=_models_beside(entry)),
        _power(entry),
        _figure(_PER_WATT, entry, power_level(entry) if entry.power else ""),
        Cell(units.duration(entry.seconds), entry.seconds),
        _figure(_AVAILABILITY, entry),
        Cell(announced(entry), None if entry.announced is None else entry.announced.published),
    )


def _power(entry: Entry) -> Cell:
    power = entry.power
    return Cell(NONE) if power is None else Cell(units.si(power.watts, "W"), power.watts, beside=power.scope)


def _interval(entry: Entry) -> str:
    """`± 1.2 %`, of the score."""
    if entry.flops_per_second_interval is None or not entry.flops_per_second:
        return ""
    low, high = entry.flops_per_second_interval
    return f"± {units.share((high - low) / 2 / entry.flops_per_second)}"


def _figure(metric: Metric, entry: Entry, beside: str = "") -> Cell:
    value = metric.of(entry)
    return Cell(NONE) if value is None else Cell(metric.shown(value), value, beside=beside)


def tied(row: Row) -> str:
    """Which places the data allow, where they allow more than one."""
    if row.tied is None or row.tied[0] == row.tied[1]:
        return ""
    return f"{row.tied[0]} to {row.tied[1]}"


def _models_beside(entry: Entry) -> str:
    return entry.accelerators[0].model if len(entry.accelerators) == 1 else models(entry)


def models(entry: Entry) -> str:
    """`NVIDIA A100 × 64, NVIDIA H100 × 8`."""
    return ", ".join(f"{each.model} × {units.count(each.count)}" for each in entry.accelerators)


def power_level(entry: Entry) -> str:
    """`Level 1`, or that it is below."""
    if entry.power is None:
        return units.NOT_MEASURED
    return f"Level {entry.power.level}" if entry.power.level else "below Level 1"


def announced(entry: Entry) -> str:
    """`3 of 4`; a dash where no log was given that its journal's announcement stands in."""
    if entry.announced is None:
        return NONE
    return f"{units.count(entry.announced.published)} of {units.count(entry.announced.announced)}"


def validity(row: Row) -> str:
    """`valid`, or what keeps the run out of the divisions or out of the order."""
    entry = row.entry
    if row.place is None:
        return row.why_not
    if entry.benchmark.division is not None:
        return "valid"
    if entry.is_simulated:
        return "simulated"
    return f"{units.count(len(entry.breaches))} {'rule' if len(entry.breaches) == 1 else 'rules'} not met"


def _kind(row: Row) -> str:
    if row.place is None:
        return "critical"
    return {"division": "clear", "outside": "outside", "simulated": "simulated"}[row.entry.benchmark.standing]


def warnings(entry: Entry) -> str:
    """`3 warnings, 1 critical`; '' for none."""
    if not entry.warnings:
        return ""
    criticals = sum(each.severity == "critical" for each in entry.warnings)
    told = f"{len(entry.warnings)} warning{'' if len(entry.warnings) == 1 else 's'}"
    return f"{told}, {criticals} critical" if criticals else told


def _footnote(listing: Listing, left_out: Sequence[str]) -> str:
    without = sum(row.place is None for row in listing.rows)
    parts = ["A dash: not measured, not known, or a figure that does not apply."]
    if left_out:
        parts.append(f"So of all runs here, and left out: {', '.join(left_out)}.")
    if without:
        parts.append(f"{units.count(without)} without a place; the column of validity says why.")
    return " ".join(parts)


def changes(listing: Listing, by: Metric, index: int) -> Table:
    """What would be otherwise by another metric."""
    columns = (
        Column("ranked by"),
        Column("runs", True, f"that both it and the {by.title} are known of"),
        Column("Kendall’s τ", True, "agreement of the two orders: 1 the same, 0 none, −1 the reverse"),
        Column("would move", True),
        Column("first would be"),
        Column("furthest up"),
        Column("furthest down"),
    )
    names = {row.number: row for row in listing.rows}
    rows = tuple(_change(change, names) for change in listing.changes)
    return Table(
        f"changes-{index}",
        f"What changes if ranked by another figure than the {by.title}",
        columns,
        rows,
        footnote="Among the runs that have both figures. Ties share a place; τ is Kendall’s τ-b, which allows for them.",
    )


def _change(change: Change, rows: dict[int, Row]) -> tuple[Cell, ...]:
    other = next(metric for metric in METRICS if metric.name == change.metric)
    if change.correlation is None:
        nothing = (
            "one run: nothing to compare"
            if change.entries == 1
            else "nothing: one of the two figures is the same of all"
        )
        nothing = nothing if change.entries else f"{other.missing}: no run has it"
        return (Cell(other.title), Cell(str(change.entries)), *(Cell(NONE),) * 2, Cell(nothing), *(Cell(""),) * 2)
    first = ", ".join(_called(rows[number]) for number in change.first[:3])
    if len(change.first) > 3:
        first += f" and {len(change.first) - 3} more"
    return (
        Cell(other.title),
        Cell(units.count(change.entries)),
        Cell(f"{change.correlation:.2f}".replace("-", "−")),
        Cell(units.count(change.moved)),
        Cell(first, kind="name"),
        *(
            Cell("nobody") if far is None else Cell(f"{_called(rows[far[0]])}, by {units.count(far[1])}", kind="name")
            for far in (change.rise, change.fall)
        ),
    )


def _called(row: Row) -> str:
    shown = name(row.entry)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def every_place(listing: Listing, index: int) -> Table:
    """The place of every entry by every metric."""
    columns = (
        Column("run"),
        *(Column(metric.title, True, metric.explained, is_less_first=True) for metric in METRICS),
    )
    rows = tuple(
        (
            Cell(name(row.entry), link=details_of(row), kind="name"),
            *(Cell(NONE) if place is None else Cell(str(place), place) for place in row.by_metric),
        )
        for row in listing.rows
    )
    return Table(f"places-{index}", "Places by every figure", columns, rows, is_sortable=True)


def _power_in_words(entry: Entry) -> str:
    if entry.power is None:
        return units.NOT_MEASURED
    return f"{units.si(entry.power.watts, 'W')}, of the {entry.power.scope}, EEHPC {power_level(entry)}"


def details(row: Row) -> Table:
    """What else is known of an entry."""
    entry = row.entry
    began = "at no time: a virtual clock"
    if entry.started_unix is not None:
        began = datetime.fromtimestamp(entry.started_unix, UTC).strftime("%-d %B %Y, %H:%M UTC")
    between = entry.flops_per_second_interval
    rows = (
        ("run", entry.run),
        ("system", entry.system or "not known"),
        ("site", entry.site or "not known"),
        ("journal in", "; ".join((entry.folder, *row.copies))),
        ("place", str(row.place) if row.place is not None else f"none: {row.why_not}"),
        ("began", began),
        ("valid window", units.duration(entry.window_seconds)),
        ("95 % of the score", "none" if between is None else units.interval(*between, "FLOPS")),
        ("accelerators", models(entry) or "none"),
        ("MFU held against", entry.peak_source or "no peak is known"),
        ("power", _power_in_words(entry)),
        ("announced runs", announced(entry)),
        ("seed", str(entry.seed)),
        ("configuration", entry.config_hash),
        ("aiperf", entry.release or "not reported"),
        ("rules of proposing", str(entry.proposal_rules)),
    )
    columns = (Column("what"), Column("value"))
    return Table(
        f"{details_of(row)}-table", name(entry), columns, tuple((Cell(what), Cell(value)) for what, value in rows)
    )


def sites(found: Leaderboard) -> Table:
    """What sites announced, and what of it is missing."""
    columns = (
        Column("log"),
        Column("published"),
        Column("missing"),
        Column("not as announced"),
        Column("announced once, run more often"),
    )
    rows = tuple(
        (
            Cell(site.log),
            Cell(site.announced.words),
            Cell("; ".join(map(_missing, site.announced.missing)) or "none"),
            Cell("; ".join(f"{run}: {', '.join(how)}" for run, how in site.announced.broken) or "none"),
            Cell("; ".join(", ".join(runs) for _, runs in site.announced.used_twice) or "none"),
        )
        for site in found.sites
    )
    return Table("sites", "Announced runs", columns, rows)


def _missing(one: Missing) -> str:
    when = datetime.fromtimestamp(one.announced_unix, UTC).strftime("%-d %B %Y")
    told = f"number {one.number}, announced on {when}"
    return told if one.withdrawn is None else f"{told}, withdrawn: {one.withdrawn}"


def unread(found: Leaderboard) -> Table:
    """What gave no entry."""
    columns = (Column("folder"), Column("why it is in no order"))
    rows = tuple((Cell(each.folder), Cell(each.reason)) for each in found.unread)
    return Table("unread", "Not in the list", columns, rows)
