"""Removal of checkpoints that the journal has dropped. An order to remove one can be lost with a worker or driver.

Files are chosen by name and by the state of their trial in the journal. A file of no trial of this journal stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aiperf.rules.state import Run
from aiperf.rules.trial import TrialState
from aiperf.train.checkpoints.checkpoint_files import BEST, CheckpointFolder, trial_of
from aiperf.train.checkpoints.kept_checkpoints import KEPT

_OVER = frozenset({TrialState.FINISHED, TrialState.FAILED, TrialState.REJECTED, TrialState.WITHDRAWN})
NAMED = 8
"""Maximum number of unknown files in a message."""


@dataclass(frozen=True, slots=True)
class UnneededFiles:
    """Contents of a checkpoint folder that the run does not need."""

    dropped: tuple[int, ...]
    """Finished trials whose weights no later trial can inherit."""
    unknown: tuple[str, ...]
    """Names of files that belong to no trial of the run."""


def leftover(run: Run, names: Iterable[str]) -> UnneededFiles:
    """Return the files among `names` that the run does not need."""
    dropped: set[int] = set()
    unknown: list[str] = []
    for name in sorted(names):
        if name == KEPT or name.startswith(BEST):
            continue
        trial = run.trials.get(number) if (number := trial_of(name)) is not None else None
        if trial is None:
            unknown.append(name)
        elif trial.state in _OVER and not trial.saved_epoch:
            dropped.add(trial.number)
    return UnneededFiles(tuple(sorted(dropped)), tuple(unknown))


def sweep(run: Run, folder: Path) -> str | None:
    """Remove checkpoints that the run does not need.

    Return a message about removed, remaining and unknown files, or None. A file that cannot be removed does not end the
    run.
    """
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
            ("trials' dropped checkpoints were removed", removed),
            ("trials' dropped checkpoints cannot be removed", kept),
            ("files stay, since they are no checkpoints of this journal's trials", found.unknown),
        )
        if those
    ]
    return f"'{folder}': {'; '.join(said)}" if said else None
