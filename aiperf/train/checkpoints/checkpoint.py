"""Checkpoint of a trial after an epoch: weights and optimiser state in one safetensors file, complete or absent.

Training pauses only while tensors are copied. A thread writes the file. Random states are not stored: they are derived for each
epoch from the trial's seed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
import threading
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from aiperf.atomic_files import sync_folder
from aiperf.data.batches import Waiting
from aiperf.errors import AiperfError
from aiperf.own_files import make_own_folder
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.collectives.collective import dense_view
from aiperf.train.optimiser import MOMENTUM

FORMAT = 3
"""Version of the format: tensors `weights.NAME` and `optimiser.NAME`, in format 2 `momentum.NAME`. The header has trial,
epoch, fingerprint of the graph, loss scaling as JSON, and a CRC-32 of each kind."""
_NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


class NoCheckpoint(AiperfError):
    """Error for a checkpoint that does not exist."""


class DamagedCheckpoint(AiperfError):
    """Error for a checkpoint that cannot be read, or that belongs to another trial, epoch or network."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a trial after an epoch, from which training can continue. The snapshot owns its tensors."""

    trial: int
    epoch: int
    fingerprint: str
    """Fingerprint of the graph to which the weights belong."""
    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    """Tensors of the optimiser as "<parameter>.<name in the optimiser>"."""
    scaler: Mapping[str, float | int]
    """State of the loss scaling. Empty if there is none."""

    def on_host(self) -> Snapshot:
        """Return the snapshot with its tensors in host memory. Tensors that are there already are not copied."""
        return replace(self, weights=_on_host(self.weights), optimiser=_on_host(self.optimiser))


def save(snapshot: Snapshot, folder: CheckpointFolder) -> str:
    """Write a snapshot, sync it and return the SHA-256 of the file. No partial file remains after an OSError."""
    make_own_folder(folder.path)
    final = folder.file(snapshot.trial, snapshot.epoch)
    temporary = final.with_name(f".{final.name}.{secrets.randbelow(1 << 62)}.tmp")
    try:
        sha256 = _write(_content(snapshot), temporary)
        temporary.replace(final)
        sync_folder(folder.path)
    finally:
        temporary.unlink(missing_ok=True)
    return sha256


def _content(snapshot: Snapshot) -> list[memoryview]:
    """Return the file's bytes as pieces. A piece is the tensor's own memory if its layout is the format's order.

    safetensors' own writers are slower: one holds the interpreter for 0.5 s for a ResNet-50, the other (0.8) opens the
    files itself and loses the error numbers.
    """
    layout: dict[str, object] = {}
    metadata = {
        "format": str(FORMAT),
        "trial": str(snapshot.trial),
        "epoch": str(snapshot.epoch),
        "fingerprint": snapshot.fingerprint,
        "scaler": json.dumps(dict(snapshot.scaler)),
    }
    pieces: list[memoryview] = []
    at = 0
    for kind, tensors in (("weights", snapshot.weights), ("optimiser", snapshot.optimiser)):
        parts = _in_order(tensors)
        metadata[f"{kind}_crc32"] = _checksum(metadata["scaler"], tensors, parts)
        for name, part in parts.items():
            shape = list(tensors[name].shape)
            offsets = (at, at + part.nbytes)
            layout[f"{kind}.{name}"] = {"dtype": _NAMES[tensors[name].dtype], "shape": shape, "data_offsets": offsets}
            at += part.nbytes
        pieces += parts.values()
    header = json.dumps({"__metadata__": metadata, **layout}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return [memoryview(len(header).to_bytes(8, "little") + header), *pieces]


def _in_order(tensors: Mapping[str, Tensor]) -> dict[str, memoryview]:
    """Return the tensors' bytes in row-major order. Wider types come first, so that all are aligned."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    flat = {name: tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy() for name in names}
    return {name: memoryview(content.data) for name, content in flat.items()}


def _checksum(scaler: str, tensors: Mapping[str, Tensor], parts: Mapping[str, memoryview]) -> str:
    called = [(name, str(tensors[name].dtype), *tensors[name].shape) for name in parts]
    checksum = zlib.crc32(f"{scaler}{called}".encode())
    for part in parts.values():
        checksum = zlib.crc32(part, checksum)
    return f"{checksum:08x}"


def _write(pieces: Iterable[memoryview], path: Path) -> str:
    digest = hashlib.sha256()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        for left in pieces:
            digest.update(left)
            while left:
                left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)
    return digest.hexdigest()


def load(
    folder: CheckpointFolder, trial: int, fingerprint: str, epoch: int | None = None, *, with_optimiser: bool = True
) -> Snapshot:
    """Return the snapshot of a trial after `epoch` (None: the newest), in host memory.

    `with_optimiser`: False reads the weights only. Raise NoCheckpoint if the file does not exist, and DamagedCheckpoint if it
    cannot be read or belongs to another trial, epoch or graph.
    """
    path = folder.newest(trial) if epoch is None else folder.written(trial, epoch)
    if path is None:
        after = "" if epoch is None else f" after epoch {epoch}"
        raise NoCheckpoint(
            f"no checkpoint of trial {trial}{after} in {str(folder.path)!r}: name a trial and an epoch with a file there, and "
            "remove no file during a run"
        )
    try:
        snapshot = _read(path, with_optimiser)
    except FileNotFoundError as error:
        raise NoCheckpoint(f"{str(path)!r} was removed while it was opened: remove no file during a run") from error
    except (SafetensorError, RuntimeError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(
            f"{str(path)!r} is no complete checkpoint: {error}. Use another epoch's file, or train the trial again"
        ) from error
    expected = {"trial": trial, "epoch": snapshot.epoch if epoch is None else epoch, "graph": fingerprint}
    named = {"trial": snapshot.trial, "epoch": snapshot.epoch, "graph": snapshot.fingerprint}
    if named != expected:
        raise DamagedCheckpoint(
            f"{str(path)!r} must hold {expected}, but found {named}: restore the file of this run, or train the trial again"
        )
    return snapshot


def _read(path: Path, with_optimiser: bool) -> Snapshot:
    read: dict[str, dict[str, Tensor]] = {"weights": {}, "momentum": {}, "optimiser": {}}
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        if metadata.get("format") not in ("2", str(FORMAT)):
            raise ValueError(f"its format is {metadata.get('format')!r}, but must be '2' or '{FORMAT}'")
        of_optimiser = "momentum" if metadata["format"] == "2" else "optimiser"
        kinds = ("weights", of_optimiser) if with_optimiser else ("weights",)
        for key in file.keys():  # noqa: SIM118  # no mapping
            kind, _, name = key.partition(".")
            if kind in kinds:
                read[kind][name] = file.get_tensor(key)
    for kind in kinds:
        checksum = _checksum(metadata["scaler"], read[kind], _in_order(read[kind]))
        if checksum != metadata[f"{kind}_crc32"]:
            raise ValueError(
                f"the {kind} must have the CRC-32 that was recorded when they were written, "
                f"{metadata[f'{kind}_crc32']}, but found {checksum}"
            )
    return Snapshot(
        trial=int(metadata["trial"]),
        epoch=int(metadata["epoch"]),
        fingerprint=metadata["fingerprint"],
        weights=read["weights"],
        optimiser=read["optimiser"] | {f"{name}.{MOMENTUM}": tensor for name, tensor in read["momentum"].items()},
        scaler=json.loads(metadata["scaler"]),
    )


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of one type and device share a buffer: copying, writing and reading are one operation instead of hundreds."""
    kinds: dict[tuple[torch.dtype, torch.device], list[str]] = {}
    for name, tensor in tensors.items():
        kinds.setdefault((tensor.dtype, tensor.device), []).append(name)
    copies: dict[str, Tensor] = {}
    for (dtype, device), names in kinds.items():
        piece = torch.empty(sum(tensors[name].numel() for name in names), dtype=dtype, device=device)
        at = 0
        for name in names:
            original = tensors[name]
            dense_view(original)  # refuses a layout with gaps, which would reach beyond its part of the piece
            copies[name] = piece.as_strided(original.size(), original.stride(), at)
            at += original.numel()
        with torch.no_grad():
            torch._foreach_copy_([copies[name] for name in names], [tensors[name].detach() for name in names])
    return {name: copies[name] for name in tensors}


def _on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On CUDA the copies use pinned memory and a separate stream. On the default stream they would delay the validation."""
    pieces: dict[int, torch.UntypedStorage] = {}
    moved: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.device.type == "cpu":
            moved[name] = tensor
            continue
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in pieces:
            pieces[address] = _copied_aside(storage)
        moved[name] = torch.empty(0, dtype=tensor.dtype).set_(
            pieces[address], tensor.storage_offset(), tensor.size(), tensor.stride()
        )
    return moved


def _copied_aside(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    source = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    if source.device.type != "cuda":
        return source.cpu().untyped_storage()
    side = torch.cuda.Stream(source.device)  # type: ignore[no-untyped-call]
    pinned = torch.empty(source.shape, dtype=torch.uint8, pin_memory=True)
    copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        pinned.copy_(source, non_blocking=True)
        copied.record(side)
    copied.synchronize()
    return pinned.untyped_storage()


class Writer:
    """Thread that writes checkpoints, the newest first. Replaced waiting ones are not written, a trial's last one always is."""

    def __init__(self, folder: CheckpointFolder, keep_seconds: float, waiting: Waiting = nullcontext) -> None:
        """`waiting`: gives a context manager for each wait for the device."""
        self.folder = folder
        self._waiting_for_device = waiting
        self._keep_seconds = keep_seconds
        self._changed = threading.Condition()
        self._waiting: tuple[Snapshot, Future[str | None]] | None = None
        self._finished: int | None = None
        """Trial of which the last snapshot was submitted. None again when its file is written."""
        self._over: set[int] = set()
        """Finished trials of which earlier checkpoints still exist."""
        self._last: int | None = None
        """Trial of the last written file. None if writing failed."""
        self._is_writing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def submit(self, snapshot: Snapshot) -> Future[str | None]:
        """Queue a snapshot. The future is the SHA-256 of the file on disk, or None if a newer snapshot replaced it."""
        future: Future[str | None] = Future()
        with self._changed:
            overtaken, self._waiting = self._waiting, (snapshot, future)
            self._changed.notify_all()
        if overtaken is not None:
            overtaken[1].set_result(None)
        return future

    def finish(self, trial: int) -> None:
        """Mark the trial as finished. Its checkpoints stay until another trial has one, since a resume may need them."""
        with self._changed:
            self._finished = trial
            self._changed.notify_all()

    def final_weights(self, trial: int, fingerprint: str) -> Mapping[str, Tensor]:
        """Wait for queued files, and read the newest. Raise NoCheckpoint or DamagedCheckpoint."""
        self.settle()  # its file may still be queued
        return load(self.folder, trial, fingerprint, with_optimiser=False).weights

    def settle(self, timeout: float | None = None) -> None:
        """Wait until every queued snapshot is written or has failed. After `timeout` seconds it returns without an error."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_work() and not self._is_writing, timeout)

    def close(self) -> None:
        """Write what is queued, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _has_work(self) -> bool:
        return self._waiting is not None or self._finished is not None

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._has_work() or self._is_closed)
                if not self._has_work():
                    return
                waiting, self._waiting = self._waiting, None
                finished = None
                if waiting is None:  # else it is handled after the file is written
                    finished, self._finished = self._finished, None
                self._is_writing = True
            if waiting is not None:
                self._write(*waiting)
            elif finished is not None:
                self._close_trial(finished)

    def _write(self, snapshot: Snapshot, future: Future[str | None]) -> None:
        try:
            with self._waiting_for_device():
                snapshot = snapshot.on_host()
            sha256 = save(snapshot, self.folder)
            self._last = snapshot.trial
            self._clear_up(snapshot.trial)
        except BaseException as error:  # noqa: BLE001  # raised by the future
            self._last = None
            future.set_exception(error)
        else:
            future.set_result(sha256)

    def _close_trial(self, trial: int) -> None:
        last, self._last = self._last, None
        if last == trial:  # else its last file was not written: the earlier ones are all there is
            self._over.add(trial)

    def _clear_up(self, present: int) -> None:
        """A checkpoint that cannot be removed stays. The new checkpoint is valid in any case."""
        over = self._over - {present}
        self._over -= over
        for trial, seconds in [(present, self._keep_seconds), *((trial, 0.0) for trial in over)]:
            try:
                self.folder.prune(trial, seconds)
            except OSError as error:
                with suppress(OSError):  # the log may be on the same disk
                    print(f"earlier checkpoints of trial {trial} stay: {error}", file=sys.stderr, flush=True)
