"""Comparison of a list of runs with the runs that sites announced before their start: "3 of 4 announced runs published"."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiperf.accounting.accelerator_time import planned_accelerators
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import read
from aiperf.leaderboard.benchmark import purpose_of
from aiperf.leaderboard.entry import AnnouncedCounts, Entry
from aiperf.submission.announced_run import Announced, announced, breaks_of, rivals
from aiperf.submission.announcement_file import log_path, read_log
from aiperf.submission.announcements import Announcements, RunAnnounced, SignedEntry

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


def read_logs(words: Sequence[str]) -> dict[str, Announcements]:
    """Read logs of announcements (a site's signed list of planned runs) and check them."""
    return {word: read_log(log_path(Path(word))) for word in words}


def first_lines(entries: Sequence[Entry]) -> list[RunStarted]:
    """Read the first event of the journal (event file) in each entry's folder. Return them in order of the entries."""
    lines = [next(iter(read(Path(entry.folder)))) for entry in entries]
    return [line for line in lines if isinstance(line, RunStarted)]  # true for each valid journal


def with_announcements(
    entries: Sequence[Entry], firsts: Sequence[RunStarted], logs: Mapping[str, Announcements]
) -> tuple[list[Entry], tuple[SiteAnnouncements, ...]]:
    # Of two states of one log the longer counts.
    logs = dict(sorted(logs.items(), key=lambda each: len(each[1].entries)))
    faults = rivals({name: (log, math.inf) for name, log in logs.items()})
    sites = tuple(
        SiteAnnouncements(name, announced(log, firsts), tuple(_purposes(log)), faults.get(name, ""))
        for name, log in logs.items()
    )
    of_site = {
        each.id: (log, each, AnnouncedCounts(site.announced.published, site.announced.announced), site.fault)
        for site, log in zip(sites, logs.values(), strict=True)
        for each in log.entries
    }
    found = []
    for entry, first in zip(entries, firsts, strict=True):
        if entry.benchmark.is_fixed_network and not (entry.announcement and entry.site and entry.system):
            entry = replace(entry, announcement_fault=NOT_ANNOUNCED)
        elif entry.announcement is not None and not logs and entry.benchmark.is_announced:
            entry = replace(entry, announcement_fault=UNCHECKED)
        elif entry.announcement is not None and logs:
            log, signed, counts, fault = of_site.get(entry.announcement, (None, None, None, ""))
            entry = replace(entry, announced=counts, announcement_fault=fault or _fault(log, signed, first))
        found.append(entry)
    return found, sites


def _purposes(log: Announcements) -> Iterator[tuple[str, tuple[str, ...], int | None]]:
    for each in log.entries:
        if isinstance(each.entry, RunAnnounced):
            yield each.id, purpose_of(each.entry.config), planned_accelerators(each.entry.config)


def _fault(log: Announcements | None, signed: SignedEntry | None, first: RunStarted) -> str:
    """Return the fault of a run's announcement, or '' without a fault."""
    if log is None or signed is None or not isinstance(signed.entry, RunAnnounced):
        return "its announcement is in none of the given logs"
    differing = breaks_of(log, signed, first)
    return f"not as announced: {'; '.join(differing)}" if differing else ""
