"""Writing of a report into a folder: report.html, report.json, plots/*.svg, *.png and *.pdf, each file atomically."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aiperf.atomic_files import replace_file
from aiperf.errors import ReportNotWritten
from aiperf.files import shown
from aiperf.journal.journal import read
from aiperf.page.section import Section
from aiperf.report.facts import Report
from aiperf.report.figures import values
from aiperf.report.gather import gather
from aiperf.report.training_floor import HostRoofs
from aiperf.shell_command import command
from aiperf.train.checkpoints.checkpoint_files import kept


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of the written files: report.html, report.json and the files of the figures."""

    page: Path
    facts: Path
    plots: tuple[Path, ...]


def report_of(run_folder: Path, roofs: HostRoofs | None = None) -> Report:
    """Return the report of a run, computed from its journal, device samples, power meters and remaining checkpoints."""
    return dataclasses.replace(recomputed(run_folder, roofs), checkpoints=kept(run_folder))


def recomputed(run_folder: Path, roofs: HostRoofs | None = None) -> Report:
    """Return the report of a run without its checkpoint files."""
    with _without_cycle_collection():
        return gather(read(run_folder), run_folder, roofs)


@contextmanager
def _without_cycle_collection() -> Iterator[None]:
    # A fold makes millions of objects without cycles. The collector would take a fifth of its time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def write(report: Report, folder: Path, run: Path | None = None) -> Paths:
    """Write report.html, report.json and plots/ into a folder, and return their paths. Equal reports give equal bytes."""
    try:
        return _written(report, folder)
    except OSError as error:
        where = shown(error.filename or folder)
        again = command("report", str(folder if run is None else run), "--out", "DIR")
        raise ReportNotWritten(
            f"a report is written next to its journal, or into the folder of --out; {where} could not be written "
            f"({error.strerror}). The run and its journal are complete. Write the report again with: {again}"
        ) from error


def _written(report: Report, folder: Path) -> Paths:
    from aiperf.page.html import write_drawings
    from aiperf.report.html import page
    from aiperf.report.sections import sections

    shown = sections(report)
    written = write_drawings(folder, shown)
    facts = folder / "report.json"
    replace_file(facts, msgspec.json.format(msgspec.json.encode(as_document(report, shown)), indent=1))
    html = folder / "report.html"
    replace_file(html, page(report, shown).encode())
    return Paths(page=html, facts=facts, plots=tuple(written))


def as_document(report: Report, sections: Sequence[Section]) -> Any:
    """Return the content of report.json as a dict: the fields of the report, and the values of its sections."""
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    of_sections = {each.name: each.facts for each in sections if each.facts is not None}
    return {**fields, "figures": values(report), **of_sections}
