"""After a run's time is over nobody inherits any more: of its checkpoints the best stays, or what storage.checkpoints says.

The end stands in the journal before anything is removed. A driver that is killed in between leaves all of them, or some, and no
word of it (`aiperf.train.kept`): every one that stands is whole. Files of no trial of the journal stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aiperf.journal.events import AnyEvent, EpochFinished, Progress
from aiperf.journal.journal import NAME, read_again
from aiperf.rules.state import Run
from aiperf.train.checkpoint_files import CHECKPOINTS, checkpoint_of, trial_of
from aiperf.train.kept import KEPT, KeptCheckpoints
from morphism import Lineage, decode, decode_morph, encode, rebuild

CANNOT_BE_RESUMED = "duration"
"""The one reason of an end after which a run cannot be taken up again (`session.resumable`)."""


@dataclass(frozen=True, slots=True)
class Best:
    """A checkpoint whose accuracy the journal says."""

    trial: int
    epoch: int
    accuracy: float


def best_of(events: Iterable[AnyEvent | None], names: Iterable[str]) -> Best | None:
    """The checkpoint with the best accuracy, of these files; of equal ones the earliest trial's. None: there is none that the
    journal knows. An epoch that was trained again is as it was the last time."""
    there = set(filter(None, map(checkpoint_of, names)))
    found: dict[tuple[int, int], Best] = {}
    for event in events:
        if isinstance(event, EpochFinished) and (place := (event.trial, event.epoch)) in there:
            found[place] = Best(*place, event.accuracy)
    return min(found.values(), key=lambda one: (-one.accuracy, one.trial, one.epoch), default=None)


def clear(run: Run, run_folder: Path, keep: str) -> KeptCheckpoints | None:
    """Removes what is not to stay; the journal in the run's folder is whole by then. None: all stays, since the run can be
    resumed; or it has written none."""
    folder = run_folder / CHECKPOINTS
    if run.ended != CANNOT_BE_RESUMED or not folder.is_dir():
        return None
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
        except OSError:  # a disk that lets nothing go ends no run; it is told
            not_removed += 1
    said = KeptCheckpoints(
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
    with suppress(OSError):  # a full disk: the files are as they are, and the report says nothing of them
        said.save(run_folder)
    return said


def forget(run_folder: Path) -> str | None:
    """For a run that goes on though its checkpoints were cleared, as after a rollback; gives what there is to tell."""
    said = run_folder / CHECKPOINTS / KEPT
    if not said.exists():
        return None
    said.unlink()
    return (
        "the checkpoints of this run were removed at its end; trials that would inherit from them fail. "
        "Who wants to roll a run back keeps them: storage.checkpoints=all"
    )


def _name(staying: Iterable[Path], best: Best) -> str:
    return next(file.name for file in staying if checkpoint_of(file.name) == (best.trial, best.epoch))


def _graph_file(run: Run, best: Best, folder: Path) -> Path | None:
    """The architecture beside its weights, in the form of docs/graph-format.md. None: the disk refused it."""
    start = decode(json.dumps(run.started.start_graph))
    graph = rebuild(Lineage(start, tuple(decode_morph(morph) for morph in run.lineage(best.trial))))
    file = folder / f"trial-{best.trial}.graph.json"
    try:
        file.write_text(encode(graph) + "\n", "utf-8")
    except OSError:
        return None
    return file


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # gone meanwhile
        return 0
