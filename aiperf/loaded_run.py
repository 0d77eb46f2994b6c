"""Python interface to a run on disk, for notebooks and scripts: `aiperf.load("runs/…")`."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aiperf.errors import AiperfError
from aiperf.files import given_path
from aiperf.report.facts import Report
from aiperf.report.figures import values
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
    def figures(self) -> dict[str, float | None]:
        """Every figure by the name of `compare` and `rank`, such as 'mfu'. None if it is not measured or does not apply.

        Scores of a run without a valid score are None, as in `score`. The other figures are those of the journal.
        """
        return {
            name: value if self.is_valid or name not in OF_A_VALID_SCORE else None
            for name, value in values(self.facts).items()
        }

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
    def trials(self) -> pandas.DataFrame:
        """Table with one row per trial (training of one network), indexed by the trial's number.

        Columns: fields of `trials` in report.json. Raise AiperfError if pandas is not installed.
        """
        return _table(self.facts.trials, "number")

    @cached_property
    def workers(self) -> pandas.DataFrame:
        """Table with one row per worker (processes that train one network together), indexed by the worker's number.

        Columns: fields of `workers` in report.json. Raise AiperfError if pandas is not installed.
        """
        return _table(self.facts.workers, "number")

    @cached_property
    def curve(self) -> pandas.DataFrame:
        """Table of the score over time in FLOPS, one row per moment, indexed by the seconds since the start of the run.

        Columns: fields of `curve` in report.json. Raise AiperfError if pandas is not installed.
        """
        return _table(self.facts.curve, "at")

    @cached_property
    def telemetry(self) -> pandas.DataFrame:
        """Table with one row per telemetry sample of a device (accelerator or host). Empty if the run recorded none.

        Column `at`: seconds since the start of the run, by the clock of the sample's host. The clocks of hosts may differ.
        `attrs["damaged"]` lists the lines that could not be read. Raise AiperfError if pandas is not installed.
        """
        rows: list[dict[str, Any]] = []
        damaged: list[str] = []
        for record in log.read(self.folder / "telemetry"):
            if isinstance(record, log.Sample):
                where = {"worker": record.session.worker, "host": record.session.host, "kind": record.device.kind}
                rows.append(where | msgspec.structs.asdict(record.look))
            elif isinstance(record, log.Damage):
                damaged.append(f"{record.file}, line {record.line}: {record.why}")
        columns = ["worker", "host", "kind", *log.RecordedSample.__struct_fields__]
        table = _pandas().DataFrame(rows, columns=columns)
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


def _table(records: tuple[Any, ...], index: str) -> pandas.DataFrame:
    rows = [{each.name: getattr(record, each.name) for each in fields(record)} for record in records]
    table = _pandas().DataFrame(rows)
    return table.set_index(index) if rows else table


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise AiperfError(
            f"tables of a run are pandas DataFrames, but pandas cannot be imported ({error}). "
            "Install it: python -m pip install pandas"
        ) from error
    return pandas
