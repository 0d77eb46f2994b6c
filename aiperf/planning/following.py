"""Which run a run follows, and whether it can be followed here: the same data, start, training and ranks.

What would make other work of the same trials is refused before anything starts, all of it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration, CannotFollow
from aiperf.journal.events import FollowedRun, RunStarted
from aiperf.journal.journal import folding, read
from aiperf.ranking.law import written
from aiperf.rules.followed import Followed, followed

WORK = (
    "dataset.augment",
    "trainer.learning_rate",
    "trainer.decay_epochs",
    "trainer.momentum",
    "trainer.weight_decay",
    "trainer.label_smoothing",
    "trainer.scale_learning_rate",
    "trainer.reference_batch",
    "trainer.warmup_epochs",
)
"""Options that say what a training step computes: those of a following run are the followed one's. All that concerns how fast
it is computed may differ, precision included: that is what is compared."""


@dataclass(frozen=True, slots=True)
class Following:
    """A run that is followed, and what the first line says of it."""

    work: Followed
    recorded: FollowedRun


def following(folder: Path, until: int | None = None) -> Following:
    """Reads the run of a folder; `until`: its first so many lines alone.

    Raises:
        CannotFollow: there is nothing in it to be trained.
        JournalDamaged, NoSuchRun: see aiperf.journal.journal.
    """
    reader = read(folder, until)
    with folding(reader):
        work = followed(reader)
    if not work.trials:
        left_out = ", ".join(f"{count} {reason}" for reason, count in work.left_out.items()) or "none"
        raise CannotFollow(
            f"a run follows trials that another has trained; '{folder}' has none (proposals: {left_out}): follow a longer run"
        )
    if len(work.ranks) > 1:
        raise CannotFollow(
            f"equal work needs equal batches over all ranks; the workers of '{folder}' had {_listed(work.ranks)} ranks: follow "
            "a run whose workers are all alike"
        )
    return Following(work, work.recorded(str(folder), reader.reading.lines, reader.reading.chain.decode()))


def followed_again(recorded: FollowedRun, folder: Path) -> Following:
    """The run that a journal's first line says it follows, for going on with it; `folder`: where it lies now.

    Raises:
        CannotFollow: what lies there is another run, or its lines were changed.
    """
    found = following(folder, recorded.lines)
    if (found.recorded.run, found.recorded.last_hash) != (recorded.run, recorded.last_hash):
        raise CannotFollow(
            f"a run goes on following what it began with, '{recorded.run}' with {recorded.lines} lines and the hash "
            f"{recorded.last_hash[:12]}…; '{found.recorded.path}' is '{found.recorded.run}' with {found.recorded.lines} and "
            f"{found.recorded.last_hash[:12]}…: say where it lies now, follow=RUN"
        )
    return found


def require_same_work(conf: RunConf, mine: RunStarted, work: Followed, ranks: int, *, simulated: bool) -> None:
    """`mine`: the first line that this run would have; `ranks`: of its workers.

    Raises:
        BadConfiguration: the trials of `work` would be other work here. All that differs is named.
    """
    theirs = work.first
    if theirs.simulated and not simulated:
        raise BadConfiguration(
            f"a run on machines follows one that was on machines; '{theirs.run}' is simulated, its epochs are of invented "
            "learning curves: follow it with +cluster=simulated"
        )
    found = [*_of_options(as_plain(conf), theirs.config), *_of_images(mine.dataset, theirs.dataset)]
    if mine.start_graph != theirs.start_graph:
        found.append("another starting graph: start=… as there")
    if {ranks} != work.ranks:
        found.append(f"workers of {_listed(work.ranks)} ranks, not {ranks}: trainer.ranks or accelerators_per_worker")
    if found:
        raise BadConfiguration(
            f"a following run does the work of the one that it follows; '{theirs.run}' has {'; '.join(found)}: give what "
            "differs as it is there, or follow another run"
        )


def _of_options(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    for option in WORK:
        part, _, name = option.partition(".")
        ours, there = mine[part], theirs.get(part) or {}
        if name in ours and name in there and ours[name] != there[name]:
            yield f"{option}={written(there[name])}, not {written(ours[name])}"


def _of_images(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """A fingerprint is compared where both have one: a simulated run looks at no files."""
    for name, there in theirs.items():
        here = mine.get(name)
        if here != there and not (name == "fingerprint" and (here is None or there is None)):
            yield f"a data set with {name} {there!r}, not {here!r}"


def _listed(ranks: frozenset[int]) -> str:
    return " and ".join(map(str, sorted(ranks))) or "no"
