"""Python interface to a run on disk, for notebooks and scripts: `aiperf.load("runs/…")`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from aiperf.accounting.score import CurvePoint
from aiperf.errors import AiperfError
from aiperf.export.csv_files import epochs
from aiperf.files import given_path
from aiperf.journal.events import EpochFinished
from aiperf.journal.options import flat_options
from aiperf.report.facts import Report, TrialFacts, WorkerFacts
from aiperf.report.figures import FIGURES
from aiperf.report.write import report_of, write
from aiperf.run_warning import RunWarning
from aiperf.system import log

if TYPE_CHECKING:
    import pandas


OF_A_VALID_SCORE = ("score", "regulated", "adjusted", "valid-flops")
"""Figures that only a run with a valid score has."""


class LoadedRun:
    """One run, read from the journal in its folder. The journal is read once, when the object is created.

    Rates are in FLOPS, times in seconds since the start of the run, errors and shares in 0..1. An undefined figure is None,
    never zero. The valid window is the time from the end of the warm-up to the end of the run.

    Tables are pandas DataFrames with the default index. Columns are numbers, truth values and texts, which Parquet and Feather
    store. A list or an object, such as the morphs of a trial, is JSON text. A missing number is NaN, a missing whole number NA.
    A table raises AiperfError if pandas is not installed.
    """

    def __init__(self, folder: Path) -> None:
        """Read the run in `folder`, which has a journal. Raise NoSuchRun or JournalDamaged if the journal cannot be read."""
        self.folder = folder
        self.facts: Report = report_of(folder)
        """Everything that report.json holds."""

    @property
    def name(self) -> str:
        """Name of the run, as recorded in its journal: usually the name of its folder."""
        return self.facts.run.name

    @property
    def is_valid(self) -> bool:
        """True if the score is valid: the run ended after its warm-up, and at least one network was trained and evaluated."""
        return self.facts.score.valid

    @property
    def score(self) -> float | None:
        """Score in FLOPS: counted floating-point operations per second of the valid window. None without a valid score."""
        return self.facts.score.flops_per_second if self.is_valid else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the score in FLOPS as (low, high). None if it cannot be estimated, as for a short run."""
        return self.facts.score.flops_per_second_interval if self.is_valid else None

    @property
    def regulated_score(self) -> float | None:
        """Regulated score in FLOPS: score × −ln(smallest validation error). None without a valid score or an error."""
        return self.facts.score.regulated_flops_per_second if self.is_valid else None

    @property
    def error(self) -> float | None:
        """Smallest validation error, 0..1: 1 − best top-1 accuracy. None without an evaluation, or with another metric."""
        return self.facts.score.error

    @property
    def busy(self) -> float | None:
        """Share of the time of all accelerators or processes spent in steps, 0..1. None without a valid window."""
        return self.facts.score.busy_share

    @property
    def mfu(self) -> float | None:
        """Model FLOPS utilization: tensor operations per second ÷ peak, 0..1. None without a known peak or a valid window."""
        return self.facts.utilisation.mfu

    @property
    def warnings(self) -> tuple[RunWarning, ...]:
        """Warnings about the run, each with its remedy, the most critical first. Empty if there are none."""
        return self.facts.warnings

    @property
    def config(self) -> dict[str, Any]:
        """Configuration in the journal's first line: values by option, nested by part (`config["schedule"]["epochs"]`)."""
        return self.facts.run.config

    @cached_property
    def figures(self) -> pandas.DataFrame:
        """Table with one row per figure, by the `name` of `compare` and `rank`, such as 'mfu'.

        Columns: name, title, value (NaN if not measured or not applicable), unit ('' for a share or a number), better ('more',
        'less' or '') and meaning. Scores of a run without a valid score are NaN, the other figures are those of the journal.
        """
        columns: dict[str, list[Any]] = {
            name: [getattr(each, name) for each in FIGURES] for name in ("name", "title", "unit", "better", "meaning")
        }
        shown = [
            each.of(self.facts) if self.is_valid or each.name not in OF_A_VALID_SCORE else None for each in FIGURES
        ]
        return _frame(columns | {"value": shown}, dict.fromkeys(columns, "string") | {"value": "float64"})

    @cached_property
    def trials(self) -> pandas.DataFrame:
        """Table with one row per trial (training of one network), by number. Columns: `trials` in report.json."""
        return _table(TrialFacts, map(msgspec.to_builtins, self.facts.trials))

    @cached_property
    def epochs(self) -> pandas.DataFrame:
        """Table with one row per finished epoch of an attempt, in the journal's order. Repeated epochs have a row each.

        Columns: fields of EpochFinished (docs/events.md) without `interval`. `at`: seconds since the start of the run.
        """
        ended = epochs(self.folder, self.facts.run.events)
        return _table(EpochFinished, map(msgspec.structs.asdict, ended), without="interval")

    @cached_property
    def workers(self) -> pandas.DataFrame:
        """Table with one row per worker (processes that train one network together). Columns: `workers` in report.json."""
        return _table(WorkerFacts, map(msgspec.to_builtins, self.facts.workers))

    @cached_property
    def curve(self) -> pandas.DataFrame:
        """Table of the score over time in FLOPS, one row per moment. Columns: `curve` in report.json."""
        return _table(CurvePoint, map(msgspec.to_builtins, self.facts.curve))

    @cached_property
    def telemetry(self) -> pandas.DataFrame:
        """Table with one row per telemetry sample of a device (accelerator or host). Empty if the run recorded none.

        Column `at`: seconds since the start of the run, by the clock of the sample's host. The clocks of hosts may differ.
        `attrs["damaged"]` lists the lines that could not be read.
        """
        damaged: list[str] = []

        def samples() -> Iterator[dict[str, Any]]:
            for record in log.read(self.folder / "telemetry"):
                if isinstance(record, log.Sample):
                    where = {"worker": record.session.worker, "host": record.session.host, "kind": record.device.kind}
                    yield where | msgspec.to_builtins(record.look)
                elif isinstance(record, log.Damage):
                    damaged.append(f"{record.file}, line {record.line}: {record.why}")

        table = _table(log.RecordedSample, samples(), {"worker": "int64", "host": "string", "kind": "string"})
        table.attrs["damaged"] = damaged
        return table

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report (report.html, report.json, plots) and return the path of report.html. An earlier report is replaced.

        `out`: folder to write. Default: the folder of the run. Raise ReportNotWritten if the folder cannot be written.
        """
        return write(self.facts, self.folder if out is None else given_path(str(out)), self.folder).page

    def __repr__(self) -> str:
        score = "no valid score" if self.score is None else f"{self.score:.4g} FLOPS"
        return f"<aiperf run {self.name!r}: {score}, error {self.error}>"


def _table(
    of: type, records: Iterable[dict[str, Any]], first: dict[str, str] | None = None, without: str = ""
) -> pandas.DataFrame:
    """Return a row per record, with a column for each field of the class `of`, also without a record."""
    types = {**(first or {}), **_types(inspect.type_info(of))}
    types.pop(without, None)
    columns: dict[str, list[Any]] = {name: [] for name in types}
    for record in records:
        flat = flat_options({name: value for name, value in record.items() if name not in types}) | record
        for name, column in columns.items():
            column.append(flat.get(name))
    return _frame(columns, types)


def _frame(columns: Mapping[str, list[Any]], types: Mapping[str, str]) -> pandas.DataFrame:
    series = _pandas().Series
    return _pandas().DataFrame(
        {
            name: series([_plain(value) for value in column] if types[name] == "string" else column, dtype=types[name])
            for name, column in columns.items()
        }
    )


def _plain(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _types(record: Any, prefix: str = "") -> dict[str, str]:
    """Return the columns of a record with their types. A part that every record has gives columns `part.field`."""
    types: dict[str, str] = {}
    for field in record.fields:
        name, of, is_optional = f"{prefix}{field.name}", field.type, False
        if isinstance(of, inspect.UnionType):
            of, is_optional = next(each for each in of.types if not isinstance(each, inspect.NoneType)), True
        match of:
            case inspect.DataclassType() if not is_optional:
                types |= _types(of, f"{name}.")
            case inspect.IntType():
                types[name] = "Int64" if is_optional else "int64"
            case inspect.FloatType():
                types[name] = "float64"
            case inspect.BoolType():
                types[name] = "boolean" if is_optional else "bool"
            case _:
                types[name] = "string"
    return types


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise AiperfError(
            f"tables of a run are pandas DataFrames, but pandas cannot be imported ({error}). "
            "Install it: python -m pip install pandas"
        ) from error
    return pandas
