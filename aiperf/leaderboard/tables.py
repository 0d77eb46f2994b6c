"""Tables and texts of a list of runs, as values. The page, Markdown and the terminal render them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from aiperf import units
from aiperf.accounting.valid_flops import exchange_exponent
from aiperf.leaderboard.entry import Entry
from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow
from aiperf.page import section
from aiperf.page.section import measured, numbers, rows, table, texts, warned
from aiperf.report.facts import Report
from aiperf.report.figures import RANKED, Figure, by_name, half_width
from aiperf.sanitize import identity
from aiperf.statistics.difference import ENOUGH_FREEDOM, PlaceRange
from aiperf.submission.announced_run import Announced, Missing

NONE = "—"
"""Cell without a value: no place, or a figure that was not measured or does not apply."""
_SCORE, _REGULATED, _ERROR, _VALID, _MFU, _PER_WATT, _AVAILABILITY = map(by_name, RANKED)

EXPONENT_COLUMNS = (
    section.Column("n = 5", True, "valid FLOPS with exponent 5"),
    section.Column("n = 10", True, "valid FLOPS with exponent 10"),
    section.Column(
        "equal at n", True, "exponent at which this entry and the one above change places: ln(F₁/F₂) ÷ ln(q₂/q₁)"
    ),
)
"""Columns of an order by valid FLOPS only."""
MOST_ROWS = 100
"""Rows of one benchmark on a terminal. The files contain all rows."""


def sections(ranking: Leaderboard, most_rows: int | None = None) -> tuple[section.Section, ...]:
    """Return one section for each benchmark, one for the announced runs, and one for the journals without an entry."""
    parts = [_listing(ranking, listing, number, most_rows) for number, listing in enumerate(ranking.listings, 1)]
    if ranking.sites:
        parts.append(section.Section("announced", "Announced runs", (_sites(ranking),)))
    if ranking.unread:
        unread = [(each.folder, each.reason) for each in ranking.unread]
        table = rows("unread", units.counted(len(unread), "folder"), ("folder", "reason"), unread)
        parts.append(section.Section("not-listed", "Not in the list", (table,)))
    return tuple(parts)


def _listing(ranking: Leaderboard, listing: BenchmarkRuns, number: int, most_rows: int | None) -> section.Section:
    virtual = "Virtual clock, invented learning curves: no work was done, and no such run is ever ranked."
    parts = (
        section.Note("simulated", "Simulated runs", (section.Paragraph(virtual),))
        if listing.benchmark.is_simulated
        else None,
        section.Paragraph(_differences(listing)) if listing.differs else None,
        order(listing, ranking.by, number, most_rows),
        section.Collapsed("Places by every figure", (_every_place(listing, number),))
        if len(listing.rows) > 1
        else None,
        section.Collapsed(
            "Rules, warnings and origin of each run",
            tuple(_details(row, listing) for row in listing.rows),
            is_printed=False,
        ),
    )
    link = f"{listing.title} ({len(listing.rows)})"
    return section.Section(f"list-{number}", listing.title, (section.Group(parts, listing.benchmark.standing),), link)


def details_of(row: ListedRow) -> str:
    """Return the name of the HTML anchor at the details of a row: `entry-NUMBER`. The number is that of the row, from 1."""
    return f"entry-{row.number}"


def name(row: ListedRow) -> str:
    """Return the system of a row if the site gives one, otherwise its run, or `median of 2 runs: a, b`."""
    return row.entry.system or _run_or_median(row, f": {', '.join(run.run for run in row.runs)}")


def _run_or_median(row: ListedRow, more: str = "") -> str:
    runs = len(row.runs) + row.missing
    return row.entry.run if runs < 2 else f"median of {units.counted(runs, 'run')}{more}"


def order(listing: BenchmarkRuns, by: Figure[Report], number: int, most_rows: int | None = None) -> section.Table:
    shown, entries = listing.rows[:most_rows], [row.entry for row in listing.rows[:most_rows]]
    of_systems = f"{_SCORE.meaning}; below it the 95 % interval over the runs. For one run: of its steadiness"
    lost = "share of attempts lost; below it the share of trials given up. At most 5 % together in a division"
    allowed = "below it: the places that the data allow"
    is_alone = sum(row.place is not None for row in listing.rows) < 2
    ranges = ["" if is_alone else _range(row.ranges[by.name]) for row in shown]
    at_once = "largest number at once; on machines without accelerators: processes"
    power = "mean in the valid window; below it the measured part"
    place = section.Column("place", True, allowed, is_less_first=True, sorted="ascending", on_terminal="both lines")

    def of(figure: Figure[Report], meaning: str = "", second_lines: Sequence[str] | None = None) -> section.Filled:
        values = [each.figures[figure.name] for each in entries]
        where: section.OnTerminal = "" if figure in (_SCORE, _REGULATED, _ERROR, by) else "left out"
        where, is_less = "both lines" if figure is _REGULATED else where, figure.better == "less"
        meaning = meaning or figure.meaning
        return numbers(
            figure.title, values, figure.shown, meaning, second_lines, is_less_first=is_less, on_terminal=where
        )

    columns = [
        (place, tuple(measured(row.place, str, text) for row, text in zip(shown, ranges, strict=True))),
        (section.Column("run", longest=36), tuple(map(_run, shown))),
        of(_SCORE, of_systems, [half_width(each.score, each.flops_per_second_interval) for each in entries]),
        (section.Column("validity", explained="below it: warnings", longest=44), tuple(map(_validity, shown))),
        numbers("runs", [len(row.runs) for row in shown], units.count, "runs of this system; each figure is their median",
                [f"{units.count(row.missing)} missing" if row.missing else "" for row in shown]),
        of(_REGULATED, "", [half_width(each.figures["regulated"], each.regulated_flops_per_second_interval)
                            for each in entries]),
        *map(of, (_ERROR, _VALID, _MFU)),
        numbers("accelerators", [each.accelerator_count for each in entries], units.count, at_once,
                [*map(_models_line, entries)]),
        numbers("power", [each.power.watts if each.power else None for each in entries], units.watts, power,
                [each.power.scope if each.power else "" for each in entries], on_terminal="left out"),
        of(_PER_WATT, "", [power_level(each) if each.power else "" for each in entries]),
        numbers("length", [each.seconds for each in entries], units.duration, "length of the run", on_terminal="left out"),
        of(_AVAILABILITY),
        numbers("lost", [each.attempts_lost_share for each in entries], units.share, lost,
                [units.share(each.trials_given_up_share) for each in entries], on_terminal="both lines"),
        numbers("witnessed", [each.witnessed for each in entries], units.share,
                "share of the run's time in which another site signed the journal's state"),
        texts("quality shown", [each.quality_shown for each in entries], "by weights with the SHA-256 in the journal"),
        numbers("announced", [each.announced.published if each.announced else None for each in entries], units.count,
                "published runs, of those that the site announced", [*map(_announced, entries)], on_terminal="left out"),
    ]  # fmt: skip
    if by is _VALID:
        above = (None, *listing.rows[:-1])
        columns += zip(EXPONENT_COLUMNS, zip(*map(_exponents, above, shown), strict=True), strict=True)
    kept = [each for at, each in enumerate(columns) if at < 2 or any(cell.text != NONE for cell in each[1])]
    empty = [each[0].name for each in columns if each not in kept]
    every = f"{units.counted(len(listing.rows), 'entry', 'entries')} by {by.title}"
    footnote = _footnote(listing, by, empty, len(shown))
    return replace(table(f"order-{number}", every, kept, footnote, is_sortable=len(shown) > 1), heads_rows=1)


def _exponents(above: ListedRow | None, row: ListedRow) -> tuple[section.Cell, ...]:
    placed = [one.entry for one in (above, row) if one is not None and one.place is not None]
    pairs = [
        (each.valid_flops_5, each.valid_flops_10)
        for each in placed
        if each.valid_flops_5 is not None and each.valid_flops_10 is not None
    ]
    at = exchange_exponent(*pairs) if len(pairs) == 2 else None
    values = (row.entry.valid_flops_5, row.entry.valid_flops_10)
    return (
        *(measured(value, _VALID.shown) for value in values),
        measured(at, lambda exponent: f"{exponent:.2f}".replace("-", "−")),
    )


def _run(row: ListedRow) -> section.Cell:
    entry = row.entry
    second_line = ", ".join(filter(None, (entry.site, _run_or_median(row) if entry.system else None)))
    return section.Cell(name(row), second_line=second_line, link=details_of(row), kind="name")


def _validity(row: ListedRow) -> section.Cell:
    return section.Cell(validity(row), second_line=warnings(row.entry), link=details_of(row), kind=_kind(row))


def _announced(entry: Entry) -> str:
    return "" if entry.announced is None else f"of {units.count(entry.announced.announced)}"


def _range(of: PlaceRange | None) -> str:
    """Return the range of places, such as `2 to 4`, or `2 to 4, not tested` under an assumed spread."""
    if of is None:
        return ""
    allowed = [f"{best} to {worst}" for best, worst in filter(None, [of.allowed])]
    return ", ".join(allowed if of.is_tested else [*allowed, "not tested"])


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


def validity(row: ListedRow) -> str:
    """Return text on the validity of a row: `valid` (keeps all rules of a division), `simulated`, or `2 rules not met`."""
    entry = row.entry
    if row.place is None:
        return row.why_not
    if entry.benchmark.division is not None:
        return "valid"
    if entry.is_simulated:
        return "simulated"
    return f"{units.counted(len(entry.breaches), 'rule')} not met"


def _kind(row: ListedRow) -> str:
    if row.place is None:
        return "critical"
    return {"division": "clear", "outside": "outside", "simulated": "simulated"}[row.entry.benchmark.standing]


def warnings(entry: Entry) -> str:
    """Return the number of an entry's warnings as text, such as `3 warnings, 1 critical`. '' without warnings."""
    if not entry.warnings:
        return ""
    criticals = sum(each.severity == "critical" for each in entry.warnings)
    total = units.counted(len(entry.warnings), "warning")
    return f"{total}, {criticals} critical" if criticals else total


def _footnote(listing: BenchmarkRuns, by: Figure[Report], left_out: Sequence[str], shown: int) -> str:
    without = sum(row.place is None for row in listing.rows)
    parts = [f"And {len(listing.rows) - shown} more, in the files of --out."] if shown < len(listing.rows) else []
    parts += ["A dash: not measured, not known, or a figure that does not apply."]
    if left_out:
        parts.append(f"Columns left out because all runs have a dash: {', '.join(left_out)}.")
    if without:
        parts.append(f"{units.count(without)} without a place; the column validity has the reason.")
    parts.append(_basis(listing, by))
    return " ".join(filter(None, parts))


def _basis(listing: BenchmarkRuns, by: Figure[Report]) -> str:
    """Return sentences about the spread between runs on which the ranges of places rest."""
    placed = [row for row in listing.rows if row.place is not None]
    if len(placed) < 2:
        return ""
    spread = listing.spreads[by.name]
    assumed = "" if spread.assumed is None else f"assumed spread between runs of one machine: {spread.assumed.text}. "
    measured = "none"
    if spread.pooled is not None:
        use = "used" if spread.used is spread.pooled else f"used from {ENOUGH_FREEDOM} on"
        measured = f"{spread.pooled.text}, {use}"
    where = "the range rests on the assumed spread" if spread.assumed else "the entry has fewer than three runs"
    untested = "" if all(row.is_tested for row in placed) else f" Not tested: {where}."
    return f"Ranges of places: {assumed}Spread of the repeats in this list: {measured}.{untested}"


def _every_place(listing: BenchmarkRuns, number: int) -> section.Table:
    runs = [section.Cell(name(row), link=details_of(row), kind="name") for row in listing.rows]
    columns = [texts("run", runs)]
    for each in map(by_name, RANKED):
        places = [row.places[each.name] for row in listing.rows]
        ranges = [_range(row.ranges[each.name]) for row in listing.rows]
        columns.append(numbers(each.title, places, str, each.meaning, ranges, is_less_first=True))
    return table(f"places-{number}", "Places by every figure", columns, is_sortable=True)


def _details(row: ListedRow, listing: BenchmarkRuns) -> section.Group:
    """Return what the order does not show of a row: runs, start, interval, seed, release, rules, warnings and others."""
    entry = row.entry
    began = "never: virtual clock"
    if entry.started_unix is not None:
        began = datetime.fromtimestamp(entry.started_unix, UTC).strftime("%-d %B %Y, %H:%M UTC")
    between = entry.flops_per_second_interval
    properties = (
        ("run", _run_or_median(row)),
        ("site", entry.site or "not known"),
        ("journal in", "; ".join((entry.folder, *row.copies))),
        ("began", began),
        ("valid window", units.duration(entry.window_seconds)),
        ("runs", _runs(row)),
        ("95 % interval of the score", "none" if between is None else units.interval(*between, "FLOPS")),
        ("images", _images(entry, listing)),
        ("peak of the MFU", entry.peak_source or "no peak is known"),
        ("proposals ended while their worker lived", units.share(entry.proposals_ended_share)),
        ("seed", str(entry.seed)),
        ("configuration", entry.config_hash),
        ("aiperf", entry.release or "not reported"),
        ("proposal rules", str(entry.proposal_rules)),
    )
    broken = (
        section.Paragraph(entry.rules_heading) if entry.rules_heading else None,
        section.Items(entry.rules_not_met),
    )
    kind: Literal["simulated", "outside"] = "simulated" if entry.is_simulated else "outside"
    parts = (
        rows(f"{details_of(row)}-table", name(row), ("property", "value"), properties),
        section.Note(kind, "Rules not met", broken) if entry.rules_not_met else None,
        warned("Warnings", entry.warnings) if entry.warnings else None,
    )
    return section.Group(parts, "entry", details_of(row))


def _images(entry: Entry, listing: BenchmarkRuns) -> str:
    if entry.contents is None:
        return "not shown"
    runs = [run for row in listing.rows for run in row.runs if run.contents == entry.contents]
    sites = len({identity(run.site or "") for run in runs})
    sums = ", ".join(f"{name} (SHA-256 {each.get('sha256')})" for name, each in entry.archives.items())
    origin = f"from archives with the published sums: {sums}" if sums else "origin not shown"
    return f"contents {entry.contents}, reported by {units.counted(sites, 'site')}; {origin}"


def _runs(row: ListedRow) -> str:
    """Return the runs of an entry, such as `2: a (1.0 TFLOPS), b (…); announced runs without a valid result: 1`."""
    named = (
        f"{run.run} ({'no score' if (score := run.score) is None else units.flops_per_second(score)})"
        for run in row.runs
    )
    runs = f"{len(row.runs)}: {', '.join(named)}"
    return f"{runs}; announced runs without a valid result: {row.missing}" if row.missing else runs


def _sites(ranking: Leaderboard) -> section.Table:
    """Return the table of announced runs, one row for each log: published, missing, not as announced, started several times."""
    heads = ("log", "published", "missing", "not as announced", "announced once, started several times")
    cells = [
        (
            site.log,
            site.announced.words,
            "; ".join(map(_missing, site.announced.missing)) or "none",
            "; ".join(filter(None, (site.fault, *_broken(site.announced)))) or "none",
            "; ".join(", ".join(runs) for _, runs in site.announced.used_twice) or "none",
        )
        for site in ranking.sites
    ]
    return rows("sites", f"{units.counted(len(ranking.sites), 'log')} of announcements", heads, cells)


def _broken(runs: Announced) -> Iterator[str]:
    yield from (f"{run}: {', '.join(how)}" for run, how in runs.broken)


def _missing(one: Missing) -> str:
    when = datetime.fromtimestamp(one.announced_unix, UTC).strftime("%-d %B %Y")
    text = f"number {one.number}, announced on {when}"
    return text if one.withdrawn is None else f"{text}, withdrawn: {one.withdrawn}"


def about(ranking: Leaderboard) -> str:
    """Return a summary of the list, such as `30 runs of 2 benchmarks; 1 not in the list, with the reason at the end`."""
    runs, benchmarks = ranking.runs, len(ranking.listings)
    text = f"{units.counted(runs, 'run')} of {units.counted(benchmarks, 'benchmark')}"
    left_out = len(ranking.unread)
    return f"{text}; {units.count(left_out)} not in the list, with the reason at the end" if left_out else text


def torn(ranking: Leaderboard) -> tuple[str, ...]:
    """Return a text for each run with an incomplete last journal line (after a crash), which was dropped."""
    entries = [row.entry for listing in ranking.listings for row in listing.rows]
    return tuple(f"{entry.run}: {entry.torn.text}" for entry in entries if entry.torn is not None)


def remarks(ranking: Leaderboard) -> tuple[section.Note, ...]:
    """Return notes that explain a list to its reader."""
    texts = (
        *(("Dropped last line", f"{each}.") for each in torn(ranking)),
        (
            "One order for each benchmark",
            "Runs with another data set, start, schedule or option belong to another benchmark, with a table of its own. "
            "Valid runs of a division belong to one benchmark if their lengths and the files of their data sets are the same.",
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
    return tuple(section.Note("clear", title, (section.Paragraph(text),)) for title, text in texts)


def _differences(listing: BenchmarkRuns) -> str:
    """Return a sentence on the options by which a benchmark differs from others with the same title."""
    options = ", ".join(f"{name}={value}" for name, value in listing.differs)
    return f"Differs from other benchmarks of this title in {options}."
