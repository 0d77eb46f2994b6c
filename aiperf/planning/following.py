"""Reading of a followed run (option follow=RUN: its trials are repeated) and the check that it can be repeated here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration, CannotFollow
from aiperf.journal.events import FollowedRun, RunStarted
from aiperf.journal.journal import folding, read
from aiperf.journal.options import flat_options
from aiperf.ranking.law import written
from aiperf.ranking.levels import rule_of
from aiperf.rules.followed import FollowedHistory, followed

WORK = ("learning-rate", "optimiser")
"""Rules of the levels (`aiperf.ranking.levels`) whose options define the computation of a training step, as does
dataset.augment. A following run must have the same values."""


@dataclass(frozen=True, slots=True)
class Following:
    """Trials of a followed run (an earlier run to repeat), and the entry about it in the first line of the new journal."""

    work: FollowedHistory
    recorded: FollowedRun


def following(folder: Path, until: int | None = None) -> Following:
    """Read the trained trials (trainings of networks) of the run in a folder."""
    reader = read(folder, until)
    with folding(reader):
        work = followed(reader)
    if not work.trials:
        left_out = ", ".join(f"{count} {reason}" for reason, count in work.left_out.items()) or "none"
        raise CannotFollow(
            f"a run follows the trained trials of another run. '{folder}' has none (proposals: {left_out}): follow a longer run"
        )
    if len(work.ranks) > 1:
        raise CannotFollow(
            f"equal work needs equal batches over all ranks. Workers of '{folder}' had {_listed(work.ranks)} ranks: follow "
            "a run whose workers have equal numbers of ranks"
        )
    return Following(work, work.recorded(str(folder), reader.reading.lines, reader.reading.chain.decode()))


def followed_again(recorded: FollowedRun, folder: Path) -> Following:
    """Read the trials of a followed run again when the run that repeats them is resumed."""
    current = following(folder, recorded.lines)
    if (current.recorded.run, current.recorded.last_hash) != (recorded.run, recorded.last_hash):
        raise CannotFollow(
            f"a resumed run must follow the same run, '{recorded.run}' with {recorded.lines} lines and the hash "
            f"{recorded.last_hash[:12]}…. '{current.recorded.path}' is '{current.recorded.run}' with "
            f"{current.recorded.lines} and {current.recorded.last_hash[:12]}…: give its current place, follow=RUN"
        )
    return current


def require_same_work(conf: RunConf, mine: RunStarted, work: FollowedHistory, ranks: int, *, simulated: bool) -> None:
    """Check that a new run does the same work as the earlier run that it repeats (follow=RUN)."""
    theirs = work.first
    if theirs.simulated and not simulated:
        raise BadConfiguration(
            f"a run on machines cannot follow a simulated run. '{theirs.run}' is simulated, with simulated learning "
            "curves: follow it with +cluster=simulated"
        )
    different = [*_of_options(as_plain(conf), theirs.config), *_of_images(mine.dataset, theirs.dataset)]
    if mine.start_graph != theirs.start_graph:
        different.append("another starting graph: set start=… as in that run")
    if {ranks} != work.ranks:
        different.append(
            f"workers of {_listed(work.ranks)} ranks, not {ranks}: trainer.ranks or accelerators_per_worker"
        )
    if different:
        raise BadConfiguration(
            f"a following run must do the same work as the run it follows. '{theirs.run}' has {'; '.join(different)}: set "
            "these values as in that run, or follow another run"
        )


def _of_options(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    ours, other = flat_options(mine), flat_options(theirs)
    for option in ours:
        is_work = option == "dataset.augment" or rule_of(option) in WORK
        if is_work and option in other and ours[option] != other[option]:
            yield f"{option}={written(other[option])}, not {written(ours[option])}"


def _of_images(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Compare data sets. Fingerprints are compared only if both exist, since a simulated run reads no files."""
    for name, expected in theirs.items():
        here = mine.get(name)
        if here != expected and not (name == "fingerprint" and (here is None or expected is None)):
            yield f"a data set with {name} {expected!r}, not {here!r}"


def _listed(ranks: frozenset[int]) -> str:
    return " and ".join(map(str, sorted(ranks))) or "no"
