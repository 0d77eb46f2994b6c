"""CSV tables of a run, with a README that describes each column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aiperf.export.column import Column, Table
from aiperf.export.figures import Value, results_of_run
from aiperf.export.files import File
from aiperf.export.record import Evaluation, RunRecord, Trial
from aiperf.journal.events import EpochFinished, Progress, Work
from aiperf.journal.journal import NAME, read
from aiperf.report.changes import morphs
from aiperf.report.facts import WorkerFacts
from aiperf.report.nodes import clock_offsets
from aiperf.sanitize import sanitize
from aiperf.system import telemetry

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
        *((_telemetry(record),) if telemetry.files(record.folder / "telemetry") else ()),
    )
    yield "README.md", [_readme(record, tables).encode()]
    for table in tables:
        yield f"{table.name}.csv", table.csv()


def _readme(record: RunRecord, tables: tuple[Table[Any], ...]) -> str:
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
    if not telemetry.files(record.folder / "telemetry"):
        notes.append("There is no telemetry.csv: no telemetry was recorded.")
    return "\n\n".join(["\n".join(notes[:3]), *notes[3:], *(table.described() for table in tables)])


def _run(record: RunRecord) -> Table[RunRecord]:
    run, found = record.report.run, results_of_run(record)
    columns: list[Column[RunRecord]] = [
        Column("run", "", "name of the run", lambda _: run.name),
        Column("simulated", "", "true if times and learning curves are simulated", lambda _: run.is_simulated),
        Column("started", "s since 1970, UTC", "wall clock of the driver's host", lambda _: run.started_unix),
        Column("end", "s", "end of the run, or of its journal so far", lambda _: run.end),
        Column("end_reason", "", "reason for the end; empty: the journal has no end", lambda _: run.end_reason),
        Column("resumes", "", "number of resumes by another driver", lambda _: run.resumes),
        Column("valid", "", "true if the run has a score", lambda each: each.report.score.valid),
        Column("seed", "", "of the run", lambda _: run.seed),
        Column("dataset", "", "its name", lambda _: str(run.dataset.get("name", ""))),
        Column("config_hash", "", "SHA-256 of the configuration", lambda _: run.config_hash),
        Column("duration", "s", "declared length", lambda _: run.duration_seconds),
        Column("warmup", "s", "start of the valid window", lambda _: run.warmup_seconds),
    ]
    columns += [_result(name, unit, meaning, found) for name, (unit, meaning) in _OF_RUN.items()]
    return Table("run", "the run", columns, lambda: [record])


def _result(name: str, unit: str, meaning: str, found: Mapping[str, Value]) -> Column[RunRecord]:
    return Column(name, unit, meaning, lambda _: found.get(name))


def _trials(record: RunRecord) -> Table[Trial]:
    columns: list[Column[Trial]] = [
        Column("trial", "", "its number", lambda each: each.facts.number),
        Column(
            "state", "", "finished, failed, in training, cut off, waiting or never started", lambda each: each.state
        ),
        Column("outcome", "", "as in the report", lambda each: each.facts.outcome),
        Column("reason", "", "reason of its failure or last loss", lambda each: each.facts.reason),
        Column("cause", "", "component that caused its failure", lambda each: each.cause or None),
        Column("round", "", "of its worker", lambda each: each.facts.round),
        Column("worker", "", "of its last attempt", lambda each: each.facts.worker),
        Column("attempts", "", "number of training attempts", lambda each: each.facts.attempts),
        Column("proposed", "s", "time of its proposal", lambda each: each.proposal.at),
        Column("started", "s", "its first attempt", lambda each: each.facts.started),
        Column("ended", "s", "its last attempt", lambda each: each.facts.ended),
        Column("searcher", "", "that proposed it", lambda each: each.facts.searcher),
        Column(
            "parent", "", "trial whose weights it inherits; empty: the starting graph", lambda each: each.facts.parent
        ),
        Column(
            "generation", "", "number of proposals from the starting graph to it", lambda each: each.facts.generation
        ),
        Column("morphs", "", "from the parent's graph to its own", lambda each: morphs(each.facts.morphs)),
        Column("morphs_json", "", "the same, as in the journal", lambda each: json.dumps(each.facts.morphs)),
        Column("fingerprint", "", "of its architecture", lambda each: each.facts.fingerprint),
        Column("batch_size", "images", "per accelerator and step, the last it had", lambda each: each.facts.batch_size),
        Column("kernel_size", "pixels", "of its tunable convolutions", lambda each: each.own_kernel),
        Column(
            "tuned_by", "", "default, startup or tpe; empty: not recorded", lambda each: each.proposal.tuned_by or None
        ),
        Column("precision", "", "of its training", lambda each: each.facts.precision),
        Column("parameters", "", "of its network", lambda each: each.facts.parameters),
        Column("forward_flops", "FLOP", "of one training image", lambda each: each.facts.forward_flops),
        Column("backward_flops", "FLOP", "of one training image", lambda each: each.facts.backward_flops),
        Column("validation_flops", "FLOP", "of one validation image", lambda each: each.proposal.validation_flops),
        Column("epochs", "", "finished", lambda each: each.facts.epochs),
        Column("accuracy", "1", "best measured value that counts", lambda each: each.facts.accuracy),
        Column("reported_accuracy", "1", "value reported to the search", lambda each: each.facts.reported_accuracy),
        Column("validation_loss", "nat", "of its last epoch", lambda each: each.facts.validation_loss),
        Column(
            "training_images", "images", "processed, including lost attempts", lambda each: each.facts.training_images
        ),
        Column("seconds", "s", "with reported progress", lambda each: each.facts.seconds),
    ]
    return Table("trials", "a proposed trial", columns, lambda: record.trials)


def _epochs(record: RunRecord) -> Table[Evaluation]:
    columns: list[Column[Evaluation]] = [
        Column("trial", "", "its number", lambda each: each.trial),
        Column("attempt", "", "from 1", lambda each: each.attempt),
        Column("worker", "", "its number", lambda each: each.worker),
        Column("epoch", "", "from 1; a repeated epoch has one row for each time", lambda each: each.epoch),
        Column("at", "s", "end of the epoch", lambda each: each.at),
        Column("accuracy", "1", "top-1 on the validation images", lambda each: each.accuracy),
        Column("validation_loss", "nat", "cross-entropy", lambda each: each.validation_loss),
        Column("training_loss", "nat", "mean over the epoch", lambda each: each.training_loss),
        Column("learning_rate", "1", "at its end", lambda each: each.learning_rate),
        Column("counts", "", "true if it ended before the declared end", lambda each: each.counts),
    ]
    return Table("epochs", "a finished epoch", columns, lambda: _evaluations(record))


def _evaluations(record: RunRecord) -> list[Evaluation]:
    return sorted((each for trial in record.trials for each in trial.evaluations), key=lambda each: each.at)


def _intervals(record: RunRecord) -> Table[_Step]:
    columns: list[Column[_Step]] = [
        Column("worker", "", "its number", lambda each: each.work.worker),
        Column("trial", "", "its number", lambda each: each.event.trial),
        Column("attempt", "", "from 1", lambda each: each.event.attempt),
        Column("epoch", "", "from 1", lambda each: each.event.epoch),
        Column("start", "s", "its beginning", lambda each: each.work.start),
        Column("end", "s", "its end", lambda each: each.work.end),
        Column("training_images", "images", "over all ranks", lambda each: each.work.training_images),
        Column("validation_images", "images", "over all ranks", lambda each: each.work.validation_images),
        Column("busy", "s", "of one rank in steps", lambda each: each.work.busy_seconds),
        Column(
            "communication", "s", "of the busy time: exchange not hidden", lambda each: each.work.communication_seconds
        ),
        Column("validation", "s", "of the busy time: validation", lambda each: each.work.validation_seconds),
        Column("input", "s", "waiting for images", lambda each: each.work.input_seconds),
        Column("checkpoint", "s", "stopped for a checkpoint", lambda each: each.work.checkpoint_seconds),
    ]
    return Table("intervals", "work between two messages of an attempt", columns, lambda: _steps(record))


def _steps(record: RunRecord) -> Iterator[_Step]:
    """Yield the intervals in journal order, up to the last line that the report includes."""
    for event in read(record.folder / NAME, record.report.run.events):
        if isinstance(event, Progress | EpochFinished) and event.interval is not None:
            yield _Step(event, event.interval)


def _workers(record: RunRecord) -> Table[WorkerFacts]:
    columns: list[Column[WorkerFacts]] = [
        Column("worker", "", "its number", lambda each: each.number),
        Column("host", "", "its leading host", lambda each: each.host),
        Column("ranks", "", "data-parallel processes", lambda each: each.ranks),
        Column("device", "", "model of the accelerator, or of the processor", lambda each: each.device),
        Column("device_memory", "B", "of one accelerator", lambda each: each.device_memory_bytes),
        Column("collective", "", "library that exchanges gradients", lambda each: each.collective),
        Column("joined", "s", "time when it was ready", lambda each: each.joined),
        Column("lost", "s", "time of its loss; empty: it stayed", lambda each: each.lost),
        Column("lost_reason", "", "reason of its loss", lambda each: each.lost_reason),
        Column("trials", "", "trials and attempts assigned to it", lambda each: each.trials),
    ]
    return Table("workers", "a worker", columns, lambda: record.report.workers)


def _telemetry(record: RunRecord) -> Table[telemetry.Sample]:
    columns: list[Column[telemetry.Sample]] = [
        Column("at", "s", "on the driver's clock, if preflight measured the host's", lambda each: each.look.at),
        Column("worker", "", "its number", lambda each: each.session.worker),
        Column("host", "", "its name", lambda each: each.session.host),
        Column("device", "", "the accelerator's id, or host", lambda each: each.device.id),
        Column("kind", "", "accelerator or host", lambda each: each.device.kind),
        Column("model", "", "in its vendor's spelling", lambda each: each.device.model),
        Column("utilisation", "1", "as its vendor counts it", lambda each: each.look.utilisation),
        Column("memory_used", "B", "of the device", lambda each: each.look.memory_used_bytes),
        Column("power", "W", "at that moment", lambda each: each.look.power_watts),
        Column("energy", "J", "a counter: use differences", lambda each: each.look.energy_joules),
        Column("clock", "MHz", "of its cores", lambda each: each.look.clock_mhz),
        Column("memory_clock", "MHz", "of its memory", lambda each: each.look.memory_clock_mhz),
        Column("temperature", "°C", "of the device", lambda each: each.look.temperature_celsius),
        Column(
            "throttle", "", "reasons of a reduced clock; empty: not reduced or not measured", lambda each: _held(each)
        ),
        Column("ecc_corrected", "", "a counter", lambda each: each.look.ecc_corrected),
        Column("ecc_uncorrected", "", "a counter", lambda each: each.look.ecc_uncorrected),
        Column("gone", "", "reason why it no longer answers", lambda each: each.look.gone),
    ]
    return Table("telemetry", "one sample of one device; damaged lines are left out", columns, lambda: _samples(record))


def _held(sample: telemetry.Sample) -> str | None:
    return None if sample.look.throttle is None else " ".join(sample.look.throttle)


def _samples(record: RunRecord) -> Iterator[telemetry.Sample]:
    records = telemetry.read(record.folder / "telemetry")
    for each in telemetry.on_one_axis(records, clock_offsets(record.report.nodes)):
        if isinstance(each, telemetry.Sample):
            yield each
