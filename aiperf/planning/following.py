"""Check that a run can do the same work as the list of trials that it follows (option `follow`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted
from aiperf.journal.options import flat_options
from aiperf.journal.run_folder import run_folder
from aiperf.ranking.law import written
from aiperf.ranking.levels import is_of_step
from aiperf.rules.followed import PACKAGED, Following, following, following_packaged


def following_of(word: str, runs: str) -> Following:
    """Return the list that option `follow` names: one of the package, or that of a run's trials."""
    return following_packaged(word) if word in PACKAGED else following(run_folder(word, runs), is_of_step)


def require_same_work(conf: RunConf, mine: RunStarted, follows: Following, ranks: int) -> None:
    """Check that a new run does the work of the list that it follows."""
    work, name = follows.work, follows.recorded.run
    different = [*_of_options(as_plain(conf), work.options), *_of_images(mine.dataset, work.dataset)]
    if mine.start_graph != work.start:
        different.append("another starting graph: set start=… as in that list")
    if different:
        raise BadConfiguration(
            f"a following run must do the same work as the list it follows. '{name}' has {'; '.join(different)}: set "
            "these values as in that list, or follow another one"
        )
    if undivided := sorted({trial.batch for trial in work.trials if trial.batch % ranks}):
        raise BadConfiguration(
            f"the ranks of a worker must divide the batches of the list that it follows. '{name}' has batches of "
            f"{', '.join(map(str, undivided))}, and a worker has {ranks} ranks: set trainer.ranks or accelerators_per_worker"
        )


def _of_options(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    ours = flat_options(mine)
    for option, value in theirs.items():
        if option in ours and ours[option] != value:
            yield f"{option}={written(value)}, not {written(ours[option])}"


def _of_images(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Compare data sets. Fingerprints are compared only if both exist, since a simulated run reads no files."""
    for name, expected in theirs.items():
        here = mine.get(name)
        if here != expected and not (name == "fingerprint" and (here is None or expected is None)):
            yield f"a data set with {name} {expected!r}, not {here!r}"
