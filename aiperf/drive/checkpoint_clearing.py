"""Removal of checkpoints: those that the journal has dropped, and at the end of a run all but the kept ones.

An order to remove a dropped checkpoint can be lost with a worker or driver. Files are chosen by their names and by the state of
their trial in the journal. Files of trials that are not in the journal are never removed.

After the end of a run the best checkpoint is kept, or those that storage.checkpoints names. RunEnded is in the journal before
any file is removed. If the driver is killed meanwhile, some or all files remain without a record in
`aiperf.train.checkpoints.checkpoint_files`. Each remaining file is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

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
"""The only reason of an end after which a run cannot be resumed (`session.resumable`)."""


@dataclass(frozen=True, slots=True)
class Best:
    """Checkpoint whose accuracy is in the journal."""

    trial: int
    epoch: int
    accuracy: float


def best_of(events: Iterable[AnyEvent | None], names: Iterable[str]) -> Best | None:
    """Return the checkpoint with the best accuracy among the files `names`.

    Of equal ones, return that of the earliest trial. None if the journal knows none of them. A repeated epoch counts
    with its latest accuracy.
    """
    existing = set(filter(None, map(checkpoint_of, names)))
    found: dict[tuple[int, int], Best] = {}
    for event in events:
        if isinstance(event, EpochFinished) and (place := (event.trial, event.epoch)) in existing:
            found[place] = Best(*place, event.accuracy)
    return min(found.values(), key=lambda one: (-one.accuracy, one.trial, one.epoch), default=None)


@dataclass(slots=True)
class BestEpoch:
    """Hard link to the checkpoint of the run's best epoch so far.

    Workers remove the file of an epoch when its successor is written, and all files of a dropped trial. The link keeps the
    weights. On a file system without hard links the best of the remaining checkpoints is kept at the end.
    """

    folder: CheckpointFolder
    best: Best | None = None
    _unwritten: dict[tuple[int, int], float] = field(default_factory=dict)
    """Accuracies of better epochs whose checkpoint is still being written."""

    @classmethod
    def of_run(cls, run_folder: Path) -> BestEpoch:
        """Continue with the link of an earlier driver. Remove a link that the journal does not know."""
        path = run_folder / CHECKPOINTS
        links = {file.name.removeprefix(BEST): file for file in path.glob(f"{BEST}*")}
        best = best_of(read_again(run_folder / NAME, Progress), links) if links else None
        for name, file in links.items():
            if best is None or checkpoint_of(name) != (best.trial, best.epoch):
                file.unlink(missing_ok=True)
        return cls(CheckpointFolder(path), best)

    def take(self, events: Sequence[AnyEvent]) -> None:
        """Link the checkpoint of each epoch that is better than all before."""
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

    def _consider(self, found: Best) -> None:
        if self.best is None or found.accuracy > self.best.accuracy:
            self._unwritten = {place: each for place, each in self._unwritten.items() if each > found.accuracy}
            self._link(found)

    def _link(self, found: Best | None) -> None:
        before = self.best
        file = None if found is None else self.folder.written(found.trial, found.epoch)
        with suppress(OSError):
            if found is not None and file is not None:
                file.with_name(f"{BEST}{file.name}").hardlink_to(file)
                self.best = found
        if found is None:
            self.best = None
        if before is not None and self.best != before:
            for old in self.folder.path.glob(f"{BEST}trial-{before.trial}.epoch-{before.epoch}.*"):
                old.unlink(missing_ok=True)


def _unlinked(folder: Path) -> None:
    """Give the linked checkpoint its own name again."""
    for link in folder.glob(f"{BEST}*"):
        file = link.with_name(link.name.removeprefix(BEST))
        with suppress(OSError):
            if file.exists():
                link.unlink()
            else:
                link.rename(file)


def clear(run: Run, run_folder: Path, keep: str) -> KeptCheckpoints | None:
    """Remove the checkpoints that storage.checkpoints does not keep.

    The journal in `run_folder` is complete by then. Return None if nothing is removed: the run can be resumed, or it
    has no checkpoints.
    """
    folder = run_folder / CHECKPOINTS
    if run.ended != CANNOT_BE_RESUMED or not folder.is_dir():
        return None
    _unlinked(folder)
    ours = sorted(file for file in folder.iterdir() if trial_of(file.name) in run.trials)
    if not ours:
        return None
    best = None if keep == "none" else best_of(read_again(run_folder / NAME, Progress), [file.name for file in ours])
    staying = [
        file for file in ours if keep == "all" or (best and checkpoint_of(file.name) == (best.trial, best.epoch))
    ]
    graph = None if best is None else _graph_file(run, best, folder)
    stays, removed, not_removed = sum(map(_size, staying)), [0, 0], 0
    for file in ours:
        if file in staying:
            continue
        size = _size(file)
        try:
            file.unlink(missing_ok=True)
            removed = [removed[0] + 1, removed[1] + size]
        except OSError:  # a failed removal must not end the run. The report counts it
            not_removed += 1
    record = KeptCheckpoints(
        keep=keep,
        files=len(staying),
        bytes=stays,
        removed_files=removed[0],
        removed_bytes=removed[1],
        not_removed=not_removed,
        best=None if best is None else f"{CHECKPOINTS}/{_name(staying, best)}",
        trial=None if best is None else best.trial,
        epoch=None if best is None else best.epoch,
        accuracy=None if best is None else best.accuracy,
        graph=None if graph is None else f"{CHECKPOINTS}/{graph.name}",
    )
    with suppress(OSError):  # a full disk: the report then has no section on kept checkpoints
        record.save(run_folder)
    return record


def forget(run_folder: Path) -> str | None:
    """Remove the record of kept checkpoints of a run that continues after its end, for example after a rollback.

    Return a warning, or None if no checkpoints were removed.
    """
    record = run_folder / CHECKPOINTS / KEPT
    if not record.exists():
        return None
    record.unlink()
    return (
        "the checkpoints of this run were removed at its end, so trials that inherit from them fail. "
        "Keep the checkpoints of a run that may be rolled back: storage.checkpoints=all"
    )


def _name(staying: Iterable[Path], best: Best) -> str:
    return next(file.name for file in staying if checkpoint_of(file.name) == (best.trial, best.epoch))


def _graph_file(run: Run, best: Best, folder: Path) -> Path | None:
    """Write the architecture next to its weights, in the format of docs/graph-format.md.

    Return None if the disk is full.
    """
    start = decode_architecture(json.dumps(run.started.start_graph))
    network = rebuilt(start, [decode_morph(morph) for morph in run.lineage(best.trial)])
    file = folder / f"trial-{best.trial}.graph.json"
    try:
        file.write_text(encode_architecture(network) + "\n", "utf-8")
    except OSError:
        return None
    return file


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # removed meanwhile
        return 0


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
    parts = [
        f"{len(names)} {text} ({', '.join(names[:NAMED])}{' …' if len(names) > NAMED else ''})"
        for text, names in (
            ("trials' dropped checkpoints were removed", removed),
            ("trials' dropped checkpoints cannot be removed", kept),
            ("files stay, since they are no checkpoints of this journal's trials", found.unknown),
        )
        if names
    ]
    return f"'{folder}': {'; '.join(parts)}" if parts else None
