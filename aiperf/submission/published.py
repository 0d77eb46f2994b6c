"""Comparison of announced and published runs: "3 of 4 announced runs published", and each run that differs.

A run is published as announced if its journal names the announcement, its first line has no difference from it, and the log has
this run as the one that began with it. For `rank`:

    announced(read_log(path), firsts)      # firsts: the first lines of all journals that the site has published
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aiperf.journal.events import RunStarted
from aiperf.submission.announced_run import breaks_of
from aiperf.submission.announcements import Announcements, HeadWitnessed, RunAnnounced, SignedEntry, continues


@dataclass(frozen=True, slots=True)
class Missing:
    """Announced run that is not published."""

    id: str
    number: int
    """Number of its entry in the log."""
    announced_unix: float
    withdrawn: str | None
    """Reason of its withdrawal. None if not withdrawn."""
    begun: str | None = None
    """Run that began with it, from the log. None if no run began."""


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Counts of the runs that one key announced."""

    fingerprint: str
    announced: int
    published: int


@dataclass(frozen=True, slots=True)
class Announced:
    """Comparison of a site's announced and published runs."""

    announced: int
    """Announced runs, including withdrawn ones."""
    published: int
    """Announced runs with a journal that agrees with the announcement."""
    missing: tuple[Missing, ...]
    unannounced: tuple[str, ...]
    """Published runs without an announcement in the log."""
    broken: tuple[tuple[str, tuple[str, ...]], ...]
    """Published runs that differ from their announcement, each with its differences."""
    used_twice: tuple[tuple[str, tuple[str, ...]], ...]
    """Announcements named by several runs, as (id, runs)."""
    by_key: tuple[KeyCounts, ...]
    head: str
    """Head of the log."""
    forked: int = 0
    """Number of earlier copies that the log does not continue: entries were removed or replaced."""
    withdrawn: tuple[tuple[str, str], ...] = ()
    """Published runs whose announcement was withdrawn, with the reason."""

    @property
    def words(self) -> str:
        """Text for a list."""
        return f"{self.published} of {self.announced} announced runs published"


def announced(log: Announcements, runs: Iterable[RunStarted], copies: Sequence[Announcements] = ()) -> Announced:
    """Compare a log with published runs.

    Args:
        log: Log of the site.
        runs: First lines of published journals. Copies count once.
        copies: Earlier copies of the log from the site's submissions.
    """
    entries = {each.id: each for each in log.entries if isinstance(each.entry, RunAnnounced)}
    by_id: dict[str, list[RunStarted]] = {}
    unannounced: list[str] = []
    for run in _distinct(runs):
        wanted = run.config.get("announcement")
        if isinstance(wanted, str) and wanted in entries:
            by_id.setdefault(wanted, []).append(run)
        else:
            unannounced.append(run.run)
    named = [(wanted, run, tuple(breaks_of(log, entries[wanted], run))) for wanted, of in by_id.items() for run in of]
    kept = {wanted for wanted, _, how in named if not how}
    withdrawn, begun = log.withdrawn(), log.begun()
    return Announced(
        announced=len(entries),
        published=len(kept),
        missing=tuple(
            Missing(
                id=each.id,
                number=each.entry.number,
                announced_unix=each.entry.at_unix,
                withdrawn=withdrawn[each.id].reason if each.id in withdrawn else None,
                begun=begun[each.id].run if each.id in begun else None,
            )
            for each in entries.values()
            if each.id not in kept
        ),
        unannounced=tuple(unannounced),
        broken=tuple((run.run, how) for _, run, how in named if how),
        used_twice=tuple((wanted, tuple(run.run for run in of)) for wanted, of in by_id.items() if len(of) > 1),
        by_key=_by_key(entries.values(), kept),
        head=log.head,
        forked=sum(not continues(log, copy) for copy in copies),
        withdrawn=tuple((run.run, withdrawn[wanted].reason) for wanted, run, _ in named if wanted in withdrawn),
    )


def witnessed_unix(log: Announcements, wanted: SignedEntry, signers: Mapping[str, Sequence[str]]) -> float | None:
    """Return the time at which another principal first confirmed an entry. None if nobody did.

    `signers`: see `signers_of`. A second key of the same principal, or a key of an unknown one, is no witness.
    """
    own = set(signers.get(wanted.id, ()))
    witnesses = (each for each in log.entries[wanted.entry.number :] if isinstance(each.entry, HeadWitnessed))
    others = [each.entry.at_unix for each in witnesses if (by := set(signers.get(each.id, ()))) and own.isdisjoint(by)]
    return min(others, default=None) if own else None


def _by_key(entries: Iterable[SignedEntry], kept: set[str]) -> tuple[KeyCounts, ...]:
    ids: dict[str, list[str]] = {}
    for each in entries:
        ids.setdefault(each.key or "", []).append(each.id)
    return tuple(KeyCounts(key, len(those), len(kept.intersection(those))) for key, those in ids.items())


def _distinct(runs: Iterable[RunStarted]) -> list[RunStarted]:
    """Return each run once. Journals with equal first lines belong to one run."""
    found: dict[tuple[str, float, str], RunStarted] = {}
    for run in runs:
        found.setdefault((run.run, run.started_unix, run.config_hash), run)
    return list(found.values())
