"""Check that a run can do the same work as the list of trials that it follows (option `follow`)."""

from __future__ import annotations

from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted
from aiperf.journal.run_folder import run_folder
from aiperf.ranking.levels import is_of_step
from aiperf.rules.followed import Following, following, following_packaged, unlike
from aiperf.rules.limits import PACKAGED


def following_of(word: str, runs: str) -> Following:
    """Return the list that option `follow` names: one of the package, or that of a run's trials."""
    return following_packaged(word) if word in PACKAGED else following(run_folder(word, runs), is_of_step)


def require_same_work(first: RunStarted, follows: Following, ranks: int) -> None:
    """Check that a new run with this first line does the work of the list that it follows."""
    name = follows.recorded.run
    if different := list(unlike(follows.work, first)):
        raise BadConfiguration(
            f"a following run must do the same work as the list it follows. '{name}' has {'; '.join(different)}: set "
            "these values as in that list, or follow another one"
        )
    if undivided := sorted({trial.batch for trial in follows.work.trials if trial.batch % ranks}):
        raise BadConfiguration(
            f"the ranks of a worker must divide the batches of the list that it follows. '{name}' has batches of "
            f"{', '.join(map(str, undivided))}, and a worker has {ranks} ranks: set trainer.ranks or accelerators_per_worker"
        )
