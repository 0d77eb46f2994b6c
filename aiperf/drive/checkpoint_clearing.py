"""Removal of checkpoint files: during a run those of trials without further use, after its end all but the kept ones.

A command to remove a checkpoint can be lost with a worker or driver. Files are therefore chosen by their names and the journal.
RunEnded is in the journal before any file is removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiperf.atomic_files import replace_file
from aiperf.journal.events import AnyEvent, CheckpointWritten, EpochFinished, Progress
from aiperf.journal.journal import NAME, read_again
from aiperf.journal.legality import TrialState
from aiperf.rules.state import Run
from aiperf.train.checkpoints.checkpoint_files import (
    BEST,
    CHECKPOINTS,
    KEPT,
    CheckpointFolder,
    KeptCheckpoints,
    checkpoint_of,
    trial_of,
)
from morphism import decode_architecture, decode_morph, encode_architecture, rebuilt

CANNOT_BE_RESUMED = "duration"
"""The only reason of an end after which a run cannot be resumed (`session.resumable`): the declared time is over."""


@dataclass(frozen=True, slots=True)
class Best:
    """Checkpoint with the best accuracy in the journal: its trial, its epoch (from 1), and its accuracy (0..1)."""

    trial: int
    epoch: int
    accuracy: float


def best_of(events: Iterable[AnyEvent | None], names: Iterable[str]) -> Best | None:
    """Checkpoint (trial, epoch, accuracy) with the best recorded accuracy. None if the journal has none of these files."""
    existing = set(filter(None, map(checkpoint_of, names)))
    accuracies: dict[tuple[int, int], Best] = {}
    for event in events:
        if isinstance(event, EpochFinished) and (place := (event.trial, event.epoch)) in existing:
            accuracies[place] = Best(*place, event.accuracy)
    return min(accuracies.values(), key=lambda one: (-one.accuracy, one.trial, one.epoch), default=None)


@dataclass(slots=True)
class BestEpoch:
    """Hard link to the checkpoint of the run's best epoch so far."""

    folder: CheckpointFolder
    best: Best | None = None
    _unwritten: dict[tuple[int, int], float] = field(default_factory=dict)
    """Accuracy by (trial, epoch) of better epochs with a checkpoint that is still being written."""

    @classmethod
    def of_run(cls, run_folder: Path) -> BestEpoch:
        """Link to the best checkpoint that an earlier driver left. Its `best` is None without such a link."""
        path = run_folder / CHECKPOINTS
        links = {file.name.removeprefix(BEST): file for file in path.glob(f"{BEST}*")}
        best = best_of(read_again(run_folder / NAME, Progress), links) if links else None
        for name, file in links.items():
            if best is None or checkpoint_of(name) != (best.trial, best.epoch):
                file.unlink(missing_ok=True)
        return cls(CheckpointFolder(path), best)

    def take(self, events: Sequence[AnyEvent]) -> None:
        """Make a hard link to the checkpoint of each epoch with a better accuracy than all epochs before it."""
        for event in events:
            if isinstance(event, EpochFinished):
                place = (event.trial, event.epoch)
                if self.best is not None and place == (self.best.trial, self.best.epoch):
                    self._link(None)  # the epoch was repeated after a loss
                if event.checkpoint:
                    self._consider(Best(*place, event.accuracy))
                else:
                    self._unwritten[place] = event.accuracy
            elif isinstance(event, CheckpointWritten):
                accuracy = self._unwritten.pop((event.trial, event.epoch), None)
                if accuracy is not None:
                    self._consider(Best(event.trial, event.epoch, accuracy))

    def _consider(self, best: Best) -> None:
        if self.best is None or best.accuracy > self.best.accuracy:
            self._unwritten = {place: each for place, each in self._unwritten.items() if each > best.accuracy}
            self._link(best)

    def _link(self, best: Best | None) -> None:
        before = self.best
        file = None if best is None else self.folder.written(best.trial, best.epoch)
        with suppress(OSError):
            if best is not None and file is not None:
                file.with_name(f"{BEST}{file.name}").hardlink_to(file)
                self.best = best
        if best is None:
            self.best = None
        if before is not None and self.best != before:
            for old in self.folder.path.glob(f"{BEST}trial-{before.trial}.epoch-{before.epoch}.*"):
                old.unlink(missing_ok=True)


def _unlinked(folder: Path) -> None:
    for link in folder.glob(f"{BEST}*"):
        file = link.with_name(link.name.removeprefix(BEST))
        with suppress(OSError):
            if file.exists():
                link.unlink()
            else:
                link.rename(file)


def clear(run: Run, run_folder: Path, keep: str) -> KeptCheckpoints | None:
    """Remove the files that `keep` does not keep. None, with nothing removed, if the run can be resumed or has none."""
    folder = run_folder / CHECKPOINTS
    if run.ended != CANNOT_BE_RESUMED or not folder.is_dir():
        return None
    _unlinked(folder)
    ours = sorted(file for file in folder.iterdir() if trial_of(file.name) in run.trials)
    if not ours:
        return None
    best = None if keep == "none" else best_of(read_again(run_folder / NAME, Progress), [file.name for file in ours])
    best_files = [file for file in ours if best is not None and checkpoint_of(file.name) == (best.trial, best.epoch)]
    staying = ours if keep == "all" else best_files
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
        best=None if best is None else f"{CHECKPOINTS}/{best_files[0].name}",
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


def _graph_file(run: Run, best: Best, folder: Path) -> Path | None:
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
