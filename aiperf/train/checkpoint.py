"""A trial after an epoch, on disk: written off the critical path, read without executing anything.

The trainer stands still only while its tensors are copied; a thread writes the copy to a temporary file, flushes it to
disk, and renames it, so that a file with a checkpoint's name is always whole. Random numbers need no place in it: they are
derived anew for each epoch from the order's seed.
"""

from __future__ import annotations

import os
import pickle
import threading
import zipfile
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from aiperf.errors import AiperfError
from aiperf.train.checkpoint_files import CheckpointFolder

FORMAT = 1


class NoCheckpoint(AiperfError):
    """The checkpoint asked for is not there."""


class DamagedCheckpoint(AiperfError):
    """A checkpoint that cannot be read, or is another trial's, epoch's or network's."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that going on after an epoch needs. The tensors are the snapshot's own."""

    trial: int
    epoch: int
    fingerprint: str
    """Of the graph that the weights belong to."""
    weights: Mapping[str, Tensor]
    momentum: Mapping[str, Tensor]
    """By the parameter's name."""
    scaler: Mapping[str, float | int]
    """The loss scaling's state; empty where there is none."""


def save(snapshot: Snapshot, folder: CheckpointFolder) -> Path:
    """Writes a snapshot, whole or not at all; when this returns the file survives the death of every process.

    Not a loss of power: waiting for the disk would stand between two trials (50–90 ms here), and a checkpoint that is gone or
    damaged is an event that a run goes on from, unlike a line of the journal.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    final = folder.file(snapshot.trial, snapshot.epoch)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    content = {
        "format": FORMAT,
        "trial": snapshot.trial,
        "epoch": snapshot.epoch,
        "fingerprint": snapshot.fingerprint,
        "weights": _on_host(snapshot.weights),
        "momentum": _on_host(snapshot.momentum),
        "scaler": dict(snapshot.scaler),
    }
    try:
        with temporary.open("wb") as file:
            torch.save(content, file)
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    return final


def load(folder: CheckpointFolder, trial: int, fingerprint: str, epoch: int | None = None) -> Snapshot:
    """A trial's snapshot after an epoch, or its newest, on the host.

    Nothing in the file is executed (torch.load with weights_only). Raises NoCheckpoint, or DamagedCheckpoint with the file's
    name and what is wrong with it.
    """
    path = folder.newest(trial) if epoch is None else folder.file(trial, epoch)
    if path is None or not path.exists():
        after = "" if epoch is None else f" after epoch {epoch}"
        raise NoCheckpoint(f"no checkpoint of trial {trial}{after} in {str(folder.path)!r}")
    try:
        if not zipfile.is_zipfile(path):  # torch.load would take it for its format of before 2020, a bare pickle
            raise zipfile.BadZipFile("not a zip archive, or its end is missing")
        content = torch.load(path, map_location="cpu", weights_only=True)
        snapshot = Snapshot(
            content["trial"],
            content["epoch"],
            content["fingerprint"],
            content["weights"],
            content["momentum"],
            content["scaler"],
        )
        version = content["format"]
    except FileNotFoundError as error:
        raise NoCheckpoint(f"{str(path)!r} was removed while it was opened") from error
    except (
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
    ) as error:
        raise DamagedCheckpoint(f"{str(path)!r} is no whole checkpoint: {error}") from error
    expected = {
        "format": FORMAT,
        "trial": trial,
        "epoch": snapshot.epoch if epoch is None else epoch,
        "graph": fingerprint,
    }
    found = {"format": version, "trial": snapshot.trial, "epoch": snapshot.epoch, "graph": snapshot.fingerprint}
    if found != expected:
        raise DamagedCheckpoint(f"{str(path)!r} should hold {expected}; found {found}")
    return snapshot


class Writer:
    """Writes snapshots in a thread of its own, one at a time, the newest of those that wait.

    A snapshot that is overtaken while it waits is never written, and its future says False: with short epochs and a slow
    disk some epochs have no checkpoint, and training goes on.
    """

    def __init__(self, folder: CheckpointFolder, keep_seconds: float) -> None:
        self.folder = folder
        self._keep_seconds = keep_seconds
        self._changed = threading.Condition()
        self._waiting: tuple[Snapshot, bool, Future[bool]] | None = None
        self._is_writing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._write, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def submit(self, snapshot: Snapshot, *, is_last: bool) -> Future[bool]:
        """True when the file stands; raises in the future what writing raised (OSError: no space left).

        `is_last`: the trial is over; its earlier checkpoints are removed.
        """
        future: Future[bool] = Future()
        with self._changed:
            overtaken, self._waiting = self._waiting, (snapshot, is_last, future)
            self._changed.notify_all()
        if overtaken is not None:
            overtaken[2].set_result(False)
        return future

    def settle(self, timeout: float | None = None) -> None:
        """Waits until nothing is waiting or being written."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is None and not self._is_writing, timeout)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _write(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting is not None or self._is_closed)
                if self._waiting is None:
                    return
                (snapshot, is_last, future), self._waiting = self._waiting, None
                self._is_writing = True
            try:
                save(snapshot, self.folder)
                self.folder.prune(snapshot.trial, 0.0 if is_last else self._keep_seconds)
            except BaseException as error:  # noqa: BLE001  # handed on to whoever waits for the file
                future.set_exception(error)
            else:
                future.set_result(True)


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the tensors' own device, which stay as they are when training goes on."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to("cpu") for name, tensor in tensors.items()}
