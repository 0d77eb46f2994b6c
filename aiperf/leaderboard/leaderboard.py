"""List of runs in one order for each benchmark, with the journals that could not be read.

Journals are searched, and read in parallel processes. Figures are always recomputed from the journal, because a report.json or
a cache could have been edited. Sites announce runs before their start, and the list says how many of them were published:
"3 of 4 announced runs published".
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from aiperf import progress
from aiperf.accounting.accelerator_time import planned_accelerators
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.files import given_path
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME, read
from aiperf.journal.sealed_log import ends
from aiperf.leaderboard.benchmark import Benchmark, differing, purpose_of, title
from aiperf.leaderboard.entry import (
    AnnouncedCounts,
    Entry,
    bands,
    entry_of,
    of_system,
    spread_of,
    system_key,
    uncertainty,
    why_unranked,
)
from aiperf.ranking.division import BUILT_IN
from aiperf.reader_processes import interrupts_held, side_processes
from aiperf.report.facts import Report
from aiperf.report.figures import RANKED, Figure, by_name
from aiperf.report.write import report_of
from aiperf.statistics.difference import ListSpread, PlaceRange, ties
from aiperf.submission.announced_run import Announced, announced, breaks_of, nonce_fault, rivals
from aiperf.submission.announcement_file import log_path, read_log
from aiperf.submission.announcements import Announcements, RunAnnounced, SignedEntry, Signers, signers_of
from aiperf.submission.submitted_runs import is_submission, log_beside, submitted_runs
from aiperf.submission.witnessed import witnessed
from aiperf.system.control_groups import available_bytes, usable_processors
from aiperf.train.checkpoints.checkpoint_files import sealed_file
from aiperf.units import count

Purpose = tuple[str, ...]
"""Site, system, data set, length in seconds, and 'ranking' or 'other' (`purpose_of`)."""
NOT_ANNOUNCED = "runs of a fixed network are announced, with system.site and system.name (python -m aiperf announce)"
UNCHECKED = "its announcement is not checked: give the log of its site with --announcements"


@dataclass(frozen=True, slots=True)
class SiteAnnouncements:
    """Comparison of one log of announcements (a site's signed list of planned runs) with the runs of the list."""

    log: str
    announced: Announced
    purposes: tuple[tuple[str, tuple[str, ...], int | None], ...]
    """Id of each announced run, its purpose (`purpose_of`), and its accelerators. None if the configuration has no number."""
    fault: str = ""
    """Contradiction with another given log."""


def read_logs(paths: Sequence[str]) -> dict[str, Announcements]:
    """Read logs of announcements (a site's signed list of planned runs) and check them."""
    return {path: read_log(log_path(Path(path))) for path in paths}


def with_submitted_logs(
    given: Mapping[str, Announcements], folders: Iterable[Path], fruitless: list[UnreadableJournal]
) -> dict[str, Announcements]:
    """Return the given logs and those of the submissions in which runs are. Of several states of one log the longest counts."""
    logs = dict(given)
    for path in dict.fromkeys(map(log_beside, folders)):
        if path is not None:
            try:
                logs[str(path)] = read_log(path)
            except AiperfError as error:
                fruitless.append(UnreadableJournal(str(path), str(error)))
    longest: dict[str, Announcements] = {}
    for name, log in sorted(logs.items(), key=lambda each: -len(each[1].entries)):
        if name in given or all(other.by_id(log.head) is None for other in longest.values()):
            longest[name] = log
    return longest


def first_lines(entries: Sequence[Entry]) -> list[RunStarted]:
    """Read the first event of the journal (event file) in each entry's folder. Return them in order of the entries."""
    lines = [next(iter(read(Path(entry.folder)))) for entry in entries]
    return [line for line in lines if isinstance(line, RunStarted)]  # true for each valid journal


def pinned(entries: Sequence[Entry], contents: str | None) -> list[Entry]:
    """Take the place from each run on images with other contents. None: from no run."""
    if contents is not None and not re.fullmatch("[0-9a-f]{64}", contents):
        raise BadConfiguration(
            f"--images is 64 hexadecimal digits, as `prepare` prints them, but found {contents!r}: copy all of them"
        )
    other = "its images have other contents than --images"
    return [
        entry if contents in (None, entry.contents) else replace(entry, lacks=entry.lacks or other) for entry in entries
    ]


def with_announcements(
    entries: Sequence[Entry],
    firsts: Sequence[RunStarted],
    logs: Mapping[str, Announcements],
    allowed: Path | None = None,
) -> tuple[list[Entry], tuple[SiteAnnouncements, ...]]:
    # Of two states of one log the longer counts.
    logs = dict(sorted(logs.items(), key=lambda each: len(each[1].entries)))
    faults = rivals({name: (log, math.inf) for name, log in logs.items()})
    sites = tuple(
        SiteAnnouncements(name, announced(log, firsts), tuple(_purposes(log)), faults.get(name, ""))
        for name, log in logs.items()
    )
    signers = {name: None if allowed is None else signers_of(log, allowed) for name, log in logs.items()}
    of_site = {each.id: (site, each) for site in sites for each in logs[site.log].entries}
    compared = []
    for entry, first in zip(entries, firsts, strict=True):
        if entry.benchmark.is_fixed_network and not (entry.announcement and entry.site and entry.system):
            entry = replace(entry, announcement_fault=NOT_ANNOUNCED)
        elif entry.announcement is not None and not logs and entry.benchmark.is_announced:
            entry = replace(entry, announcement_fault=UNCHECKED)
        elif entry.announcement is not None and logs:
            entry = replace(entry, announcement_fault="its announcement is in none of the given logs")
            if (of := of_site.get(str(entry.announcement))) is not None:
                entry = _compared(entry, first, *of, logs[of[0].log], signers[of[0].log])
        compared.append(entry)
    return compared, sites


def with_quality(entry: Entry, first: RunStarted, root: str | None) -> Entry:
    """Return the entry of a run with its weights compared with the journal, and evaluated if `root` (dataset.root) is given."""
    if entry.weights is None or sealed_file(Path(entry.folder), entry.weights) is None:
        return entry
    if root is None:
        return replace(entry, quality_shown="not evaluated")
    from aiperf.verify.quality import difference  # imports torch

    fault = difference(Path(entry.folder), first.config, root)
    return replace(entry, quality_shown="no" if fault else "yes", lacks=entry.lacks or fault)


def _purposes(log: Announcements) -> Iterator[tuple[str, tuple[str, ...], int | None]]:
    for each in log.entries:
        if isinstance(each.entry, RunAnnounced):
            yield each.id, purpose_of(each.entry.config), planned_accelerators(each.entry.config)


def _compared(
    entry: Entry, first: RunStarted, site: SiteAnnouncements, signed: SignedEntry, log: Announcements, signers: Signers
) -> Entry:
    """Return an entry with the result of the comparison with its announcement."""
    witnessed_share, faults = witnessed(log, signed, signers, first, Path(entry.folder))
    if not isinstance(signed.entry, RunAnnounced):
        return entry
    differing = [*breaks_of(log, signed, first), *faults]
    fault = site.fault or (f"not as announced: {'; '.join(differing)}" if differing else "")
    return replace(
        entry,
        announced=AnnouncedCounts(site.announced.published, site.announced.announced),
        announcement_fault=fault or (nonce_fault(log, signed, signers) if entry.benchmark.is_announced else ""),
        witnessed=witnessed_share,
    )


@dataclass(frozen=True, slots=True)
class UnreadableJournal:
    folder: str
    reason: str


@dataclass(frozen=True, slots=True)
class ListedRow:
    """Row of the list: one system or one run, with its place in the order."""

    number: int
    entry: Entry
    """Figures of a system: the median over its runs."""
    runs: tuple[Entry, ...]
    """Runs of the system, at least one."""
    missing: int
    """Announced runs of the system without a valid result. Each counts as worse than all others."""
    place: int | None
    why_not: str
    """Reason for the missing place, or ''."""
    tied: tuple[int, int] | None
    """Best and worst place that the data allow. None if unknown, or without a place."""
    is_tested: bool
    """False if `tied` is unknown, or rests on an assumed spread between runs."""
    copies: tuple[str, ...]
    """Other folders with an identical journal."""
    places: Mapping[str, int | None]
    """Place by the name of each metric. None without the figure."""
    ranges: Mapping[str, PlaceRange | None]
    """Place and range of places by the name of each metric."""


@dataclass(frozen=True, slots=True)
class BenchmarkRuns:
    title: str
    benchmark: Benchmark
    differs: tuple[tuple[str, str], ...]
    """(option, value) that distinguish this benchmark from others with the same title."""
    rows: tuple[ListedRow, ...]
    """Rows with a place in order of the place, then rows without."""
    spreads: Mapping[str, ListSpread]
    """Spread between runs of one system by the name of each metric. The same for all rows."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The whole list: the runs of each benchmark in order, and the folders without an entry."""

    by: Figure[Report]
    listings: tuple[BenchmarkRuns, ...]
    """Divisions first, simulated runs last."""
    unread: tuple[UnreadableJournal, ...]
    sites: tuple[SiteAnnouncements, ...] = ()
    """Given logs of announcements."""

    @property
    def runs(self) -> int:
        """Number of runs in the list, without identical copies and unreadable journals."""
        return sum(len(row.runs) for listing in self.listings for row in listing.rows)


def leaderboard(
    entries: Iterable[Entry],
    unread: Sequence[UnreadableJournal],
    by: Figure[Report],
    sites: tuple[SiteAnnouncements, ...] = (),
) -> Leaderboard:
    """Return the runs grouped by benchmark (same data set, length and options) and ordered by a metric, with places."""
    kept, copies, why_not = _each_once(sorted(entries, key=lambda entry: (entry.folder, entry.run)))
    why_not = _shared_announcements(kept) | why_not
    groups: dict[Benchmark, list[Entry]] = {}
    for entry in kept:
        groups.setdefault(entry.benchmark, []).append(entry)
    ordered = sorted(groups, key=lambda one: (_before(one), -len(groups[one]), title(one), one.options))
    differs = differing(ordered)
    missing = _missing(kept, why_not, sites)
    listings: list[BenchmarkRuns] = []
    number = 1
    for benchmark in ordered:
        rows, spreads = _rows(groups[benchmark], by, number, copies, why_not, missing)
        listings.append(BenchmarkRuns(title(benchmark), benchmark, differs[benchmark], rows, spreads))
        number += len(rows)
    return Leaderboard(by, tuple(listings), tuple(sorted(unread, key=lambda one: one.folder)), sites)


def _before(benchmark: Benchmark) -> tuple[int, int]:
    """Return the sort key of a benchmark: divisions first in their order, simulated runs last."""
    of_division = 0 if benchmark.division is None else BUILT_IN.index(benchmark.division)
    return ("division", "outside", "simulated").index(benchmark.standing), of_division


def _each_once(entries: Sequence[Entry]) -> tuple[list[Entry], dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the entries without copies (the longest journal counts), the folders of the copies, and reasons for no place."""
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
                f"a longer journal of this run is in {longest.folder}: {count(longest.events)} lines, this one has "
                f"{count(entry.events)}"
            )
    return kept, copies, why_not


def _shared_announcements(entries: Sequence[Entry]) -> dict[str, str]:
    once = {entry.journal.first: entry.announcement for entry in entries}  # journals of one run count once
    runs = Counter(once.values())
    return {
        entry.folder: f"{count(runs[entry.announcement])} runs name its announcement, which serves one"
        for entry in entries
        if entry.announcement is not None and runs[entry.announcement] > 1
    }


def _why_not_counted(entry: Entry, why_not: dict[str, str]) -> str:
    return why_not.get(entry.folder) or entry.lacks or entry.announcement_fault


def _missing(
    entries: Sequence[Entry], why_not: dict[str, str], sites: Sequence[SiteAnnouncements]
) -> dict[Purpose, list[int | None]]:
    """Return the accelerators of the announced runs without a valid result, None for a number that only the nodes know."""
    announced = {(purpose, id): size for site in sites for id, purpose, size in site.purposes}
    for entry in entries:
        if entry.announcement is not None:
            key = (entry.purpose, entry.announcement)
            announced[key] = max(announced.get(key) or 0, entry.accelerator_count)
    valid = {
        entry.announcement for entry in entries if entry.benchmark.is_announced and not _why_not_counted(entry, why_not)
    }
    sizes: dict[Purpose, list[int | None]] = {}
    for (purpose, id), size in announced.items():
        if id not in valid:
            sizes.setdefault(purpose, []).append(size)
    return sizes


def _rows(
    entries: Sequence[Entry],
    by: Figure[Report],
    number: int,
    copies: dict[str, tuple[str, ...]],
    why_not: dict[str, str],
    missing: dict[Purpose, list[int | None]],
) -> tuple[tuple[ListedRow, ...], dict[str, ListSpread]]:
    systems: dict[tuple[str, ...], list[Entry]] = {}
    candidates: list[tuple[Entry, tuple[Entry, ...], int, str]] = []
    for entry in entries:
        if reason := _why_not_counted(entry, why_not):
            candidates.append((entry, (entry,), 0, reason))
        else:
            systems.setdefault(system_key(entry), []).append(entry)
    counted = [each for runs in systems.values() for each in _by_size(runs, missing)]
    figures = {name: by_name(name) for name in RANKED}
    spreads = {name: spread_of(figure, [runs for runs, _ in counted]) for name, figure in figures.items()}
    for runs, absent in counted:
        entry = of_system(runs, absent, spreads["score"])
        candidates.append((entry, tuple(runs), absent, _why_no_figure(entry, runs, absent, by)))
    placed = [(entry, None if _why_not_counted(entry, why_not) else runs) for entry, runs, *_ in candidates]
    by_figure = {name: _ranges(figure, placed, spreads[name]) for name, figure in figures.items()}
    of_each = [{name: at[row] for name, at in by_figure.items()} for row in range(len(candidates))]
    ordered = sorted(
        zip(candidates, of_each, strict=True),
        key=lambda each: ((at := each[1][by.name]) is None, at.place if at else 0, each[0][0].run, each[0][0].folder),
    )
    rows = tuple(
        ListedRow(
            number=first,
            entry=entry,
            runs=runs,
            missing=absent,
            place=None if (own := ranges[by.name]) is None else own.place,
            why_not=reason,
            tied=None if own is None else own.allowed,
            is_tested=own is not None and own.is_tested,
            copies=tuple(folder for run in runs for folder in copies[run.folder]),
            places={name: None if one is None else one.place for name, one in ranges.items()},
            ranges=ranges,
        )
        for first, ((entry, runs, absent, reason), ranges) in enumerate(ordered, number)
    )
    return rows, spreads


def _ranges(
    figure: Figure[Report], placed: Sequence[tuple[Entry, Sequence[Entry] | None]], spread: ListSpread
) -> list[PlaceRange | None]:
    """Return place and range of places of each entry. None without the figure, or without runs that count."""
    known = [
        (index, value, uncertainty(figure, runs, value, spread))
        for index, (entry, runs) in enumerate(placed)
        if runs is not None and (value := _ranked(figure, entry)) is not None
    ]
    standings = ties([each[1:] for each in known], more_is_better=figure.better != "less")
    ranges: list[PlaceRange | None] = [None] * len(placed)
    for (index, *_), standing in zip(known, standings, strict=True):
        ranges[index] = standing
    return ranges


def _ranked(figure: Figure[Report], entry: Entry) -> float | None:
    return None if why_unranked(figure, entry) else entry.figures[figure.name]


def _by_size(runs: list[Entry], missing: dict[Purpose, list[int | None]]) -> Iterator[tuple[list[Entry], int]]:
    """Yield each entry's runs, with its number of announced runs without a result. Runs of far fewer accelerators are apart."""
    if not runs[0].benchmark.is_announced:
        yield runs, 0
        return
    absent = missing.get(runs[0].purpose, [])
    tops = bands([*(run.accelerator_count for run in runs), *(size for size in absent if size is not None)])
    by_top: dict[int, list[Entry]] = {}
    for run in runs:
        by_top.setdefault(_band(tops, run.accelerator_count), []).append(run)
    # A run of which only the announcement is known may have had fewer accelerators.
    sizes = (max(by_top) if size is None else _band(tops, size) for size in absent)
    lacking = Counter(max((top for top in by_top if top <= size), default=None) for size in sizes)
    for top, alike in by_top.items():
        named = f", {count(top)} accelerators" if top < tops[0] else ""
        yield [replace(run, system=f"{run.system}{named}") if named else run for run in alike], lacking[top]


def _band(tops: Sequence[int], size: int) -> int:
    return min(top for top in tops if top >= size)


def _why_no_figure(entry: Entry, runs: Sequence[Entry], absent: int, by: Figure[Report]) -> str:
    if _ranked(by, entry) is not None:
        return ""
    if absent and all(run.figures[by.name] is not None for run in runs):
        return (
            f"{count(absent)} of {count(absent + len(runs))} announced runs of this system have no valid result. They count as "
            "the lowest, and the median is one of them"
        )
    return f"{by.title}: {why_unranked(by, entry) or by.missing}"


def runs_under(names: Iterable[str], runs: str = "runs") -> tuple[list[Path], list[UnreadableJournal]]:
    folders: list[Path] = []
    fruitless: list[UnreadableJournal] = []
    seen: set[tuple[int, int]] = set()
    for name in names:
        if is_submission(name):
            folders += _submitted(given_path(name), fruitless)
            continue
        top = next((folder for folder in (given_path(name), Path(runs) / name) if folder.is_dir()), None)
        if top is None:
            fruitless.append(UnreadableJournal(name, f"there is no such folder, nor '{Path(runs) / name}'"))
            continue
        below = list(_below(top, seen, fruitless))
        folders += [folder for folder, is_new in below if is_new]
        if not below:
            fruitless.append(UnreadableJournal(name, f"no {NAME} in this folder or below it"))
    return folders, fruitless


def _submitted(path: Path, fruitless: list[UnreadableJournal]) -> list[Path]:
    try:
        return submitted_runs(path)
    except AiperfError as error:
        fruitless.append(UnreadableJournal(str(path), str(error)))
        return []


def _below(top: Path, seen: set[tuple[int, int]], fruitless: list[UnreadableJournal]) -> Iterator[tuple[Path, bool]]:
    """Yield folders with a journal, and folders that were seen before, each with True if it is new. Links are followed."""

    def refused(error: OSError) -> None:
        fruitless.append(UnreadableJournal(str(error.filename), f"could not be read: {error.strerror}"))

    for name, folders, files in os.walk(top, onerror=refused, followlinks=True):
        status = Path(name).stat()
        is_new = (status.st_dev, status.st_ino) not in seen
        seen.add((status.st_dev, status.st_ino))
        has_journal = NAME in files or NAME in folders  # the reader reports a folder of that name
        if has_journal or not is_new:
            yield Path(name), is_new
            folders.clear()  # no run's folder contains another run
        else:
            for file in sorted(files):
                if is_submission(Path(name) / file):
                    yield from ((run, True) for run in _submitted(Path(name) / file, fruitless))
        folders.sort()


MEMORY_PER_BYTE = 2
"""Maximum memory for reading, in bytes per byte of the journal (docs/ranking.md)."""
MEMORY_OF_A_PROCESS = 200_000_000
"""Further memory of each process in bytes."""
WORTH_A_PROCESS = 8_000_000
"""Bytes of journals from which another process saves time."""


def read_entry(folder: Path) -> Entry | UnreadableJournal:
    """Read the journal in a run's folder. Return its list entry, or the reason why it cannot be read, without an error."""
    try:
        return entry_of(report_of(folder), str(folder), ends(folder / NAME))
    except AiperfError as error:
        return UnreadableJournal(str(folder), str(error))
    except OSError as error:
        return UnreadableJournal(str(folder), f"could not be read: {error.strerror or error}")


def read_entries(folders: Sequence[Path], processes: int | None = None) -> tuple[list[Entry], list[UnreadableJournal]]:
    sizes = {folder: _size(folder) for folder in folders}
    with side_processes(processes or _at_once(list(sizes.values()))) as pool:
        with interrupts_held():
            futures = {
                folder: pool.submit(read_entry, folder) for folder in sorted(folders, key=lambda each: -sizes[each])
            }
        with progress.under_way("runs read", lambda: sum(each.done() for each in futures.values()), len(futures)):
            read = [_result(folder, futures[folder]) for folder in folders]
    return [each for each in read if isinstance(each, Entry)], [
        each for each in read if isinstance(each, UnreadableJournal)
    ]


def _result(folder: Path, future: Future[Entry | UnreadableJournal]) -> Entry | UnreadableJournal:
    try:
        return future.result()
    except BrokenProcessPool:
        return UnreadableJournal(str(folder), "the process that read it was killed, probably because memory ran out")


def _size(folder: Path) -> int:
    try:
        return (folder / NAME).stat().st_size
    except OSError:
        return 0  # removed since the search: reading it reports the error


def _at_once(sizes: Sequence[int]) -> int:
    each = MEMORY_OF_A_PROCESS + MEMORY_PER_BYTE * max(sizes, default=0)
    worth = -(-sum(sizes) // WORTH_A_PROCESS)
    return max(1, min(usable_processors(), len(sizes), worth, available_bytes() // each))
