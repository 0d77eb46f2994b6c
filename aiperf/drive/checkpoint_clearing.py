"""Removal of checkpoint files by their names and the journal, since a command to remove one can be lost with its worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aiperf.accounting.valid_flops import quality_epoch
from aiperf.accounting.work_log import SealedEpoch, WorkLog
from aiperf.atomic_files import replace_file
from aiperf.journal.events import AnyEvent, EpochFinished
from aiperf.journal.legality import TrialState
from aiperf.rules.state import Run
from aiperf.train.checkpoints.checkpoint_files import (
    BEST,
    CHECKPOINTS,
    KEPT,
    CheckpointFolder,
    KeptCheckpoints,
    checkpoint_of,
    link_of,
    trial_of,
)
from morphism import decode_architecture, decode_morph, encode_architecture, rebuilt

CANNOT_BE_RESUMED = "duration"
"""The only reason of an end after which a run cannot be resumed (`session.resumable`): the declared time is over."""


@dataclass(slots=True)
class BestEpoch:
    """Hard link to the checkpoint of the best sealed epoch so far, which outlives the file."""

    folder: CheckpointFolder
    work_log: WorkLog
    _linked: SealedEpoch | None = None

    def take(self, events: Sequence[AnyEvent]) -> None:
        best = self.work_log.sealed[-1] if self.work_log.sealed else None
        if best is None or best is self._linked:
            return
        file = self.folder.file(best.evaluation.trial, best.evaluation.epoch)
        link = link_of(file)
        with suppress(OSError):
            if self._linked is not None:  # else an earlier driver has linked it
                link.unlink(missing_ok=True)  # to the file of an earlier attempt
            if not link.exists():
                link.hardlink_to(file)
            for other in self.folder.path.glob(f"{BEST}*"):
                if other != link:
                    other.unlink(missing_ok=True)
        self._linked = best


def _unlinked(folder: Path) -> None:
    for link in folder.glob(f"{BEST}*"):
        with suppress(OSError):
            link.rename(link.with_name(link.name.removeprefix(BEST)))
            link.unlink(missing_ok=True)  # it stays if both names are one file


def clear(run: Run, work_log: WorkLog, run_folder: Path, keep: str) -> KeptCheckpoints | None:
    """Remove the files that `keep` does not keep. None, with nothing removed, if the run can be resumed or has none.

    `best` keeps the file of the epoch that gives the quality too, and all files if no file is of a sealed epoch.
    """
    folder = run_folder / CHECKPOINTS
    if run.ended != CANNOT_BE_RESUMED or not folder.is_dir():
        return None
    _unlinked(folder)
    ours = sorted(file for file in folder.iterdir() if trial_of(file.name) in run.trials)
    if not ours:
        return None
    existing = {checkpoint_of(file.name) for file in ours}
    sealed = [] if keep == "none" else [each.evaluation for each in reversed(work_log.sealed)]
    best = next((each for each in sealed if (each.trial, each.epoch) in existing), None)
    if keep == "best" and best is None:
        keep = "all"
    counted = quality_epoch(work_log)
    shown = (best, None if counted is None or keep == "none" else counted.evaluation)
    places = {(each.trial, each.epoch) for each in shown if each is not None}
    staying = ours if keep == "all" else [file for file in ours if checkpoint_of(file.name) in places]
    graph = None if best is None else _graph_file(run, best, folder)
    sizes = {file: _size(file) for file in ours}
    removed: list[Path] = []
    for file in [file for file in ours if file not in staying]:
        with suppress(OSError):  # a failed removal must not end the run. The report counts it
            file.unlink(missing_ok=True)
            removed.append(file)
    record = KeptCheckpoints(
        keep=keep,
        files=len(staying),
        bytes=sum(sizes[file] for file in staying),
        removed_files=len(removed),
        removed_bytes=sum(sizes[file] for file in removed),
        not_removed=len(ours) - len(staying) - len(removed),
        best=None if best is None else f"{CHECKPOINTS}/{CheckpointFolder(folder).file(best.trial, best.epoch).name}",
        trial=None if best is None else best.trial,
        epoch=None if best is None else best.epoch,
        accuracy=None if best is None else best.accuracy,
        graph=None if graph is None else f"{CHECKPOINTS}/{graph.name}",
    )
    with suppress(OSError):  # a full disk: the report then has no section on kept checkpoints
        record.save(run_folder)
    return record


def forget(run_folder: Path) -> str | None:
    """Remove the record of kept checkpoints, because the run continues after its end. None without a record."""
    record = run_folder / CHECKPOINTS / KEPT
    if not record.exists():
        return None
    record.unlink()
    return (
        "the checkpoints of this run were removed at its end, so trials that inherit from them fail. "
        "Keep the checkpoints of a run that may be rolled back: storage.checkpoints=all"
    )


def _graph_file(run: Run, best: EpochFinished, folder: Path) -> Path | None:
    """Write the architecture next to its weights, in the format of docs/graph-format.md. Return None if the disk is full."""
    start = decode_architecture(json.dumps(run.started.start_graph))
    network = rebuilt(start, [decode_morph(morph) for morph in run.lineage(best.trial)])
    file = folder / f"trial-{best.trial}.graph.json"
    try:
        replace_file(file, f"{encode_architecture(network)}\n".encode())
    except OSError:
        return None
    return file


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # removed meanwhile
        return 0


_OVER = frozenset({TrialState.FINISHED, TrialState.FAILED, TrialState.REJECTED, TrialState.WITHDRAWN})


def sweep(run: Run, folder: Path) -> None:
    """Remove the checkpoint files of ended trials (trainings of one network) that no later trial inherits."""
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    numbers = {trial_of(name) for name in names if not name.startswith(BEST)}
    for trial in [trial for number, trial in run.trials.items() if number in numbers]:
        if trial.state in _OVER and not trial.saved_epoch:
            with suppress(OSError):
                CheckpointFolder(folder).drop(trial.number)
