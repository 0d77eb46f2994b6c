"""A list against what sites announced: "3 of 4 announced runs published", and which are left out.

A log is read, and its signatures are checked, by `aiperf.submission`; who may sign for a site is for `inspect` to judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiperf.journal.events import RunStarted
from aiperf.journal.journal import read
from aiperf.leaderboard.entry import Entry, OfAnnounced
from aiperf.submission.announcement_file import log_path, read_log
from aiperf.submission.announcements import Announcements
from aiperf.submission.published import Announced, announced


@dataclass(frozen=True, slots=True)
class Site:
    """One log of announcements against the runs of the list."""

    log: str
    announced: Announced


def read_logs(words: Sequence[str]) -> dict[str, Announcements]:
    """The logs that --announcements names, files or folders that hold one.

    Raises:
        NotAsAnnounced: there is no such file.
        AnnouncementsDamaged: a line of it was taken out, changed or moved, or a signature is not good.
    """
    return {word: read_log(log_path(Path(word))) for word in words}


def first_lines(entries: Sequence[Entry]) -> list[RunStarted]:
    """Of the entries' journals, in their order."""
    lines = [next(iter(read(Path(entry.folder)))) for entry in entries]
    return [line for line in lines if isinstance(line, RunStarted)]  # all are: a journal that was read begins so


def with_announcements(
    entries: Sequence[Entry], firsts: Sequence[RunStarted], logs: Mapping[str, Announcements]
) -> tuple[list[Entry], tuple[Site, ...]]:
    """The entries, each with what its site announced and published; and each log with what of it is missing. An entry that
    names an announcement of no log stays without."""
    sites = tuple(Site(name, announced(log, firsts)) for name, log in logs.items())
    told: dict[str, OfAnnounced] = {}
    for site, log in zip(sites, logs.values(), strict=True):
        of_site = OfAnnounced(site.announced.published, site.announced.announced)
        told |= dict.fromkeys((each.id for each in log.entries), of_site)
    return [replace(entry, announced=told.get(entry.announcement or "")) for entry in entries], sites
