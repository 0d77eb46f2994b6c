"""Report of a run: report.html, report.json, plots/*.svg, *.png and *.pdf, and the last lines that a run and `score` print."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aiperf.accounting.work_log import without_cycle_collection
from aiperf.atomic_files import replace_file
from aiperf.errors import ReportNotWritten
from aiperf.files import shown
from aiperf.journal.journal import read
from aiperf.page.section import Section
from aiperf.ranking.breaches import REAL_MACHINE
from aiperf.ranking.levels import DIVISION
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.figures import BEST_QUALITY, REGULATED, SCORE, by_name, values
from aiperf.report.gather import gather
from aiperf.report.training_floor import HostRoofs
from aiperf.run_warning import RunWarning
from aiperf.sanitize import sanitize
from aiperf.shell_command import command
from aiperf.train.checkpoints.checkpoint_files import kept
from aiperf.units import ACCURACIES, counted

MOST_WARNINGS = 6
"""Number of warnings that are printed. The report has all of them."""
_DRAW_AGAIN = (
    "repair Matplotlib (python -m pip install --force-reinstall matplotlib), or free space for its files, then write the "
    "report again (python -m aiperf report)"
)
FULL = 0.995
"""Share of the planned accelerator time from which its loss is not printed."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of the written files: report.html, report.json and the files of the figures."""

    page: Path
    facts: Path
    plots: tuple[Path, ...]
    warnings: tuple[RunWarning, ...] = ()
    """Pictures that could not be drawn."""


def report_of(run_folder: Path, roofs: HostRoofs | None = None, stated_error: float | None = None) -> Report:
    """Return the report of a run, computed from its journal, device samples, power meters and remaining checkpoints."""
    return dataclasses.replace(recomputed(run_folder, roofs, stated_error), checkpoints=kept(run_folder))


def recomputed(run_folder: Path, roofs: HostRoofs | None = None, stated_error: float | None = None) -> Report:
    """Return the report of a run without its checkpoint files."""
    with without_cycle_collection():
        return gather(read(run_folder), run_folder, roofs, stated_error)


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
    faults = {each.title: each.fault for part in shown for each in part.pictures if each.fault}
    first = next((f"first '{title}': {fault}" for title, fault in faults.items()), "")
    warning = RunWarning(f"pictures not drawn: {len(faults)}, {first}", "warning", _DRAW_AGAIN)
    return Paths(page=html, facts=facts, plots=tuple(written), warnings=(warning,) if faults else ())


def as_document(report: Report, sections: Sequence[Section]) -> Any:
    """Return the content of report.json as a dict: the fields of the report, and the values of its sections."""
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    of_sections = {each.name: each.facts for each in sections if each.facts is not None}
    return {**fields, "figures": values(report), **of_sections}


def closing_lines(report: Report, page: Path | Paths | None = None, run: str | Path | None = None) -> tuple[str, ...]:
    """Return the lines that a run prints at its end: details and warnings, then score, error and path of the report."""
    if isinstance(page, Paths):
        report, page = dataclasses.replace(report, warnings=(*page.warnings, *report.warnings)), page.page
    return tuple(sanitize(line) for line in (*_details(report), *_result(report, page, run or report.run.name)))


def _has_figures(report: Report) -> bool:
    return report.no_score is None or bool(report.workers) or report.run.is_simulated


def _details(report: Report) -> Iterator[str]:
    if not _has_figures(report):
        return
    score = report.score
    yield (
        f"window {by_name('window').text(report)} · average with the warm-up {by_name('average').text(report)} · "
        f"MFU {phrases.mfu(report)}"
    )
    if score.flops_per_second is not None and score.flops_per_second_interval is None:
        yield f"  {phrases.score_interval(report)}"
    if (lost := phrases.largest_losses(report)) is not None:
        yield f"  largest losses: {lost}"
    if (power := phrases.power(report)) is not None:
        yield f"  {power}"
    if (report.availability.share or 1.0) < FULL:
        yield f"  {phrases.availability_meaning(report)}"
    if report.checkpoints is not None:
        yield f"  checkpoints: {phrases.checkpoints(report.checkpoints)}"
    if score.wasted_flops:
        yield f"  wasted {by_name('wasted').text(report)}: repeated after a loss, not in the score"
    for warning in report.warnings[:MOST_WARNINGS]:
        yield from (f"  {line}" for line in warning.lines)
    if len(report.warnings) > MOST_WARNINGS:
        yield f"  and {len(report.warnings) - MOST_WARNINGS} more, in the report"


def _result(report: Report, page: Path | None, run: str | Path) -> Iterator[str]:
    """Yield the lines that must stay on a small screen: score, error and path last, or else why there is no score."""
    score, noise, has_figures = report.score, phrases.noise(report.run.dataset), _has_figures(report)
    if has_figures:
        from aiperf.report.sections.configuration import preset_of, standing  # imported late: takes Hydra

        yield ": ".join(part for part in standing(report) if part)
        if preset_of(report) is not None:
            yield f"  each difference: {command('check', str(run), '--division', DIVISION)}"
        elif any(breach.id != REAL_MACHINE for breach in report.breaches):
            yield f"  each rule with its fix: {command('check', str(run))}"
            if (fix := phrases.ranking_options(report.breaches)) is not None:
                yield f"  a ranked run: {fix}"
    title = phrases.score_title(report.run) if report.no_score is None else "not a score:"
    if has_figures:
        if (reach := phrases.search_reach(report)) is not None:
            yield reach
        if (beside := phrases.error_figures(report)) is not None:
            yield beside
        between = f" {phrases.score_interval(report)}" if score.flops_per_second_interval else ""
        regulated, quality = f" · regulated {REGULATED.text(report)}", f"error {phrases.error(report)}"
        if report.run.metric not in ACCURACIES:
            regulated, quality = "", f"best {phrases.metric(report.run)} {BEST_QUALITY.text(report)}"
        yield f"{title} {SCORE.text(report)}{between}{regulated}"
        yield (
            f"{quality}{f' ({noise})' if noise else ''} · "
            f"{counted(score.trials_finished, 'trial')} finished · busy {phrases.busy(report)}"
        )
    if report.fixed_network is not None:
        yield from phrases.fixed_network(report.fixed_network)
    if page is not None:
        yield f"report: {page}"
    if report.no_score is not None:
        yield report.no_score.in_words
