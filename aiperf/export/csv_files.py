"""CSV tables of a run, with a README that describes each column."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from aiperf.export.figures import Value, results_of_run
from aiperf.export.record import Evaluation, File, RunRecord, TrialDetails
from aiperf.journal.events import EpochFinished, Progress, Work
from aiperf.journal.journal import NAME, read
from aiperf.report.changes import morphs
from aiperf.report.facts import WorkerFacts
from aiperf.report.nodes import clock_offsets
from aiperf.sanitize import cell, sanitize
from aiperf.system import log

Row = TypeVar("Row")
Cell = str | int | float | bool | None
_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class ExportColumn(Generic[Row]):
    """One column of a table. None is an empty cell: not measured or not defined."""

    name: str
    unit: str
    """'' for a column without a unit."""
    meaning: str
    of: Callable[[Row], Cell]

    @property
    def header(self) -> str:
        """Header of the column in the table's first line: `seconds [s]`."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class ExportTable(Generic[Row]):
    """Table that is exported as one CSV file: its name, columns and rows."""

    name: str
    """Name of the file without .csv."""
    row: str
    """The thing that each row describes."""
    columns: Sequence[ExportColumn[Row]]
    rows: Callable[[], Iterable[Row]]
    """Returns the rows once, in file order."""

    def csv(self) -> Iterator[bytes]:
        """Yield the file in pieces: UTF-8, lines ending in CR LF (RFC 4180), numbers that read back exactly."""
        yield _lines([[column.header for column in self.columns]])
        kept: list[list[Cell]] = []
        for row in self.rows():
            kept.append([_cell(column.of(row)) for column in self.columns])
            if len(kept) == _LINES_AT_ONCE:
                yield _lines(kept)
                kept = []
        yield _lines(kept)

    def described(self) -> str:
        """Return a Markdown description of the columns."""
        lines = [
            f"## {self.name}.csv",
            "",
            f"One row: {self.row}.",
            "",
            "| column | unit | what it is |",
            "| --- | --- | --- |",
        ]
        return "\n".join([*lines, *(f"| {each.name} | {each.unit} | {each.meaning} |" for each in self.columns), ""])


def _cell(value: Cell) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    return cell(value) if isinstance(value, str) else value


def _lines(rows: Sequence[Sequence[Cell]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue().encode()


_OF_RUN = {
    "flops_per_second": ("FLOPS", "the score: inside the valid window"),
    "cumulative_flops_per_second": ("FLOPS", "from the run's beginning"),
    "regulated_flops_per_second": ("FLOPS", "−ln(error) × score"),
    "error": ("1", "1 − best measured validation accuracy"),
    "window_seconds": ("s", "length of the valid window"),
    "trials_finished": ("", "trials that came to their end"),
    "rounds": ("", "highest round with a finished trial"),
    "busy_share": ("1", "share of the accelerators' time in the window spent in training and validation steps"),
    "wasted_flops": ("FLOP", "work repeated after a loss"),
    "interval_freedom": ("", "degrees of freedom of the score's 95 % interval"),
    "interval_method": ("", "version of that statistic"),
}


class _Step(NamedTuple):
    """An interval of work with its epoch."""

    event: Progress | EpochFinished
    work: Work


def files(record: RunRecord) -> Iterator[File]:
    """Yield the tables and README.md."""
    tables = (
        _run(record),
        _trials(record),
        _epochs(record),
        _intervals(record),
        _workers(record),
        *((_telemetry(record),) if log.files(record.folder / "telemetry") else ()),
    )
    yield "README.md", [_readme(record, tables).encode()]
    for table in tables:
        yield f"{table.name}.csv", table.csv()


def _readme(record: RunRecord, tables: tuple[ExportTable[Any], ...]) -> str:
    notes = [
        f"# Tables of the run {sanitize(record.title)}",
        "",
        "Times are seconds since the start of the run, on its driver's clock. The run began at "
        f"{datetime.fromtimestamp(record.unix(0.0), UTC).isoformat()}. An empty cell: not measured, or not defined. "
        "Units are in brackets in the header. 1 is a share from 0 to 1.",
        "Text that a spreadsheet would read as a formula starts with an apostrophe.",
    ]
    if record.report.run.is_simulated:
        notes.append("**This run was simulated**: its times and its learning curves are not measured.")
    if record.report.run.end_reason is None:
        notes.append("The journal has no end: the run is still running, or its driver was killed.")
    for each in () if record.report.telemetry is None else record.report.telemetry.damaged:
        notes.append(
            f"{each.lines} damaged lines of {sanitize(each.file)} are left out, the first at line {each.line}: "
            f"{sanitize(each.why)}."
        )
    if not log.files(record.folder / "telemetry"):
        notes.append("There is no telemetry.csv: no telemetry was recorded.")
    return "\n\n".join(["\n".join(notes[:3]), *notes[3:], *(table.described() for table in tables)])


def _run(record: RunRecord) -> ExportTable[RunRecord]:
    run, results = record.report.run, results_of_run(record)
    columns: list[ExportColumn[RunRecord]] = [
        ExportColumn("run", "", "name of the run", lambda _: run.name),
        ExportColumn("simulated", "", "true if times and learning curves are simulated", lambda _: run.is_simulated),
        ExportColumn("started", "s since 1970, UTC", "wall clock of the driver's host", lambda _: run.started_unix),
        ExportColumn("end", "s", "end of the run, or of its journal so far", lambda _: run.end),
        ExportColumn("end_reason", "", "reason for the end; empty: the journal has no end", lambda _: run.end_reason),
        ExportColumn("resumes", "", "number of resumes by another driver", lambda _: run.resumes),
        ExportColumn("valid", "", "true if the run has a score", lambda each: each.report.score.valid),
        ExportColumn("seed", "", "of the run", lambda _: run.seed),
        ExportColumn("dataset", "", "its name", lambda _: str(run.dataset.get("name", ""))),
        ExportColumn("config_hash", "", "SHA-256 of the configuration", lambda _: run.config_hash),
        ExportColumn("duration", "s", "declared length", lambda _: run.duration_seconds),
        ExportColumn("warmup", "s", "start of the valid window", lambda _: run.warmup_seconds),
    ]
    columns += [_result(name, unit, meaning, results) for name, (unit, meaning) in _OF_RUN.items()]
    return ExportTable("run", "the run", columns, lambda: [record])


def _result(name: str, unit: str, meaning: str, results: Mapping[str, Value]) -> ExportColumn[RunRecord]:
    return ExportColumn(name, unit, meaning, lambda _: results.get(name))


def _trials(record: RunRecord) -> ExportTable[TrialDetails]:
    columns: list[ExportColumn[TrialDetails]] = [
        ExportColumn("trial", "", "its number", lambda each: each.facts.number),
        ExportColumn(
            "state", "", "finished, failed, in training, cut off, waiting or never started", lambda each: each.state
        ),
        ExportColumn("outcome", "", "as in the report", lambda each: each.facts.outcome),
        ExportColumn("reason", "", "reason of its failure or last loss", lambda each: each.facts.reason),
        ExportColumn("cause", "", "component that caused its failure", lambda each: each.cause or None),
        ExportColumn("round", "", "of its worker", lambda each: each.facts.round),
        ExportColumn("worker", "", "of its last attempt", lambda each: each.facts.worker),
        ExportColumn("attempts", "", "number of training attempts", lambda each: each.facts.attempts),
        ExportColumn("proposed", "s", "time of its proposal", lambda each: each.proposal.at),
        ExportColumn("started", "s", "its first attempt", lambda each: each.facts.started),
        ExportColumn("ended", "s", "its last attempt", lambda each: each.facts.ended),
        ExportColumn("searcher", "", "that proposed it", lambda each: each.facts.searcher),
        ExportColumn(
            "parent", "", "trial whose weights it inherits; empty: the starting graph", lambda each: each.facts.parent
        ),
        ExportColumn(
            "generation", "", "number of proposals from the starting graph to it", lambda each: each.facts.generation
        ),
        ExportColumn("morphs", "", "from the parent's graph to its own", lambda each: morphs(each.facts.morphs)),
        ExportColumn("morphs_json", "", "the same, as in the journal", lambda each: json.dumps(each.facts.morphs)),
        ExportColumn("fingerprint", "", "of its architecture", lambda each: each.facts.fingerprint),
        ExportColumn(
            "batch_size", "images", "per accelerator and step, the last it had", lambda each: each.facts.batch_size
        ),
        ExportColumn("kernel_size", "pixels", "of its tunable convolutions", lambda each: each.own_kernel),
        ExportColumn(
            "tuned_by", "", "default, startup or tpe; empty: not recorded", lambda each: each.proposal.tuned_by or None
        ),
        ExportColumn("precision", "", "of its training", lambda each: each.facts.precision),
        ExportColumn("parameters", "", "of its network", lambda each: each.facts.parameters),
        ExportColumn("forward_flops", "FLOP", "of one training image", lambda each: each.facts.forward_flops),
        ExportColumn("backward_flops", "FLOP", "of one training image", lambda each: each.facts.backward_flops),
        ExportColumn(
            "validation_flops", "FLOP", "of one validation image", lambda each: each.proposal.validation_flops
        ),
        ExportColumn("epochs", "", "finished", lambda each: each.facts.epochs),
        ExportColumn("accuracy", "1", "best measured value that counts", lambda each: each.facts.accuracy),
        ExportColumn(
            "reported_accuracy", "1", "value reported to the search", lambda each: each.facts.reported_accuracy
        ),
        ExportColumn(
            "validation_loss", "nat", "of its last epoch; empty: a detector", lambda each: each.facts.validation_loss
        ),
        ExportColumn(
            "training_images", "images", "processed, including lost attempts", lambda each: each.facts.training_images
        ),
        ExportColumn("seconds", "s", "with reported progress", lambda each: each.facts.seconds),
    ]
    return ExportTable("trials", "a proposed trial", columns, lambda: record.trials)


def _epochs(record: RunRecord) -> ExportTable[Evaluation]:
    columns: list[ExportColumn[Evaluation]] = [
        ExportColumn("trial", "", "its number", lambda each: each.trial),
        ExportColumn("attempt", "", "from 1", lambda each: each.attempt),
        ExportColumn("worker", "", "its number", lambda each: each.worker),
        ExportColumn("epoch", "", "from 1; a repeated epoch has one row for each time", lambda each: each.epoch),
        ExportColumn("at", "s", "end of the epoch", lambda each: each.at),
        ExportColumn("accuracy", "1", "quality on the validation images", lambda each: each.accuracy),
        ExportColumn("validation_loss", "nat", "cross-entropy; empty: a detector", lambda each: each.validation_loss),
        ExportColumn("training_loss", "nat", "mean over the epoch", lambda each: each.training_loss),
        ExportColumn("learning_rate", "1", "at its end", lambda each: each.learning_rate),
        ExportColumn("counts", "", "true if it ended before the declared end", lambda each: each.counts),
    ]
    return ExportTable("epochs", "a finished epoch", columns, lambda: _evaluations(record))


def _evaluations(record: RunRecord) -> list[Evaluation]:
    return sorted((each for trial in record.trials for each in trial.evaluations), key=lambda each: each.at)


def _intervals(record: RunRecord) -> ExportTable[_Step]:
    columns: list[ExportColumn[_Step]] = [
        ExportColumn("worker", "", "its number", lambda each: each.work.worker),
        ExportColumn("trial", "", "its number", lambda each: each.event.trial),
        ExportColumn("attempt", "", "from 1", lambda each: each.event.attempt),
        ExportColumn("epoch", "", "from 1", lambda each: each.event.epoch),
        ExportColumn("start", "s", "its beginning", lambda each: each.work.start),
        ExportColumn("end", "s", "its end", lambda each: each.work.end),
        ExportColumn("training_images", "images", "over all ranks", lambda each: each.work.training_images),
        ExportColumn("validation_images", "images", "over all ranks", lambda each: each.work.validation_images),
        ExportColumn("busy", "s", "of one rank in steps", lambda each: each.work.busy_seconds),
        ExportColumn(
            "communication", "s", "of the busy time: exchange not hidden", lambda each: each.work.communication_seconds
        ),
        ExportColumn("validation", "s", "of the busy time: validation", lambda each: each.work.validation_seconds),
        ExportColumn("input", "s", "waiting for images", lambda each: each.work.input_seconds),
        ExportColumn("checkpoint", "s", "stopped for a checkpoint", lambda each: each.work.checkpoint_seconds),
    ]
    return ExportTable("intervals", "work between two messages of an attempt", columns, lambda: _steps(record))


def _steps(record: RunRecord) -> Iterator[_Step]:
    """Yield the intervals in journal order, up to the last line that the report includes."""
    for event in read(record.folder / NAME, record.report.run.events):
        if isinstance(event, Progress | EpochFinished) and event.interval is not None:
            yield _Step(event, event.interval)


def _workers(record: RunRecord) -> ExportTable[WorkerFacts]:
    columns: list[ExportColumn[WorkerFacts]] = [
        ExportColumn("worker", "", "its number", lambda each: each.number),
        ExportColumn("host", "", "its leading host", lambda each: each.host),
        ExportColumn("ranks", "", "data-parallel processes", lambda each: each.ranks),
        ExportColumn("device", "", "model of the accelerator, or of the processor", lambda each: each.device),
        ExportColumn("device_memory", "B", "of one accelerator", lambda each: each.device_memory_bytes),
        ExportColumn("collective", "", "library that exchanges gradients", lambda each: each.collective),
        ExportColumn("joined", "s", "time when it was ready", lambda each: each.joined),
        ExportColumn("lost", "s", "time of its loss; empty: it stayed", lambda each: each.lost),
        ExportColumn("lost_reason", "", "reason of its loss", lambda each: each.lost_reason),
        ExportColumn("trials", "", "trials and attempts assigned to it", lambda each: each.trials),
    ]
    return ExportTable("workers", "a worker", columns, lambda: record.report.workers)


def _telemetry(record: RunRecord) -> ExportTable[log.Sample]:
    columns: list[ExportColumn[log.Sample]] = [
        ExportColumn("at", "s", "on the driver's clock, if preflight measured the host's", lambda each: each.look.at),
        ExportColumn("worker", "", "its number", lambda each: each.session.worker),
        ExportColumn("host", "", "its name", lambda each: each.session.host),
        ExportColumn("device", "", "the accelerator's id, or host", lambda each: each.device.id),
        ExportColumn("kind", "", "accelerator or host", lambda each: each.device.kind),
        ExportColumn("model", "", "in its vendor's spelling", lambda each: each.device.model),
        ExportColumn("utilisation", "1", "as its vendor counts it", lambda each: each.look.utilisation),
        ExportColumn("memory_used", "B", "of the device", lambda each: each.look.memory_used_bytes),
        ExportColumn("power", "W", "at that moment", lambda each: each.look.power_watts),
        ExportColumn("energy", "J", "a counter: use differences", lambda each: each.look.energy_joules),
        ExportColumn("clock", "MHz", "of its cores", lambda each: each.look.clock_mhz),
        ExportColumn("memory_clock", "MHz", "of its memory", lambda each: each.look.memory_clock_mhz),
        ExportColumn("temperature", "°C", "of the device", lambda each: each.look.temperature_celsius),
        ExportColumn(
            "throttle", "", "reasons of a reduced clock; empty: not reduced or not measured", lambda each: _held(each)
        ),
        ExportColumn("ecc_corrected", "", "a counter", lambda each: each.look.ecc_corrected),
        ExportColumn("ecc_uncorrected", "", "a counter", lambda each: each.look.ecc_uncorrected),
        ExportColumn("gone", "", "reason why it no longer answers", lambda each: each.look.gone),
    ]
    return ExportTable(
        "telemetry", "one sample of one device; damaged lines are left out", columns, lambda: _samples(record)
    )


def _held(sample: log.Sample) -> str | None:
    return None if sample.look.throttle is None else " ".join(sample.look.throttle)


def _samples(record: RunRecord) -> Iterator[log.Sample]:
    records = log.read(record.folder / "telemetry")
    for each in log.on_one_axis(records, clock_offsets(record.report.nodes)):
        if isinstance(each, log.Sample):
            yield each
