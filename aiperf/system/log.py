"""Telemetry files telemetry/WORKER.jsonl.gz: a line for the devices, then one per device and sample. Damage is reported."""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import IO, Any, NamedTuple

import msgspec

from aiperf.files import bounded_lines, require_file
from aiperf.own_files import RUN, make_own_folder, open_own, own_folder
from aiperf.system.sampler import Count, Device, DeviceSample, Reading

SCHEMA = 1
LONGEST_LINE = 1 << 20
"""Bytes. A session on a node with sixteen accelerators has about 10 kB."""
LARGEST_MEMBER = 1 << 24
"""Bytes of an unpacked member. A minute of a node with sixteen accelerators has about 300 kB."""


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


class Minute(RecordedSample, frozen=True, kw_only=True, tag_field="line", tag="minute", omit_defaults=True):
    """Samples of one device in one minute: time and counters of the last, means of the other numbers, and all texts."""

    columns: dict[str, tuple[Count, Reading, Reading]] = msgspec.field(default_factory=dict)
    """Number of values, least and largest value of each column with a mean."""
    throttled: dict[str, Reading] = msgspec.field(default_factory=dict)
    """Share of the samples by reason of `throttle`."""
    begins: bool = False
    """True if a start of the recorder or a gap precedes it."""


class Sample(NamedTuple):
    session: Session
    device: Device
    look: RecordedSample


class Damage(NamedTuple):
    file: str
    line: int
    why: str


Record = Session | Sample | Damage

GAP_INTERVALS = 3.0
"""Two samples that are further apart than this many intervals leave a gap."""
MINUTE = 60.0
"""Seconds of a line of Minute."""
_decoder = msgspec.json.Decoder(Session | RecordedSample | Minute)
_READING = DeviceSample.__struct_fields__
_MEANS = (
    "utilisation", "memory_used_bytes", "power_watts", "clock_mhz", "memory_clock_mhz", "temperature_celsius",
)  # fmt: skip
_LAST = ("energy_joules", "ecc_corrected", "ecc_uncorrected", "processors")
_TEXTS = ("throttle", "foreign")
_PACKED = ".jsonl.gz"
_MINUTES = ".minutes.jsonl"
_HEAD = gzip.compress(b"", mtime=0)[:8]
_PIECE = 1 << 14


def path(run_folder: Path, worker: int, host: int = 0) -> Path:
    """`host`: index among the worker's hosts, 0 for the host that leads it. Each host has its own file.

    A run that an earlier release began continues in its plain file.
    """
    plain = run_folder / "telemetry" / (f"{worker}.{host}.jsonl" if host else f"{worker}.jsonl")
    return plain if plain.exists() else plain.with_suffix(_PACKED)


def minutes_path(file: Path) -> Path:
    return file.with_name(re.sub(r"\.jsonl(\.gz)?$", _MINUTES, file.name))


class Log:
    """Telemetry file and its file of minutes, open for appending. What is torn at an end is removed before the first write.

    A file named .gz gets one gzip member a minute, any other each sample at once.
    """

    def __init__(self, file: Path) -> None:
        make_own_folder(file.parent)
        with own_folder(file.parent, RUN) as folder:
            self._descriptor, self._minutes = (
                open_own(each, os.O_RDWR | os.O_CREAT | os.O_APPEND, RUN, folder) for each in (file, minutes_path(file))
            )
        self._is_packed, self._held = file.name.endswith(_PACKED), b""
        whole = _whole_members if self._is_packed else _whole_lines
        os.ftruncate(self._descriptor, whole(self._descriptor))
        os.ftruncate(self._minutes, _whole_lines(self._minutes))
        self._condenser = Condenser(0.0)

    def begin(self, session: Session) -> None:
        line = msgspec.json.encode(session) + b"\n"
        _write(self._minutes, _lines(self._condenser.end()) + line)
        self._condenser = Condenser(GAP_INTERVALS * session.interval_seconds)
        self._held += line
        self._write_held()

    def append(self, at: float, wall_unix: float, samples: Sequence[DeviceSample]) -> None:
        """Append one line for each sample."""
        recorded = [
            RecordedSample(
                at=round(at, 3), wall_unix=round(wall_unix, 3), **{name: getattr(sample, name) for name in _READING}
            )
            for sample in samples
        ]
        self._held += _lines(recorded)
        minutes = self._condenser.add(at, recorded)
        if minutes or len(self._held) > self._is_packed * LONGEST_LINE:
            self._write_held()
        _write(self._minutes, _lines(minutes))

    def _write_held(self) -> None:
        if self._held:
            _write(self._descriptor, gzip.compress(self._held, 6, mtime=0) if self._is_packed else self._held)
            self._held = b""

    def close(self) -> None:
        self._write_held()
        _write(self._minutes, _lines(self._condenser.end()))
        os.close(self._descriptor)
        os.close(self._minutes)


class Condenser:
    """Minutes of one session. The first sample is a minute of its own, so that differences of counters begin with it."""

    def __init__(self, gap_seconds: float) -> None:
        self._gap = gap_seconds
        self._began = self._last = -math.inf
        self._held: dict[str, list[RecordedSample]] = {}

    def add(self, at: float, samples: Sequence[RecordedSample]) -> list[Minute]:
        """Return the minutes that are complete."""
        begins = at - self._last > self._gap
        complete = self.end() if begins else []
        for sample in samples:
            self._held.setdefault(sample.device, []).append(sample)
        self._last = at
        if begins or at - self._began >= MINUTE:
            complete += self.end(begins=begins)
            self._began = at
        return complete

    def end(self, *, begins: bool = False) -> list[Minute]:
        """Return the minutes of all held samples."""
        held, self._held = self._held, {}
        return [minute for looks in held.values() for minute in _condensed(looks, begins=begins)]


def _condensed(looks: Sequence[RecordedSample], *, begins: bool) -> Iterator[Minute]:
    known = [look for look in looks if look.gone is None]
    if known:
        figures: dict[str, Any] = {"device": known[-1].device, "at": known[-1].at, "wall_unix": known[-1].wall_unix}
        columns, throttled = {}, {}
        values = {name: [v for look in known if (v := getattr(look, name)) is not None] for name in _READING}
        for name in _MEANS:
            if of := values[name]:
                columns[name] = (len(of), min(of), max(of))
                figures[name] = round(fmean(of)) if name == "memory_used_bytes" else float(f"{fmean(of):.6g}")
        figures |= {name: values[name][-1] for name in _LAST if values[name]}
        for name in _TEXTS:
            if of := values[name]:
                figures[name] = tuple(sorted({text for each in of for text in each}))
        for reason in figures.get("throttle", ()):
            throttled[reason] = sum(reason in each for each in values["throttle"]) / len(values["throttle"])
        yield Minute(**figures, columns=columns, throttled=throttled, begins=begins)
    last = looks[-1]
    if last.gone is not None:
        yield Minute(device=last.device, at=last.at, wall_unix=last.wall_unix, gone=last.gone, begins=begins)


def _lines(records: Iterable[RecordedSample]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in records)


def _write(descriptor: int, content: bytes) -> None:
    """Append all of it or, if the disk is full, nothing: what is written later must not follow a torn line or member."""
    end = os.fstat(descriptor).st_size
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _members(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield content and end of each gzip member. A torn last one is left out. Raise zlib.error if one is damaged."""
    held = b""
    while True:
        unzip, content = zlib.decompressobj(wbits=31), b""
        while not unzip.eof:
            if not (held := held or file.read(_PIECE)):
                return
            content += unzip.decompress(held)
            if len(content) > LARGEST_MEMBER:
                raise zlib.error(f"a gzip member unpacks to at most {LARGEST_MEMBER} bytes")
            held = unzip.unused_data
        yield content, file.tell() - len(held)


def _whole_members(descriptor: int) -> int:
    """Return the end of the last whole member. The whole size if members follow a damaged one."""
    end, size = 0, os.fstat(descriptor).st_size
    with open(descriptor, "rb", closefd=False) as file, suppress(zlib.error):
        for _, after in _members(file):
            end = after
    return size if _HEAD in os.pread(descriptor, size - end, end)[1:] else end


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


def files(folder: Path, *, by_minute: bool = False) -> list[Path]:
    """Return the telemetry files of a folder, sorted by worker and host number. `by_minute`: their files of minutes, if any."""
    try:
        found = [Path(each) for each in os.scandir(folder) if each.name.endswith((".jsonl", _PACKED))]
    except FileNotFoundError:
        return []
    minutes = {file.name: file for file in found if file.name.endswith(_MINUTES)}
    logs = [file for file in found if file.name not in minutes]
    logs.sort(key=lambda file: [int(part) for part in re.findall(r"\d+", file.stem)])
    return [minutes.get(minutes_path(file).name, file) if by_minute else file for file in logs]


def read_file(file: Path) -> Iterator[Record]:
    """Yield the records of one file. An unreadable file is yielded as one Damage."""
    name = f"{file.parent.name}/{file.name}"
    try:
        require_file(file)
        with file.open("rb") as opened:
            packed = (line for content, _ in _members(opened) for line in BytesIO(content))
            yield from parse(packed if file.name.endswith(_PACKED) else bounded_lines(opened, LONGEST_LINE), name)
    except OSError as error:
        yield Damage(name, 0, f"it cannot be read ({error.strerror})")


def parse(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """Yield the records in the lines of a file. An incomplete last line is ignored. A line of 1 MiB ends the reading."""
    session: Session | None = None
    devices: dict[str, Device] = {}
    why_not = "no valid session line before it lists the devices"
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            if len(line) >= LONGEST_LINE:
                yield Damage(
                    name, number, f"a line has less than {LONGEST_LINE} bytes; the rest of the file is left out"
                )
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
    except zlib.error as error:
        yield Damage(name, number + 1, f"{error}; the rest of the file is left out")


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
