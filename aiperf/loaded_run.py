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
        """True if the score is valid."""
        return self.facts.score.valid

    @property
    def score(self) -> float | None:
        """Work per second in the valid window."""
        return self.facts.score.flops_per_second

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the score."""
        return self.facts.score.flops_per_second_interval

    @property
    def regulated_score(self) -> float | None:
        """The score × −ln(error)."""
        return self.facts.score.regulated_flops_per_second

    @property
    def error(self) -> float | None:
        """Smallest measured validation error."""
        return self.facts.score.error

    @property
    def busy(self) -> float | None:
        """Share of the accelerator time spent in training and validation steps."""
        return self.facts.score.busy_share

    @property
    def mfu(self) -> float | None:
        """Model FLOPS utilization."""
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
        """One row per trial."""
        return _table(self.facts.trials, "number")

    @cached_property
    def workers(self) -> pandas.DataFrame:
        """One row per worker."""
        return _table(self.facts.workers, "number")

    @cached_property
    def curve(self) -> pandas.DataFrame:
        """Score over time."""
        return _table(self.facts.curve, "at")

    @cached_property
    def telemetry(self) -> pandas.DataFrame:
        """One row per sample of a device. `attrs["damaged"]` names what could not be read.

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
        """Write the report and return the path of its page. `out`: folder. Default: the folder of the run."""
        return write(self.facts, self.folder if out is None else given_path(str(out)), self.folder).page

    def __repr__(self) -> str:
        score = "no valid score" if self.score is None else f"{self.score:.4g} FLOPS"
        return f"<aiperf run {self.name!r}: {score}, error {self.error}>"


def load(run: str | Path) -> LoadedRun:
    """Load a run.

    Args:
        run: its folder, its name under runs/, or its journal.

    Raises:
        NoSuchRun: there is no run.
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
