"""Announced runs and published ones, put side by side: "3 of 4 announced runs published", and what does not fit.

A run is published as announced when its journal names the announcement and its first line breaks nothing of it. For `rank`:

    announced(read_log(path), firsts)      # firsts: the first lines of all journals that the site has published
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aiperf.journal.events import RunStarted
from aiperf.submission.announced_run import breaks_of
from aiperf.submission.announcements import Announcements, HeadWitnessed, RunAnnounced, Signed, continues


@dataclass(frozen=True, slots=True)
class Missing:
    """An announced run that is not among those published."""

    id: str
    number: int
    """Of its entry in the log."""
    announced_unix: float
    withdrawn: str | None
    """Why it was withdrawn; None: it was not."""


@dataclass(frozen=True, slots=True)
class OfAKey:
    """The runs that one key has announced."""

    fingerprint: str
    announced: int
    published: int


@dataclass(frozen=True, slots=True)
class Announced:
    """A site's announcements against the runs that it published."""

    announced: int
    """Runs, those that were withdrawn with them."""
    published: int
    """Of these, with a journal that is as announced."""
    missing: tuple[Missing, ...]
    unannounced: tuple[str, ...]
    """Published runs that name no announcement of the log."""
    broken: tuple[tuple[str, tuple[str, ...]], ...]
    """Published runs that are not as their announcement says, each with how."""
    used_twice: tuple[tuple[str, tuple[str, ...]], ...]
    """Announcements that several runs name, by id, with the runs."""
    by_key: tuple[OfAKey, ...]
    head: str
    """Of the log."""
    forked: int = 0
    """Copies of the log, in submissions, that it does not go on from: entries were removed or written anew."""

    @property
    def words(self) -> str:
        """As it stands on a list."""
        return f"{self.published} of {self.announced} announced runs published"


def announced(log: Announcements, runs: Iterable[RunStarted], copies: Sequence[Announcements] = ()) -> Announced:
    """`runs`: first lines of published journals, one that comes twice counting once; `copies`: the log as it stood in
    submissions of the same site."""
    told = {each.id: each for each in log.entries if isinstance(each.entry, RunAnnounced)}
    by_id: dict[str, list[RunStarted]] = {}
    unannounced: list[str] = []
    for run in _distinct(runs):
        wanted = run.config.get("announcement")
        if isinstance(wanted, str) and wanted in told:
            by_id.setdefault(wanted, []).append(run)
        else:
            unannounced.append(run.run)
    broken = [
        (run.run, tuple(how)) for wanted, of in by_id.items() for run in of if (how := _broken(told[wanted], run))
    ]
    kept = {wanted for wanted, of in by_id.items() if any(not _broken(told[wanted], run) for run in of)}
    withdrawn = log.withdrawn()
    return Announced(
        announced=len(told),
        published=len(kept),
        missing=tuple(
            Missing(each.id, each.entry.number, each.entry.at_unix, withdrawn.get(each.id))
            for each in told.values()
            if each.id not in kept
        ),
        unannounced=tuple(unannounced),
        broken=tuple(broken),
        used_twice=tuple((wanted, tuple(run.run for run in of)) for wanted, of in by_id.items() if len(of) > 1),
        by_key=_by_key(told.values(), kept),
        head=log.head,
        forked=sum(not continues(log, copy) for copy in copies),
    )


def witnessed_unix(log: Announcements, wanted: Signed) -> float | None:
    """When somebody else's key first signed that an entry stood. None: nobody's has."""
    after = log.entries[wanted.entry.number :]
    found = [each.entry.at_unix for each in after if isinstance(each.entry, HeadWitnessed) and each.key != wanted.key]
    return min(found, default=None)


def _broken(said: Signed, run: RunStarted) -> list[str]:
    assert isinstance(said.entry, RunAnnounced)
    return breaks_of(said.entry, run)


def _by_key(told: Iterable[Signed], kept: set[str]) -> tuple[OfAKey, ...]:
    ids: dict[str, list[str]] = {}
    for each in told:
        ids.setdefault(each.key.fingerprint, []).append(each.id)
    return tuple(OfAKey(key, len(those), len(kept.intersection(those))) for key, those in ids.items())


def _distinct(runs: Iterable[RunStarted]) -> list[RunStarted]:
    """Each run once, whatever number of copies of its journal there are: equal first lines are one run's."""
    found: dict[tuple[str, float, str], RunStarted] = {}
    for run in runs:
        found.setdefault((run.run, run.started_unix, run.config_hash), run)
    return list(found.values())
