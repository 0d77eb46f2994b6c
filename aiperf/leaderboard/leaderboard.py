"""A list of runs: one order for each benchmark, what another metric would change, and what could not be read.

A run has a place where it has the figure, has ended, and is there once. All others stand below, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aiperf.leaderboard.announcing import Site
from aiperf.leaderboard.benchmark import Benchmark, differing, title
from aiperf.leaderboard.entry import Entry
from aiperf.leaderboard.metric import METRICS, Metric, metric
from aiperf.leaderboard.order import places, rank_correlation
from aiperf.ranking.division import BUILT_IN
from aiperf.statistics.estimate import of_one_run
from aiperf.statistics.ties import ties
from aiperf.units import count


@dataclass(frozen=True, slots=True)
class Unread:
    """A journal of which there is no entry."""

    folder: str
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """An entry in the order of its table."""

    number: int
    """In the whole list, from 1: what its details go by."""
    entry: Entry
    place: int | None
    why_not: str
    """Why it has no place; '' where it has one."""
    tied: tuple[int, int] | None
    """The best and the worst place that the data allow; None: not known, or no place."""
    copies: tuple[str, ...]
    """Other folders that hold this very journal."""
    by_metric: tuple[int | None, ...]
    """Its place by each of METRICS, among the entries that have one here."""


@dataclass(frozen=True, slots=True)
class Change:
    """What would be otherwise if a table were ordered by another metric, of the entries that both metrics are known of."""

    metric: str
    entries: int
    correlation: float | None
    """Kendall's τ-b; None: fewer than two entries, or one of the metrics tells none apart."""
    moved: int
    first: tuple[int, ...]
    """Numbers of those that would be first."""
    rise: tuple[int, int] | None
    """(number, places) of the entry that would rise furthest."""
    fall: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs of one benchmark."""

    title: str
    benchmark: Benchmark
    differs: tuple[tuple[str, str], ...]
    """Options, each with its value, by which this is another benchmark than one of the same title."""
    rows: tuple[Row, ...]
    """Those with a place first, in its order."""
    changes: tuple[Change, ...]
    """For every metric but that of the order."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All of it."""

    by: Metric
    listings: tuple[Listing, ...]
    """Those of divisions first, simulated ones last."""
    unread: tuple[Unread, ...]
    sites: tuple[Site, ...] = ()
    """The logs of announcements that were given."""

    @property
    def entries(self) -> int:
        return sum(len(listing.rows) for listing in self.listings)


def leaderboard(
    entries: Iterable[Entry], unread: Sequence[Unread], by: Metric, sites: tuple[Site, ...] = ()
) -> Leaderboard:
    """The list by one metric."""
    kept, copies, why_not = _each_once(sorted(entries, key=lambda entry: (entry.folder, entry.run)))
    groups: dict[Benchmark, list[Entry]] = {}
    for entry in kept:
        groups.setdefault(entry.benchmark, []).append(entry)
    ordered = sorted(groups, key=lambda one: (_before(one), -len(groups[one]), title(one), one.options))
    differs = differing(ordered)
    listings: list[Listing] = []
    number = 1
    for benchmark in ordered:
        rows = _rows(groups[benchmark], by, number, copies, why_not)
        listings.append(Listing(title(benchmark), benchmark, differs[benchmark], rows, _changes(rows, by)))
        number += len(rows)
    return Leaderboard(by, tuple(listings), tuple(sorted(unread, key=lambda one: one.folder)), sites)


def _before(benchmark: Benchmark) -> tuple[int, int]:
    """Divisions first, in their order; simulated runs last."""
    of_division = 0 if benchmark.division is None else BUILT_IN.index(benchmark.division)
    return ("division", "outside", "simulated").index(benchmark.standing), of_division


def _each_once(entries: Sequence[Entry]) -> tuple[list[Entry], dict[str, tuple[str, ...]], dict[str, str]]:
    """The entries with equal copies left out; of each that is left the folders of its copies; and why some have no place.

    A run is known by its journal's first line. Of several journals of one run the longest stands for it: whoever cuts a copy
    chooses which of its hours count.
    """
    of_run: dict[str, list[Entry]] = {}
    for entry in entries:
        of_run.setdefault(entry.journal.first, []).append(entry)
    kept: list[Entry] = []
    copies: dict[str, tuple[str, ...]] = {}
    why_not: dict[str, str] = {}
    for same in of_run.values():
        by_end: dict[str, list[Entry]] = {}
        for entry in same:
            by_end.setdefault(entry.journal.last, []).append(entry)
        longest, *others = sorted((alike[0] for alike in by_end.values()), key=lambda one: (-one.events, one.folder))
        for entry in (longest, *others):
            kept.append(entry)
            copies[entry.folder] = tuple(one.folder for one in by_end[entry.journal.last][1:])
        for entry in others:
            why_not[entry.folder] = (
                f"another journal of this run, with {count(longest.events)} lines where this has {count(entry.events)}, "
                f"lies in {longest.folder}"
            )
    return kept, copies, why_not


def _why_no_place(entry: Entry, by: Metric) -> str:
    if entry.lacks or by.ranks(entry) is not None:
        return entry.lacks
    return f"{by.title}: {by.bars(entry) or by.missing}"


def _rows(
    entries: Sequence[Entry], by: Metric, number: int, copies: dict[str, tuple[str, ...]], why_not: dict[str, str]
) -> tuple[Row, ...]:
    reasons = [why_not.get(entry.folder) or _why_no_place(entry, by) for entry in entries]
    can_be_placed = [not entry.lacks and entry.folder not in why_not for entry in entries]
    by_metric = [
        places(
            [metric.ranks(entry) if can else None for entry, can in zip(entries, can_be_placed, strict=True)],
            is_less_better=metric.is_less_better,
        )
        for metric in METRICS
    ]
    of_all = list(zip(entries, reasons, zip(*by_metric, strict=True), strict=True))
    index = METRICS.index(by)

    def key(each: tuple[Entry, str, tuple[int | None, ...]]) -> tuple[bool, int, str, str]:
        entry, _, at = each
        return at[index] is None, at[index] or 0, entry.run, entry.folder

    ordered = sorted(of_all, key=key)
    tied = _tied([entry for entry, _, at in ordered if at[index] is not None], by)
    return tuple(
        Row(first, entry, at[index], reason, tied.get(entry.folder), copies[entry.folder], at)
        for first, (entry, reason, at) in enumerate(ordered, number)
    )


def _tied(placed: Sequence[Entry], by: Metric) -> dict[str, tuple[int, int]]:
    """By folder the best and the worst place that the data allow. Of the score alone: no other figure has an interval."""
    if by is not metric("score"):
        return {}
    known = [
        (score, of_one_run(score, entry.flops_per_second_interval, entry.interval_freedom))
        for entry in placed
        if (score := entry.flops_per_second) is not None  # none that has a place is without
    ]
    return {
        entry.folder: (one.best_place, one.worst_place)
        for entry, one in zip(placed, ties(known), strict=True)
        if one.best_place is not None and one.worst_place is not None
    }


def _changes(rows: Sequence[Row], by: Metric) -> tuple[Change, ...]:
    return tuple(_change(rows, by, metric) for metric in METRICS if metric is not by)


def _change(rows: Sequence[Row], by: Metric, other: Metric) -> Change:
    at, there = METRICS.index(by), METRICS.index(other)
    both = [row for row in rows if row.by_metric[at] is not None and row.by_metric[there] is not None]
    # Places anew among those that have both: nobody moves for another's missing figure.
    ours = _anew([row.by_metric[at] for row in both])
    theirs = _anew([row.by_metric[there] for row in both])
    steps = [(before - after, row.number) for row, before, after in zip(both, ours, theirs, strict=True)]
    up, down = max(steps, default=(0, 0)), min(steps, default=(0, 0))
    return Change(
        metric=other.name,
        entries=len(both),
        correlation=rank_correlation(ours, theirs),
        moved=sum(step != 0 for step, _ in steps),
        first=tuple(row.number for row, place in zip(both, theirs, strict=True) if place == 1),
        rise=(up[1], up[0]) if up[0] > 0 else None,
        fall=(down[1], -down[0]) if down[0] < 0 else None,
    )


def _anew(ordered: Sequence[int | None]) -> list[int]:
    """Places among the given alone."""
    found = places([None if each is None else float(each) for each in ordered], is_less_better=True)
    return [place for place in found if place is not None]
