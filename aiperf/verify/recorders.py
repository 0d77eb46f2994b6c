"""The clock of telemetry against the journal's: a recorder counts its time from the run's beginning, and never sets it again.

It takes its host's wall clock once, less the journal's `started_unix`, and goes on by a clock that nobody sets. So a beginning
that was moved, a run whose time was cut or stretched, and looks that were shifted over a gap stand against it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from aiperf.accounting.work_log import WorkLog
from aiperf.system.log import Look, Sample, Session, read_file
from aiperf.verify.check import Notes
from aiperf.verify.finding import Certainty, Checked
from aiperf.verify.recorded import looked_into

LAW = "a recorder's time is the run's, by one clock"
BEGINNING = "a recorder counts its time from the run's beginning by the wall clock"
ONE_CLOCK = "within a session the wall clock that is told goes on with the run's time"
PRESENT = "a worker's recorder begins before the worker joins, and ends with the run"
ENERGY = "a counter of energy never runs back within a session"
ROUNDING = 0.0025
"""Seconds: times are written to a thousandth, and one is the difference of two."""
APART_SECONDS = 3.0
"""Preflight lets hosts' wall clocks be a second apart, and a recorder looks once more a second after its worker is gone."""
SET_SECONDS = 3600.0
"""A wall clock that was set while a run went on explains less than that; an hour is a time zone, or another day."""


def recorders(run: Path, work_log: WorkLog, numbers: Collection[int]) -> Checked:
    """Of a run's folder, where telemetry lies in it. `numbers`: which of its files, in their order."""
    notes = Notes("recorders", LAW, "sessions")
    joined = {presence.worker: presence.joined for presence in work_log.presences}
    for file in looked_into(run, numbers, notes, "no telemetry lies beside the journal"):
        _file(notes, file, work_log, joined)
    return notes.checked()


def _file(notes: Notes, file: Path, work_log: WorkLog, joined: dict[int, float]) -> None:
    last: dict[str, Look] = {}
    known: set[int] = set()
    for record in read_file(file):
        match record:
            case Session():
                notes.examined += 1
                last = {}
                _begins(notes, record, work_log)
                if record.worker not in known:  # the first: one that died was replaced while its worker worked
                    known.add(record.worker)
                    _late(notes, record.worker, "began", record.at, "it joined", joined.get(record.worker))
            case Sample():
                _goes_on(notes, record, last.get(record.look.device))
                last[record.look.device] = record.look
                session = record.session
            case _:
                pass  # damage is told by the check of its samples
    if last:
        latest = max(look.at for look in last.values())
        _late(notes, session.worker, "looked last", latest, "the journal ends", work_log.at)


def _begins(notes: Notes, session: Session, work_log: WorkLog) -> None:
    assert work_log.started is not None
    began, run = session.wall_unix - session.at, work_log.started.started_unix
    if abs(began - run) > ROUNDING:
        notes.add(None, BEGINNING, f"worker {session.worker}: its time begins at {began!r}, the run's at {run!r}")


def _late(notes: Notes, worker: int, did: str, at: float, other: str, moment: float | None) -> None:
    if moment is None or at <= moment + APART_SECONDS:
        return
    certainty: Certainty = "contradiction" if at > moment + SET_SECONDS else "cannot be determined"
    said = f"worker {worker}: its recorder {did} at {at!r} s; {other} at {moment!r} s"
    notes.add(None, PRESENT, said, certainty)


def _goes_on(notes: Notes, sample: Sample, last: Look | None) -> None:
    session, look = sample.session, sample.look
    apart = (look.wall_unix - look.at) - (session.wall_unix - session.at)
    where = f"worker {session.worker}, {look.device} at {look.at!r} s"
    if abs(apart) > ROUNDING:
        notes.add(None, ONE_CLOCK, f"{where}: the two are {apart:+.3f} s apart from where the session began")
    before, now = None if last is None else last.energy_joules, look.energy_joules
    if before is not None and now is not None and now < before:
        notes.add(None, ENERGY, f"{where}: {now!r} J after {before!r} J")
