"""Telemetry beside the journal: whether its samples fit the work that the journal tells of, and one another.

Telemetry is not hash-chained: whoever can write the run's folder can write it anew. So little of it can contradict a journal,
and a gap in it is told, not judged. What is held against it: a recorder's clock is monotonic, a device that trains is not idle,
and an energy counter and the power samples beside it measure one thing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from aiperf.accounting.intervals import Real
from aiperf.accounting.work_log import WorkLog
from aiperf.system.log import Damage, Sample, Session, read_file
from aiperf.system.sampler import ProcessorTime
from aiperf.system.summary import GAP_INTERVALS
from aiperf.units import change, share
from aiperf.verify.check import Notes
from aiperf.verify.finding import Checked
from aiperf.verify.recorded import FOLDER, looked_into

LAW = "telemetry samples the work that the journal tells of"
MONOTONIC = "a recorder's clock never runs back"
IDLE = "a device that trains is not idle"
ENERGY = "an energy counter and the power samples beside it agree"
PROCESSORS = "what a run's programs and all others have had of a host's processors is part of the time that has passed"
KNOWN = "telemetry is of workers that joined"
BUSY, IDLE_SHARE = 0.5, 0.05
"""Of the time that samples cover: a worker that trained so much of it kept its devices busier than that."""
ENERGY_SHARE = 0.25
"""Sensors of power see a quarter of the time on some devices (arXiv:2312.02741): less than that shows nothing."""
PROCESSOR_SHARE = 0.1
"""Of the time that passed: a look takes a moment, and the kernel counts in ticks."""
LEAST_SECONDS = 10.0
"""Of samples, or of work without any: a shorter time shows nothing."""


@dataclass(slots=True)
class _Device:
    """What was seen of one."""

    kind: str
    last: float | None = None
    power: float | None = None
    counter: float | None = None
    seconds: float = 0.0
    """That samples cover."""
    used: float = 0.0
    """Utilisation · seconds."""
    told: float = 0.0
    """Seconds with a utilisation."""
    counted: float = 0.0
    """Joules by the counter, where power was sampled beside it."""
    sampled: float = 0.0
    """Joules by power samples, there."""
    first_processors: ProcessorTime | None = None
    processors: ProcessorTime | None = None
    """Of the host: the first look of the last session, and the last one."""


@dataclass(slots=True)
class _Recorded:
    """What was recorded of one worker."""

    host: str
    devices: dict[str, _Device] = field(default_factory=dict)
    covered: list[tuple[float, float]] = field(default_factory=list)


def telemetry(run: Path, work_log: WorkLog, numbers: Collection[int]) -> Checked:
    """Of a run's folder, where telemetry lies in it. `numbers`: which of its files, in their order."""
    notes = Notes("telemetry", LAW, "samples")
    none = "none lies beside the journal: energy and utilisation are nowhere to be held to anything"
    joined = {presence.worker: presence for presence in work_log.presences}
    rows = work_log.intervals
    worker, start, end, busy = rows.worker, rows.start, rows.end, rows.busy
    for file in looked_into(run, numbers, notes, none):
        for number, recorded in _read(file, notes).items():
            if number not in joined:
                notes.add(
                    None,
                    KNOWN,
                    f"{FOLDER}/{file.name} is of worker {number}, which never joined",
                    "cannot be determined",
                )
                continue
            mine = worker == number
            _gaps(notes, file.name, number, recorded, start[mine], end[mine])
            _idle(notes, number, recorded, float(busy[mine].sum()))
            _energy(notes, number, recorded)
            _processors(notes, number, recorded)
    return notes.checked()


def _read(file: Path, notes: Notes) -> dict[int, _Recorded]:
    """By worker, of one file."""
    found: dict[int, _Recorded] = {}
    session: Session | None = None
    for record in read_file(file):
        match record:
            case Damage(name, line, why):
                notes.add(None, LAW, f"{name}, line {line}: {why}", "cannot be determined")
            case Session():
                session = record
                recorded = found.setdefault(record.worker, _Recorded(record.host))
                for device in record.devices:
                    recorded.devices[device.id] = _Device(device.kind)
            case Sample():
                notes.examined += 1
                _add(record, found[record.session.worker], notes, file.name)
    assert session is not None or not found, "samples follow a session"
    return found


def _add(sample: Sample, recorded: _Recorded, notes: Notes, name: str) -> None:
    look, device = sample.look, recorded.devices[sample.device.id]
    before, device.last = device.last, look.at
    if look.processors is not None:
        device.first_processors = device.first_processors or look.processors
        device.processors = look.processors
    power, device.power = device.power, look.power_watts
    counter, device.counter = device.counter, look.energy_joules
    if before is None:
        return
    if look.at < before:
        notes.add(None, MONOTONIC, f"{FOLDER}/{name}: {sample.device.id} at {look.at!r} s after {before!r} s")
        return
    seconds = look.at - before
    if seconds > GAP_INTERVALS * sample.session.interval_seconds:
        return
    device.seconds += seconds
    recorded.covered.append((before, look.at))
    if look.utilisation is not None:
        device.used += look.utilisation * seconds
        device.told += seconds
    now, watts = look.energy_joules, look.power_watts
    if counter is not None and now is not None and now >= counter and power is not None and watts is not None:
        device.counted += now - counter
        device.sampled += (power + watts) / 2 * seconds


def _gaps(notes: Notes, name: str, number: int, recorded: _Recorded, start: Real, end: Real) -> None:
    """Work of a worker in which nothing was sampled."""
    covered = np.array(sorted(_merged(recorded.covered)), dtype=np.float64).reshape(-1, 2)
    worked = float((end - start).sum())
    sampled = sum(
        float(np.clip(np.minimum(covered[:, 1], b) - np.maximum(covered[:, 0], a), 0.0, None).sum())
        for a, b in _merged(zip(start.tolist(), end.tolist(), strict=True))
    )
    if worked - sampled > LEAST_SECONDS:
        said = (
            f"{FOLDER}/{name}: of {worked:.0f} s of work of worker {number}, {worked - sampled:.0f} s have no samples"
        )
        notes.add(None, LAW, said, "cannot be determined")


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for a, b in sorted(spans):
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged


def _idle(notes: Notes, number: int, recorded: _Recorded, busy: float) -> None:
    accelerators = [one for one in recorded.devices.values() if one.kind == "accelerator"]
    for device in accelerators or recorded.devices.values():
        if device.told < LEAST_SECONDS or busy < BUSY * device.seconds:
            continue
        if device.used / device.told < IDLE_SHARE:
            notes.add(
                None,
                IDLE,
                f"worker {number} on {recorded.host} was busy for {busy:.0f} s; a device of it was in use for "
                f"{share(device.used / device.told)} of {device.told:.0f} s",
            )


def _energy(notes: Notes, number: int, recorded: _Recorded) -> None:
    for name, device in recorded.devices.items():
        if device.sampled <= 0 or device.seconds < LEAST_SECONDS:
            continue
        off = device.counted / device.sampled - 1.0
        if abs(off) > ENERGY_SHARE:
            notes.add(
                None,
                ENERGY,
                f"{name} of worker {number}: {device.counted:.0f} J by its counter, {device.sampled:.0f} J by its power "
                f"samples in the same time ({change(off)})",
                "cannot be determined",
            )


def _processors(notes: Notes, number: int, recorded: _Recorded) -> None:
    for device in recorded.devices.values():
        first, last = device.first_processors, device.processors
        if first is None or last is None or last.passed - first.passed < LEAST_SECONDS:
            continue
        own, programs = last.own - first.own, last.programs - first.programs
        worked, passed = programs + last.kernel - first.kernel + last.stolen - first.stolen, last.passed - first.passed
        slack = PROCESSOR_SHARE * passed
        if min(own, programs) < 0 or own > programs + slack or worked > passed + slack:
            notes.add(
                None,
                PROCESSORS,
                f"worker {number} on {recorded.host}: of {passed:.0f} s of processor time that passed, {worked:.0f} s were "
                f"worked, {programs:.0f} s by programs, {own:.0f} s by this run's",
            )
