"""The lines of telemetry/<worker>.jsonl: written by one recorder, read by anyone.

A file is one or more sessions; a session says what is sampled, then comes a line for each device and look. A torn last
line is forgiven, since power goes off in the middle of writes. A line that is damaged is left out and told of as what it is:
the score does not depend on telemetry, and the lines around it are as good as before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiperf.files import require_file
from aiperf.system.sampler import Device, DeviceSample

SCHEMA = 1


class Session(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="session", omit_defaults=True):
    """A recorder began: all that its samples leave unsaid."""

    schema: int = SCHEMA
    host: str
    worker: int
    at: float
    """Seconds since the run began, by this host's clock; it goes on by the monotonic clock from here."""
    wall_unix: float
    interval_seconds: float
    devices: tuple[Device, ...]
    accelerators: int | None = None
    """How many accelerators the worker trains on, as it was told; None = it was not reported."""
    not_sampled: dict[str, str] = {}
    """Samplers that could not be opened, each with the reason."""
    boot_id: str | None = None
    """Of the machine: several hosts with one are containers of one machine, whose processor time is counted once."""
    process_space: str | None = None
    """Of the recorder: recorders with the same see the same processes."""


class Look(DeviceSample, frozen=True, kw_only=True, tag_field="line", tag="sample", omit_defaults=True):
    """One device at one moment."""

    at: float
    """Seconds since the run began."""
    wall_unix: float


class Sample(NamedTuple):
    """A look with the session it belongs to."""

    session: Session
    device: Device
    look: Look


class Damage(NamedTuple):
    """A line that cannot be read, or a whole file."""

    file: str
    line: int
    """From 1; 0: the file itself."""
    why: str


Record = Session | Sample | Damage

_decoder = msgspec.json.Decoder(Session | Look)
_READING = DeviceSample.__struct_fields__


def path(run_folder: Path, worker: int, host: int = 0) -> Path:
    """Where a worker's telemetry lies in a run's folder; `host`: of which of its hosts, 0 being the one that leads."""
    return run_folder / "telemetry" / (f"{worker}.{host}.jsonl" if host else f"{worker}.jsonl")


class Log:
    """An open telemetry file. What a former recorder left torn at its end is cut off: appending must not damage it."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._descriptor, _whole_lines(self._descriptor))

    def begin(self, session: Session) -> None:
        self._write(msgspec.json.encode(session) + b"\n")

    def append(self, at: float, wall_unix: float, samples: Sequence[DeviceSample]) -> None:
        """One line a sample, handed to the kernel before this returns."""
        lines = (
            Look(at=round(at, 3), wall_unix=round(wall_unix, 3), **{name: getattr(sample, name) for name in _READING})
            for sample in samples
        )
        self._write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, lines: bytes) -> None:
        while lines:
            lines = lines[os.write(self._descriptor, lines) :]


def _whole_lines(descriptor: int, block: int = 65536) -> int:
    """The length of the file up to and with its last newline."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - block)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def read(folder: Path) -> Iterator[Record]:
    """All records of all workers, file by file, each in the order it was written; nothing where there is no telemetry.

    `folder` is a run's telemetry/. What cannot be read comes as Damage, in its place.
    """
    for file in files(folder):
        yield from read_file(file)


def files(folder: Path) -> list[Path]:
    """The telemetry files of a run's telemetry/, by the numbers of their worker and of its host."""
    return sorted(folder.glob("*.jsonl"), key=lambda file: [int(part) for part in re.findall(r"\d+", file.stem)])


def read_file(file: Path) -> Iterator[Record]:
    """All records of one worker."""
    name = f"{file.parent.name}/{file.name}"
    try:
        require_file(file)
        with file.open("rb") as lines:
            yield from parse(lines, name)
    except OSError as error:
        yield Damage(name, 0, f"it cannot be read ({error.strerror})")


def parse(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """The records of one file; `name` is what damages call it."""
    session: Session | None = None
    devices: dict[str, Device] = {}
    why_not = "no session before it says what is sampled"
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return  # torn: only the last line can lack its end
        try:
            record = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield Damage(name, number, str(error))
            continue
        if isinstance(record, Session):
            session, devices = None, {}
            if record.schema != SCHEMA:
                why_not = f"it is telemetry of version {record.schema}; this program reads version {SCHEMA}"
                yield Damage(name, number, why_not)
                continue
            session, devices = record, {device.id: device for device in record.devices}
            yield session
        elif session is None:
            yield Damage(name, number, why_not)
        elif record.device not in devices:
            yield Damage(name, number, f"no session before it tells of device {record.device!r}")
        else:
            yield Sample(session, devices[record.device], record)
