"""A trial after an epoch, on disk: whole or not at all, and read without executing anything.

The trainer stands still only while its tensors are copied; a thread (`checkpoint_writer.py`) writes the copy. A file is written
under another name, the disk waited for, and the file renamed, so that one with a checkpoint's name is always whole, whatever
dies: process, host or power.
The file is in the safetensors format, and any of its readers reads it: tensors `weights.NAME` and `momentum.NAME`; in the
header's metadata the version of this use of it, trial, epoch, the graph's fingerprint, the loss scaling's state as JSON, and a
CRC-32 of each kind. Random numbers need no place in it: they are derived anew for each epoch from the order's seed.
Checkpoints of releases up to 0.2 (`torch.save`) are read, never written.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from aiperf.errors import AiperfError
from aiperf.train.checkpoint_files import CheckpointFolder, is_of_old_form
from aiperf.train.collectives.collective import dense_view

FORMAT = 2
"""1 was a zip of torch.save's."""
_NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}
"""What safetensors calls the types that a network's tensors have."""


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

    def on_host(self) -> Snapshot:
        """The same, in the host's memory."""
        return replace(self, weights=_on_host(self.weights), momentum=_on_host(self.momentum))


def save(snapshot: Snapshot, folder: CheckpointFolder) -> Path:
    """Writes a snapshot that is on the host, whole or not at all; from then on its file survives a loss of power.

    Raises OSError for whatever the disk refuses; nothing is left behind then.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    final = folder.file(snapshot.trial, snapshot.epoch)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    try:
        _write(_content(snapshot), temporary)
        temporary.replace(final)
        _make_names_last(folder.path)
    finally:
        temporary.unlink(missing_ok=True)
    return final


def _content(snapshot: Snapshot) -> list[memoryview]:
    """The file's bytes, piece by piece: the tensors' own memory where they lie in the format's order.

    The library that reads the format could write it too, but either in one go with the interpreter held (0.5 s of a
    ResNet-50's), or into files that it names and opens itself (0.8), whose errors have lost their number.
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
    for kind, tensors in (("weights", snapshot.weights), ("momentum", snapshot.momentum)):
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
    """Their bytes, in the order of their shapes whatever the layout in memory; the widest numbers first, so that all are
    aligned."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    flat = {name: tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy() for name in names}
    return {name: memoryview(content.data) for name, content in flat.items()}


def _checksum(scaler: str, tensors: Mapping[str, Tensor], parts: Mapping[str, memoryview]) -> str:
    """Of the tensors' bytes, of what they are called, and of the loss scaling's state."""
    called = [(name, str(tensors[name].dtype), *tensors[name].shape) for name in parts]
    found = zlib.crc32(f"{scaler}{called}".encode())
    for part in parts.values():
        found = zlib.crc32(part, found)
    return f"{found:08x}"


def _write(pieces: Iterable[memoryview], path: Path) -> None:
    """Writes them one after the other, and waits until the disk holds them."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        for left in pieces:
            while left:
                left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)


def _make_names_last(folder: Path) -> None:
    """Waits until the disk holds the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # fsync(2): a file system that has nothing to wait for here
            raise
    finally:
        os.close(descriptor)


def load(
    folder: CheckpointFolder, trial: int, fingerprint: str, epoch: int | None = None, *, with_momentum: bool = True
) -> Snapshot:
    """A trial's snapshot after an epoch, or its newest, on the host; without momentum where none is wanted.

    Nothing in the file is executed. Raises NoCheckpoint, or DamagedCheckpoint with the file's name and what is wrong with it.
    """
    path = folder.newest(trial) if epoch is None else folder.written(trial, epoch)
    if path is None:
        after = "" if epoch is None else f" after epoch {epoch}"
        raise NoCheckpoint(f"no checkpoint of trial {trial}{after} in {str(folder.path)!r}")
    try:
        snapshot = _read_old(path) if is_of_old_form(path) else _read(path, with_momentum)
    except FileNotFoundError as error:
        raise NoCheckpoint(f"{str(path)!r} was removed while it was opened") from error
    except (
        SafetensorError,
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
    ) as error:
        raise DamagedCheckpoint(f"{str(path)!r} is no whole checkpoint: {error}") from error
    expected = {"trial": trial, "epoch": snapshot.epoch if epoch is None else epoch, "graph": fingerprint}
    found = {"trial": snapshot.trial, "epoch": snapshot.epoch, "graph": snapshot.fingerprint}
    if found != expected:
        raise DamagedCheckpoint(f"{str(path)!r} should hold {expected}; found {found}")
    return snapshot


def _read(path: Path, with_momentum: bool) -> Snapshot:
    read: dict[str, dict[str, Tensor]] = {"weights": {}, "momentum": {}}
    kinds = ("weights", "momentum") if with_momentum else ("weights",)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        _hold_to_format(metadata.get("format"), FORMAT)
        for key in file.keys():  # noqa: SIM118  # no mapping
            kind, _, name = key.partition(".")
            if kind in kinds:
                read[kind][name] = file.get_tensor(key)
    for kind in kinds:
        found = _checksum(metadata["scaler"], read[kind], _in_order(read[kind]))
        if found != metadata[f"{kind}_crc32"]:
            raise ValueError(
                f"the CRC-32 of its {kind} is {found}, and was {metadata[f'{kind}_crc32']} when it was written"
            )
    return Snapshot(
        trial=int(metadata["trial"]),
        epoch=int(metadata["epoch"]),
        fingerprint=metadata["fingerprint"],
        **read,
        scaler=json.loads(metadata["scaler"]),
    )


def _read_old(path: Path) -> Snapshot:
    """A checkpoint of a release up to 0.2; nothing in it is executed (torch.load with weights_only)."""
    if not zipfile.is_zipfile(path):  # torch.load would take it for its format of before 2020, a bare pickle
        raise zipfile.BadZipFile("not a zip archive, or its end is missing")
    content = torch.load(path, map_location="cpu", weights_only=True)
    _hold_to_format(content["format"], 1)
    return Snapshot(**{name: content[name] for name in Snapshot.__dataclass_fields__})


def _hold_to_format(found: object, known: int) -> None:
    if str(found) != str(known):
        raise ValueError(f"its format is {found!r}; the one that is read here is {known}")


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the tensors' own device, which stay as they are when training goes on.

    The copies of a kind (type and device) lie in one piece of memory, so that copying, writing and reading a network is the
    work of one tensor, not of hundreds. Their layout is that of the originals.
    """
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
    """The same tensors over a copy of their memory on the host, piece by piece; themselves where they are there already."""
    pieces: dict[int, torch.UntypedStorage] = {}
    moved: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.device.type == "cpu":
            moved[name] = tensor
            continue
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in pieces:
            pieces[address] = storage.cpu()  # type: ignore[no-untyped-call]
        moved[name] = torch.empty(0, dtype=tensor.dtype).set_(
            pieces[address], tensor.storage_offset(), tensor.size(), tensor.stride()
        )
    return moved
