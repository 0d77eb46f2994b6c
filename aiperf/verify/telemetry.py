"""Telemetry beside the journal: its clock is the run's, looks follow one another, and a counter of energy never runs back.

A recorder has the time from its host's wall clock once, counted from the journal's `started_unix`, and goes on by a clock that nobody
sets. So a beginning that was moved, a run whose time was cut or stretched, and looks that were shifted over a gap stand against it.
Nobody chains telemetry: what was taken out of a file whole, or invented with care, is not found here (docs/verification.md).
"""

from __future__ import annotations

from pathlib import Path

from aiperf.accounting.work_log import WorkLog
from aiperf.system.log import Damage, Look, Sample, Session, files, read_file
from aiperf.verify.check import Notes
from aiperf.verify.finding import Checked

LAW = "telemetry is of the run's time and workers"
BEGINNING = "a recorder counts its time from the run's beginning by the wall clock"
ONE_CLOCK = "within a session both clocks go on by the same"
ORDER = "looks at a device follow one another"
PRESENT = "a worker's recorder begins by the time that the worker joins, and ends with it"
ENERGY = "a counter of energy never runs back within a session"
ROUNDING = 0.0025
"""Seconds: times are written to a thousandth."""
LATE_SECONDS = 60.0
"""By so much hosts' clocks may differ, and a recorder may outlive its worker."""


def telemetry(work_log: WorkLog, folder: Path) -> Checked:
    """Of the files in the run's folder, where there are any."""
    notes = Notes("telemetry", LAW, "looks")
    found = files(folder / "telemetry")
    if not found or work_log.started is None:
        notes.not_checked = "no telemetry lies beside the journal"
        return notes.checked()
    joined = {presence.worker: presence.joined for presence in work_log.presences}
    for file in found:
        _file(notes, file, work_log, joined)
    return notes.checked()


def _file(notes: Notes, file: Path, work_log: WorkLog, joined: dict[int, float]) -> None:
    assert work_log.started is not None
    last: dict[str, Look] = {}
    is_first = True
    for record in read_file(file):
        if isinstance(record, Damage):
            notes.add(None, LAW, f"{record.file}, line {record.line}: {record.why}", "cannot be told")
            continue
        if isinstance(record, Session):
            last = {}
            _session(notes, record, work_log, joined if is_first else {})
            is_first = False
            continue
        notes.examined += 1
        _look(notes, record, last.get(record.look.device))
        last[record.look.device] = record.look
    latest = max((one.at for one in last.values()), default=0.0)
    if latest > work_log.at + LATE_SECONDS:
        notes.add(None, PRESENT, f"{file.name}: a look at {latest!r} s; the journal ends at {work_log.at!r} s")


def _session(notes: Notes, session: Session, work_log: WorkLog, joined: dict[int, float]) -> None:
    assert work_log.started is not None
    began = session.wall_unix - session.at
    if abs(began - work_log.started.started_unix) > ROUNDING:
        notes.add(
            None,
            BEGINNING,
            f"worker {session.worker}: its recorder's time began at {began!r}, the run at {work_log.started.started_unix!r}",
        )
    if session.worker in joined and session.at > joined[session.worker] + LATE_SECONDS:
        notes.add(
            None,
            PRESENT,
            f"worker {session.worker}: its recorder began at {session.at!r} s, it joined at {joined[session.worker]!r} s",
        )


def _look(notes: Notes, sample: Sample, last: Look | None) -> None:
    session, look = sample.session, sample.look
    where = f"worker {session.worker}, device {look.device!r}, at {look.at!r} s"
    apart = (look.wall_unix - look.at) - (session.wall_unix - session.at)
    if abs(apart) > ROUNDING:
        notes.add(None, ONE_CLOCK, f"{where}: the clocks are {apart:.3f} s apart from where the session began")
    if last is None:
        return
    if look.at <= last.at:
        notes.add(None, ORDER, f"{where}: after a look at {last.at!r} s")
    before, now = last.energy_joules, look.energy_joules
    if before is not None and now is not None and now < before:
        notes.add(None, ENERGY, f"{where}: {now!r} J after {before!r} J")
