"""Telemetry files telemetry/WORKER.jsonl: a line for the devices, then one per device and sample. Damage is reported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiperf.files import bounded_lines, require_file
from aiperf.own_files import RUN, make_own_folder, open_own, own_folder
from aiperf.system.sampler import Device, DeviceSample, Reading

SCHEMA = 1
LONGEST_LINE = 1 << 20
"""Bytes. A session on a node with sixteen accelerators has about 10 kB."""


class Session(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="session", omit_defaults=True):
    schema: int = SCHEMA
    host: str
    worker: int
    at: Reading
    """Seconds since the start of the run, by this host's wall clock. Later samples add the monotonic clock."""
    wall_unix: Reading
    interval_seconds: Reading
    devices: tuple[Device, ...]
    accelerators: int | None = None
    """Number of accelerators that the worker trains on. None if it was not reported."""
    not_sampled: dict[str, str] = {}
    """Samplers that could not be opened, with the reason."""
    boot_id: str | None = None
    """Boot identifier of the machine. Hosts with one identifier are containers of one machine, counted once."""
    process_space: str | None = None
    """PID namespace of the recorder. Recorders in the same namespace see the same processes."""


class RecordedSample(DeviceSample, frozen=True, kw_only=True, tag_field="line", tag="sample", omit_defaults=True):
    at: Reading
    wall_unix: Reading


class Sample(NamedTuple):
    session: Session
    device: Device
    look: RecordedSample


class Damage(NamedTuple):
    file: str
    line: int
    why: str


Record = Session | Sample | Damage

_decoder = msgspec.json.Decoder(Session | RecordedSample)
_READING = DeviceSample.__struct_fields__


def path(run_folder: Path, worker: int, host: int = 0) -> Path:
    """`host`: index among the worker's hosts, 0 for the host that leads it. Each host has its own file."""
    return run_folder / "telemetry" / (f"{worker}.{host}.jsonl" if host else f"{worker}.jsonl")


class Log:
    """Telemetry file open for appending. A torn line of a previous recorder at its end is removed before the first write."""

    def __init__(self, file: Path) -> None:
        make_own_folder(file.parent)
        with own_folder(file.parent, RUN) as folder:
            self._descriptor = open_own(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, RUN, folder)
        os.ftruncate(self._descriptor, _whole_lines(self._descriptor))

    def begin(self, session: Session) -> None:
        self._write(msgspec.json.encode(session) + b"\n")

    def append(self, at: float, wall_unix: float, samples: Sequence[DeviceSample]) -> None:
        """Append one line for each sample. The kernel has the lines before the method returns."""
        lines = (
            RecordedSample(
                at=round(at, 3), wall_unix=round(wall_unix, 3), **{name: getattr(sample, name) for name in _READING}
            )
            for sample in samples
        )
        self._write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, lines: bytes) -> None:
        while lines:
            lines = lines[os.write(self._descriptor, lines) :]


def _whole_lines(descriptor: int, block: int = 65536) -> int:
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - block)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def read(folder: Path) -> Iterator[Record]:
    """Yield the records of all workers in file order. No error is raised for an unreadable file."""
    try:
        logs = files(folder)
    except OSError as error:
        yield Damage(folder.name, 0, f"it cannot be read ({error.strerror})")
        return
    for file in logs:
        yield from read_file(file)


def files(folder: Path) -> list[Path]:
    """Return the telemetry files of a folder, sorted by worker and host number."""
    try:
        logs = [Path(each) for each in os.scandir(folder) if each.name.endswith(".jsonl")]
    except FileNotFoundError:
        return []
    return sorted(logs, key=lambda file: [int(part) for part in re.findall(r"\d+", file.stem)])


def read_file(file: Path) -> Iterator[Record]:
    """Yield the records of one file. An unreadable file is yielded as one Damage."""
    name = f"{file.parent.name}/{file.name}"
    try:
        require_file(file)
        with file.open("rb") as opened:
            yield from parse(bounded_lines(opened, LONGEST_LINE), name)
    except OSError as error:
        yield Damage(name, 0, f"it cannot be read ({error.strerror})")


def parse(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """Yield the records in the lines of a file. An incomplete last line is ignored. A line of 1 MiB ends the reading."""
    session: Session | None = None
    devices: dict[str, Device] = {}
    why_not = "no valid session line before it lists the devices"
    for number, line in enumerate(lines, 1):
        if len(line) >= LONGEST_LINE:
            yield Damage(name, number, f"a line has less than {LONGEST_LINE} bytes; the rest of the file is left out")
            return
        if not line.endswith(b"\n"):
            return  # torn: only the last line can lack its newline
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
            yield Damage(name, number, f"the session line before it does not list device {record.device!r}")
        else:
            yield Sample(session, devices[record.device], record)


def on_one_axis(records: Iterable[Record], offsets: Mapping[str, float]) -> Iterator[Record]:
    """Yield the records with their times shifted to the driver's clock. `offsets`: seconds a host's clock is ahead, by host."""
    shifted: dict[int, Session] = {}
    for record in records:
        match record:
            case Session() if ahead := offsets.get(record.host):
                shifted[id(record)] = msgspec.structs.replace(record, at=record.at - ahead)
                yield shifted[id(record)]
            case Sample(session, device, look) if ahead := offsets.get(session.host):
                yield Sample(shifted[id(session)], device, msgspec.structs.replace(look, at=look.at - ahead))
            case _:
                yield record
