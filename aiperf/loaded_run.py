"""Python interface to a run on disk, for notebooks and scripts: `aiperf.load("runs/…")`.

All figures come from the journal, as in the report. Tables are pandas DataFrames. pandas is an optional dependency.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aiperf.errors import AiperfError
from aiperf.files import given_path
from aiperf.journal.run_folder import run_folder
from aiperf.report.facts import Report
from aiperf.report.write import report_of, write
from aiperf.run_warning import RunWarning
from aiperf.system import log

if TYPE_CHECKING:
    import pandas


class LoadedRun:
    """One run. Rates are in FLOPS, times in seconds since the start of the run, errors and shares in 0..1.

    An undefined figure is None, never zero.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: Report = report_of(folder)
        """Everything that report.json holds."""

    @property
    def name(self) -> str:
        return self.facts.run.name

    @property
    def is_valid(self) -> bool:
        """True if the score is valid: the run has ended, its window has a length, and a trial was finished and evaluated."""
        return self.facts.score.valid

    @property
    def score(self) -> float | None:
        """Score in FLOPS: operations per second in the valid window. None without a valid window."""
        return self.facts.score.flops_per_second

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the score in FLOPS, (low, high). None if none is valid, for example for a short run."""
        return self.facts.score.flops_per_second_interval

    @property
    def regulated_score(self) -> float | None:
        """Regulated score in FLOPS: score × −ln(error). None without a score or an error."""
        return self.facts.score.regulated_flops_per_second

    @property
    def error(self) -> float | None:
        """Smallest measured validation error: 1 − top-1 accuracy, 0..1. None without an evaluation or for another metric."""
        return self.facts.score.error

    @property
    def busy(self) -> float | None:
        """Share of the accelerator time spent in training and validation steps, 0..1. None without a valid window."""
        return self.facts.score.busy_share

    @property
    def mfu(self) -> float | None:
        """Model FLOPS utilization: share of the accelerators' dense peak, 0..1. None without a known peak."""
        return self.facts.utilisation.mfu

    @property
    def warnings(self) -> tuple[RunWarning, ...]:
        """Warnings with their remedies, the most critical first."""
        return self.facts.warnings

    @property
    def config(self) -> dict[str, Any]:
        return self.facts.run.config

    @cached_property
    def trials(self) -> pandas.DataFrame:
        """Table with one row per trial, indexed by its number. Raises AiperfError without pandas, as all tables."""
        return _table(self.facts.trials, "number")

    @cached_property
    def workers(self) -> pandas.DataFrame:
        """Table with one row per worker, indexed by its number."""
        return _table(self.facts.workers, "number")

    @cached_property
    def curve(self) -> pandas.DataFrame:
        """Table of the score over time in FLOPS, one row per moment, indexed by the seconds since the start of the run."""
        return _table(self.facts.curve, "at")

    @cached_property
    def telemetry(self) -> pandas.DataFrame:
        """Table with one row per sample of a device. `attrs["damaged"]` lists the lines that could not be read.

        The clocks of hosts may differ: `at` is by the clock of the sample's host.
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
        """Write the report and return the path of its page. `out`: folder. Default: the folder of the run.

        Raises ReportNotWritten if the folder cannot be written.
        """
        return write(self.facts, self.folder if out is None else given_path(str(out)), self.folder).page

    def __repr__(self) -> str:
        score = "no valid score" if self.score is None else f"{self.score:.4g} FLOPS"
        return f"<aiperf run {self.name!r}: {score}, error {self.error}>"


def load(run: str | Path) -> LoadedRun:
    """Return a run with its figures and tables.

    Args:
        run: its folder, its name under runs/, or its journal.

    Raises:
        NoSuchRun: there is no run.
        NotAJournal: another file is named, or the journal cannot be read.
        JournalDamaged: a line of the journal does not follow from the line before it.
    """
    return LoadedRun(run_folder(str(run)))


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
