"""Checkpoints that lie on disk though the journal has dropped them: an order to remove one may be lost with a worker or driver.

What is to go is decided by name, from the run as its journal tells it. A file of no trial of this journal is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aiperf.rules.state import Run
from aiperf.rules.trial import TrialState
from aiperf.train.checkpoint_files import CheckpointFolder, trial_of
from aiperf.train.kept import KEPT

_OVER = frozenset({TrialState.FINISHED, TrialState.FAILED, TrialState.REJECTED, TrialState.WITHDRAWN})
NAMED = 8
"""So many unknown files are named."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a folder of checkpoints holds besides those that are needed."""

    dropped: tuple[int, ...]
    """Trials that are over, and whose weights nobody can inherit any more."""
    unknown: tuple[str, ...]
    """Names of files that are no trial's of the run."""


def leftover(run: Run, names: Iterable[str]) -> Leftover:
    """What of these files is left over. Needs nothing but their names."""
    dropped: set[int] = set()
    unknown: list[str] = []
    for name in sorted(names):
        if name == KEPT:
            continue
        trial = run.trials.get(number) if (number := trial_of(name)) is not None else None
        if trial is None:
            unknown.append(name)
        elif trial.state in _OVER and not trial.saved_epoch:
            dropped.add(trial.number)
    return Leftover(tuple(sorted(dropped)), tuple(unknown))


def sweep(run: Run, folder: Path) -> str | None:
    """Removes what is left over in a folder of checkpoints; gives what there is to tell of it, if anything: a file that
    cannot be removed too, since no run ends of it."""
    if not folder.is_dir():
        return None
    found = leftover(run, [file.name for file in folder.iterdir()])
    checkpoints = CheckpointFolder(folder)
    removed: list[str] = []
    kept: list[str] = []
    for trial in found.dropped:
        try:
            checkpoints.drop(trial)
            removed.append(str(trial))
        except OSError as error:
            kept.append(f"{trial}: {error.strerror}")
    said = [
        f"{len(those)} {what} ({', '.join(those[:NAMED])}{' …' if len(those) > NAMED else ''})"
        for what, those in (
            ("trials whose checkpoints were dropped before have none any more", removed),
            ("trials' checkpoints were dropped and cannot be removed", kept),
            ("files are no checkpoints of this journal's trials, and stay", found.unknown),
        )
        if those
    ]
    return f"'{folder}': {'; '.join(said)}" if said else None
