"""Tables and texts of a list of runs, as values. The page, Markdown and the terminal render them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from aiperf import units
from aiperf.accounting.valid_flops import exchange_exponent
from aiperf.leaderboard.entry import Entry
from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow
from aiperf.page.section import Cell, Column, Table
from aiperf.report.facts import Report
from aiperf.report.figures import RANKED, Figure, by_name
from aiperf.statistics.between_runs import ENOUGH, prior_of
from aiperf.submission.announced_run import Missing
from aiperf.units import count

NONE = "—"
"""Cell without a value: no place, or a figure that was not measured or does not apply."""
_SCORE, _REGULATED, _ERROR, _VALID, _MFU, _PER_WATT, _AVAILABILITY = map(by_name, RANKED)

EXPONENT_COLUMNS = (
    Column("n = 5", True, "valid FLOPS with exponent 5"),
    Column("n = 10", True, "valid FLOPS with exponent 10"),
    Column("equal at n", True, "exponent at which this entry and the one above change places: ln(F₁/F₂) ÷ ln(q₂/q₁)"),
)
"""Columns of an order by valid FLOPS only."""


def details_of(row: ListedRow) -> str:
    """Return the name of the HTML anchor at the details of a row: `entry-NUMBER`. The number is that of the row, from 1."""
    return f"entry-{row.number}"


def name(entry: Entry) -> str:
    """Return the displayed name of an entry: the name of the system if the site gives one, otherwise that of the run."""
    return entry.system or entry.run


def order(listing: BenchmarkRuns, by: Figure[Report], index: int) -> Table:
    columns = (
        Column("place", True, "below it: the places that the data allow", is_less_first=True, sorted="ascending"),
        Column("run"),
        Column("validity", explained="below it: warnings"),
        Column("runs", True, "runs of this system; each figure is their median"),
        Column(
            "score",
            True,
            f"{_SCORE.meaning}; below it the 95 % interval over the runs. For one run: of its steadiness",
        ),
        *(_head(metric) for metric in (_REGULATED, _ERROR, _VALID, _MFU)),
        Column("accelerators", True, "largest number at once; on machines without accelerators: processes"),
        Column("power", True, "mean in the valid window; below it the measured part"),
        _head(_PER_WATT),
        Column("length", True, "length of the run"),
        _head(_AVAILABILITY),
        Column(
            "lost",
            True,
            "share of attempts lost; below it the share of trials given up. At most 5 % each in a division",
        ),
        Column("announced", True, "published runs, of those that the site announced"),
    )
    rows = tuple(_row(row) for row in listing.rows)
    if by is _VALID:
        columns += EXPONENT_COLUMNS
        above = (None, *listing.rows[:-1])
        rows = tuple(
            (*cells, *_exponents(upper, row)) for cells, upper, row in zip(rows, above, listing.rows, strict=True)
        )
    kept = [at for at, column in enumerate(columns) if at < 2 or any(row[at].text != NONE for row in rows)]
    entries = f"{units.count(len(rows))} {'entry' if len(rows) == 1 else 'entries'}"
    return Table(
        f"order-{index}",
        f"{entries} by {by.title}",
        tuple(columns[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in rows),
        is_sortable=len(rows) > 1,
        heads_rows=1,
        footnote=_footnote(listing, by, [column.name for at, column in enumerate(columns) if at not in kept]),
    )


def _exponents(above: ListedRow | None, row: ListedRow) -> tuple[Cell, ...]:
    at = None
    pairs = [(one.entry.valid_flops_5, one.entry.valid_flops_10) for one in (above, row) if one and one.place]
    if len(pairs) == 2:
        (first_5, first_10), (second_5, second_10) = pairs
        if first_5 is not None and first_10 is not None and second_5 is not None and second_10 is not None:
            at = exchange_exponent((first_5, first_10), (second_5, second_10))
    values = (row.entry.valid_flops_5, row.entry.valid_flops_10)
    return (
        *(Cell(NONE) if value is None else Cell(_VALID.shown(value), value) for value in values),
        Cell(NONE) if at is None else Cell(f"{at:.2f}".replace("-", "−"), at),
    )


def _head(figure: Figure[Report]) -> Column:
    return Column(figure.title, True, figure.meaning, is_less_first=figure.better == "less")


def _row(row: ListedRow) -> tuple[Cell, ...]:
    entry = row.entry
    second_line = ", ".join(filter(None, (entry.site, entry.run if entry.system else None)))
    return (
        Cell(NONE) if row.place is None else Cell(str(row.place), row.place, second_line=tied(row)),
        Cell(name(entry), second_line=second_line, link=details_of(row), kind="name"),
        Cell(validity(row), second_line=warnings(entry), link=details_of(row), kind=_kind(row)),
        Cell(
            units.count(len(row.runs)),
            len(row.runs),
            second_line=f"{units.count(row.missing)} missing" if row.missing else "",
        ),
        _figure(_SCORE, entry, _interval(entry)),
        *(_figure(metric, entry) for metric in (_REGULATED, _ERROR, _VALID, _MFU)),
        Cell(units.count(entry.accelerator_count), entry.accelerator_count, second_line=_models_line(entry)),
        _power(entry),
        _figure(_PER_WATT, entry, power_level(entry) if entry.power else ""),
        Cell(units.duration(entry.seconds), entry.seconds),
        _figure(_AVAILABILITY, entry),
        Cell(
            units.share(entry.attempts_lost_share),
            entry.attempts_lost_share,
            second_line=units.share(entry.trials_given_up_share),
        ),
        Cell(announced(entry), None if entry.announced is None else entry.announced.published),
    )


def _power(entry: Entry) -> Cell:
    power = entry.power
    return Cell(NONE) if power is None else Cell(units.watts(power.watts), power.watts, second_line=power.scope)


def _interval(entry: Entry) -> str:
    """Return half the interval as a share of the score, such as `± 1.2 %`."""
    if entry.flops_per_second_interval is None or not entry.score:
        return ""
    low, high = entry.flops_per_second_interval
    return f"± {units.share((high - low) / 2 / entry.score)}"


def _figure(figure: Figure[Report], entry: Entry, second_line: str = "") -> Cell:
    value = entry.figures[figure.name]
    return Cell(NONE) if value is None else Cell(figure.shown(value), value, second_line=second_line)


def tied(row: ListedRow) -> str:
    """Return the range of places that the 95 % intervals allow, such as `2 to 4`. '' if it is unknown or only one place."""
    if row.tied is None or row.tied[0] == row.tied[1]:
        return ""
    return f"{row.tied[0]} to {row.tied[1]}"


def _models_line(entry: Entry) -> str:
    return entry.accelerators[0].model if len(entry.accelerators) == 1 else models(entry)


def models(entry: Entry) -> str:
    """Return number and model of the accelerators of an entry as text: `NVIDIA A100 × 64, NVIDIA H100 × 8`."""
    return ", ".join(f"{each.model} × {units.count(each.count)}" for each in entry.accelerators)


def power_level(entry: Entry) -> str:
    """Return the EEHPC level (Green500 methodology) of the power measurement as text."""
    if entry.power is None:
        return units.NOT_MEASURED
    return f"Level {entry.power.level}" if entry.power.level else "below Level 1"


def announced(entry: Entry) -> str:
    """Return how many of the site's announced runs are published, as text: `3 of 4`."""
    if entry.announced is None:
        return NONE
    return f"{units.count(entry.announced.published)} of {units.count(entry.announced.announced)}"


def validity(row: ListedRow) -> str:
    """Return text on the validity of a row: `valid` (keeps all rules of a division), `simulated`, or `2 rules not met`."""
    entry = row.entry
    if row.place is None:
        return row.why_not
    if entry.benchmark.division is not None:
        return "valid"
    if entry.is_simulated:
        return "simulated"
    return f"{units.count(len(entry.breaches))} {'rule' if len(entry.breaches) == 1 else 'rules'} not met"


def _kind(row: ListedRow) -> str:
    if row.place is None:
        return "critical"
    return {"division": "clear", "outside": "outside", "simulated": "simulated"}[row.entry.benchmark.standing]


def warnings(entry: Entry) -> str:
    """Return the number of an entry's warnings as text, such as `3 warnings, 1 critical`. '' without warnings."""
    if not entry.warnings:
        return ""
    criticals = sum(each.severity == "critical" for each in entry.warnings)
    total = f"{len(entry.warnings)} warning{'' if len(entry.warnings) == 1 else 's'}"
    return f"{total}, {criticals} critical" if criticals else total


def _footnote(listing: BenchmarkRuns, by: Figure[Report], left_out: Sequence[str]) -> str:
    without = sum(row.place is None for row in listing.rows)
    parts = ["A dash: not measured, not known, or a figure that does not apply."]
    if left_out:
        parts.append(f"Columns left out because all runs have a dash: {', '.join(left_out)}.")
    if without:
        parts.append(f"{units.count(without)} without a place; the column validity has the reason.")
    parts.append(basis(listing, by))
    return " ".join(filter(None, parts))


def basis(listing: BenchmarkRuns, by: Figure[Report]) -> str:
    """Return a sentence about the source of the ranges of places (the places that the 95 % intervals allow)."""
    placed = [row for row in listing.rows if row.place is not None]
    if len(placed) < 2:
        return ""
    if by is not _SCORE:
        return f"The {by.title} has no known uncertainty, so its differences are not tested."
    few = [run.window_seconds for row in placed if len(row.runs) < ENOUGH for run in row.runs]
    return f"Ranges of places rest on an {prior_of(min(few)).text}." if few else ""


def every_place(listing: BenchmarkRuns, index: int) -> Table:
    """Return the table with the place of each entry by each metric."""
    columns = (
        Column("run"),
        *(Column(each.title, True, each.meaning, is_less_first=True) for each in map(by_name, RANKED)),
    )
    rows = tuple(
        (
            Cell(name(row.entry), link=details_of(row), kind="name"),
            *(Cell(NONE) if place is None else Cell(str(place), place) for place in row.places.values()),
        )
        for row in listing.rows
    )
    return Table(f"places-{index}", "Places by every figure", columns, rows, is_sortable=True)


def details(row: ListedRow) -> Table:
    """Return a table of a row's properties that the order does not show: runs, start, interval, seed, release and others."""
    entry = row.entry
    began = "never: virtual clock"
    if entry.started_unix is not None:
        began = datetime.fromtimestamp(entry.started_unix, UTC).strftime("%-d %B %Y, %H:%M UTC")
    between = entry.flops_per_second_interval
    rows = (
        ("run", entry.run),
        ("site", entry.site or "not known"),
        ("journal in", "; ".join((entry.folder, *row.copies))),
        ("began", began),
        ("valid window", units.duration(entry.window_seconds)),
        ("runs", _runs(row)),
        ("95 % interval of the score", "none" if between is None else units.interval(*between, "FLOPS")),
        ("peak of the MFU", entry.peak_source or "no peak is known"),
        ("seed", str(entry.seed)),
        ("configuration", entry.config_hash),
        ("aiperf", entry.release or "not reported"),
        ("proposal rules", str(entry.proposal_rules)),
    )
    columns = (Column("property"), Column("value"))
    return Table(
        f"{details_of(row)}-table", name(entry), columns, tuple((Cell(what), Cell(value)) for what, value in rows)
    )


def _runs(row: ListedRow) -> str:
    """Return the runs of an entry, such as `2: a (1.0 TFLOPS), b (…); announced runs without a valid result: 1`."""
    named = (
        f"{run.run} ({'no score' if (score := run.score) is None else units.flops_per_second(score)})"
        for run in row.runs
    )
    runs = f"{len(row.runs)}: {', '.join(named)}"
    return f"{runs}; announced runs without a valid result: {row.missing}" if row.missing else runs


def sites(found: Leaderboard) -> Table:
    """Return the table of announced runs, one row for each log: published, missing, not as announced, started several times."""
    columns = (
        Column("log"),
        Column("published"),
        Column("missing"),
        Column("not as announced"),
        Column("announced once, started several times"),
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
    text = f"number {one.number}, announced on {when}"
    return text if one.withdrawn is None else f"{text}, withdrawn: {one.withdrawn}"


def unread(found: Leaderboard) -> Table:
    """Return the table of journals that could not be read: folder and reason."""
    columns = (Column("folder"), Column("reason"))
    rows = tuple((Cell(each.folder), Cell(each.reason)) for each in found.unread)
    return Table("unread", "Not in the list", columns, rows)


def about(found: Leaderboard) -> str:
    """Return a summary of the list, such as `30 runs of 2 benchmarks; 1 not in the list, with the reason at the end`."""
    runs, benchmarks = found.runs, len(found.listings)
    text = (
        f"{count(runs)} run{'' if runs == 1 else 's'} of {count(benchmarks)} benchmark{'' if benchmarks == 1 else 's'}"
    )
    left_out = len(found.unread)
    return f"{text}; {count(left_out)} not in the list, with the reason at the end" if left_out else text


def torn(found: Leaderboard) -> tuple[str, ...]:
    """Return a text for each run with an incomplete last journal line (after a crash), which was dropped."""
    entries = [row.entry for listing in found.listings for row in listing.rows]
    return tuple(f"{entry.run}: {entry.torn.text}" for entry in entries if entry.torn is not None)


def remarks(found: Leaderboard) -> tuple[tuple[str, str], ...]:
    """Return notes that explain a list to its reader, as (title, text)."""
    return (
        *(("Dropped last line", f"{each}.") for each in torn(found)),
        (
            "One order for each benchmark",
            "Runs with another data set, start, schedule or option belong to another benchmark, with a table of its own. "
            "Valid runs of a division belong to one benchmark if their lengths and image files are the same.",
        ),
        (
            "One entry for each system",
            "Runs of one system are one entry: the median over all its runs. In the ranking, an announced run without a valid "
            "result counts as the lowest.",
        ),
        (
            "Valid FLOPS",
            "HPC AI500’s metric: FLOPS × (quality ÷ target)^n, for runs of one fixed network to a target quality "
            "(benchmark=hpc_ai500_ic). A search of networks has no target, so it has no valid FLOPS.",
        ),
    )


def differences(listing: BenchmarkRuns) -> str:
    """Return a sentence on the options by which a benchmark differs from others with the same title."""
    options = ", ".join(f"{name}={value}" for name, value in listing.differs)
    return f"Differs from other benchmarks of this title in {options}."
