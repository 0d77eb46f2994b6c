"""CSV tables of a run. The columns are the fields of report.json and of the journal's events."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aiperf.export.record import RunRecord
from aiperf.journal.events import EpochFinished, Progress
from aiperf.journal.journal import NAME, read
from aiperf.journal.options import flat_options
from aiperf.report.facts import InWindow, TrialFacts, WorkerFacts
from aiperf.report.nodes import clock_offsets
from aiperf.sanitize import cell, sanitize
from aiperf.system import log

Row = Mapping[str, Any]
_DEVICE = ("worker", "host", "kind", "model")
_DOCUMENTED = """\
| table | one row | columns |
| --- | --- | --- |
| run.csv | the run | parameters, and `figures` in report.json |
| trials.csv | a proposed trial | fields of `trials` in report.json |
| workers.csv | a worker | fields of `workers` in report.json |
| epochs.csv | a finished epoch, repeated ones too | EpochFinished in docs/events.md |
| intervals.csv | work between two messages of an attempt | Interval in docs/events.md |
| telemetry.csv | a sample of a device | docs/report.md, "Telemetry" |

Meanings: aiperf/report/report.schema.json. Times are seconds since the start of the run, on its driver's clock. An empty cell:
not measured, or not defined. A text that a spreadsheet would read as a formula begins with an apostrophe.
"""


def write(record: RunRecord, folder: Path, out: Path) -> None:
    """Write the tables of a run as CSV files into an existing folder, with a README.md that explains the columns."""
    trials = [field.name for field in dataclasses.fields(TrialFacts) if field.name != "in_window"]
    trials += [f"in_window.{field.name}" for field in dataclasses.fields(InWindow)]
    of_epoch = [name for name in EpochFinished.__struct_fields__ if name != "interval"]
    run = {"run": record.report.run.name, "valid": record.report.score.valid} | record.parameters() | record.results()
    tables: list[tuple[str, list[str], Iterable[Row]]] = [
        ("run", list(run), [run]),
        ("trials", trials, (flat_options(_as_dict(trial)) for trial in record.report.trials)),
        ("workers", [field.name for field in dataclasses.fields(WorkerFacts)], map(_as_dict, record.report.workers)),
        ("epochs", of_epoch, map(_as_dict, epochs(record.folder, record.report.run.events))),
        ("intervals", [name for name in Progress.__struct_fields__ if name != "at"], _intervals(record)),
    ]
    if log.files(record.folder / "telemetry"):
        tables.append(("telemetry", [*_DEVICE, *log.RecordedSample.__struct_fields__], _samples(record)))
    simulated = "**This run was simulated**: its times and its learning curves are not measured.\n\n"
    head = f"# Tables of the run {sanitize(record.title)}\n\n{simulated if record.report.run.is_simulated else ''}"
    (folder / "README.md").write_text(head + _DOCUMENTED)
    for name, columns, rows in tables:
        _write_table(folder / f"{name}.csv", columns, rows)


def _write_table(path: Path, columns: list[str], rows: Iterable[Row]) -> None:
    """Write a table: UTF-8, lines ending in CR LF (RFC 4180), numbers that read back exactly."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({name: _cell(row.get(name)) for name in columns} for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value)
    return cell(value) if isinstance(value, str) else value


def _as_dict(of: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(of)
    return plain


def _steps(folder: Path, lines: int) -> Iterator[Progress | EpochFinished]:
    for event in read(folder / NAME, lines):
        if isinstance(event, Progress | EpochFinished):
            yield event


def epochs(folder: Path, lines: int) -> Iterator[EpochFinished]:
    """Yield the finished epochs of a run in journal order, in the lines of the journal that its report includes."""
    return (event for event in _steps(folder, lines) if isinstance(event, EpochFinished))


def _intervals(record: RunRecord) -> Iterator[Row]:
    for event in _steps(record.folder, record.report.run.events):
        if event.interval is not None:
            trial = {"trial": event.trial, "attempt": event.attempt, "epoch": event.epoch}
            yield trial | _as_dict(event.interval)


def _samples(record: RunRecord) -> Iterator[Row]:
    records = log.read(record.folder / "telemetry")
    for each in log.on_one_axis(records, clock_offsets(record.report.nodes)):
        if isinstance(each, log.Sample):
            named = {"worker": each.session.worker, "host": each.session.host, "kind": each.device.kind}
            yield named | {"model": each.device.model} | _as_dict(each.look)
