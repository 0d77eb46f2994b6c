"""A run's folder gets its report: report.html, report.json, plots/*.svg and *.png, each written whole or not at all.

matplotlib is loaded where something is drawn, and not before: most readers of a report want its figures alone.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aiperf.errors import ReportNotWritten
from aiperf.files import shown
from aiperf.journal.journal import read
from aiperf.report.architecture import graph_of
from aiperf.report.beside import Beside
from aiperf.report.facts import Report
from aiperf.report.gather import Spans, gather
from aiperf.system import telemetry
from aiperf.system.meters import Meter, read_meters
from aiperf.train.kept import kept
from aiperf.typed import command
from aiperf.units import count, share
from aiperf.whole_files import replace_file
from morphism.draw import svg

if TYPE_CHECKING:
    from aiperf.report.figure import Picture


@dataclass(frozen=True, slots=True)
class Paths:
    """What was written."""

    page: Path
    facts: Path
    plots: tuple[Path, ...]


def report_of(run_folder: Path) -> Report:
    """The facts of a run's report, from its journal and, where there are any, its telemetry and its power meters' tables.

    Raises:
        NoSuchRun: there is no journal.
        JournalDamaged: a line of it does not follow from the one before.
        BadPower: a power meter's form or table is not as it has to be.
    """

    def metered(started_unix: float, window: tuple[float, float], end: float) -> tuple[Meter, ...]:
        return read_meters(run_folder, started_unix, window, end)

    def measured(
        window: tuple[float, float], clock_offsets: Mapping[str, float], at_work: Spans
    ) -> telemetry.Telemetry | None:
        if not telemetry.files(run_folder / "telemetry"):
            return None
        records = telemetry.on_one_axis(telemetry.read(run_folder / "telemetry"), clock_offsets)
        summed = telemetry.summarise(records, window, at_work())
        return summed if summed.workers or summed.damaged else None

    with _no_cycles_sought():
        return dataclasses.replace(gather(read(run_folder), measured, metered), checkpoints=kept(run_folder))


@contextmanager
def _no_cycles_sought() -> Iterator[None]:
    # A fold makes millions of objects and no cycle; looking for some takes a fifth of its time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def write(report: Report, folder: Path, run: Path | None = None, beside: Sequence[Beside] = ()) -> Paths:
    """Writes a Report into a folder; the same Report gives the same bytes. An earlier one is replaced, file by file.

    `run`: the folder of the run, where the report is to lie elsewhere. `beside`: sections on other runs.

    Raises ReportNotWritten: the folder cannot be written.
    """
    try:
        return _written(report, folder, beside)
    except OSError as error:
        where = shown(error.filename or folder)
        again = command("report", str(folder if run is None else run), "--out", "DIR")
        raise ReportNotWritten(
            f"a report is written beside its journal, or where --out says; {where} could not be ({error.strerror}). The run "
            f"stands as it ended, with its journal; its report is made by: {again}"
        ) from error


def _written(report: Report, folder: Path, beside: Sequence[Beside]) -> Paths:
    from aiperf.report.html import page
    from aiperf.report.plots import all_pictures

    pictures = all_pictures(report)
    architecture = best_drawn(report)
    written: list[Path] = []
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for picture in (*pictures, architecture):
        for suffix, content in (("svg", None if picture.svg is None else picture.svg.encode()), ("png", picture.png)):
            path = folder / "plots" / f"{picture.name}.{suffix}"
            if content is None:
                path.unlink(
                    missing_ok=True
                )  # a report written earlier, from more of the journal, must not mix with this
            else:
                replace_file(path, content)
                written.append(path)
    facts = folder / "report.json"
    replace_file(facts, msgspec.json.format(msgspec.json.encode(as_document(report, beside)), indent=1))
    html = folder / "report.html"
    replace_file(html, page(report, pictures, architecture, beside).encode())
    return Paths(page=html, facts=facts, plots=tuple(written))


def as_document(report: Report, beside: Sequence[Beside]) -> Any:
    """What report.json holds (report.schema.json): the report's fields, and those of other runs."""
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return {**fields, **{each.name: each.facts for each in beside}}


def best_drawn(report: Report) -> Picture:
    """The best architecture as a drawing, with what morphs added or changed in another colour."""
    from aiperf.report.figure import Picture

    name, title = "architecture", "Best architecture"
    best = report.architecture
    if best is None:
        return Picture(name, title, "", "", None, None, "No evaluation yet: there is no best architecture.")
    graph = graph_of(best)
    if graph is None:
        return Picture(name, title, "", "", None, None, f"Not drawn: {best.why_not}")
    reached = next(trial.accuracy for trial in report.trials if trial.number == best.trial)
    described = f"trial {best.trial}, {share(reached or 0.0, 2)}"
    return Picture(
        name,
        title,
        f"Trial {best.trial}; in orange what its morphs added or changed. {count(len(graph.nodes))} nodes.",
        f"Drawing of the best architecture, {described}.",
        svg(graph, title=described, highlight=best.added),
        None,
    )
