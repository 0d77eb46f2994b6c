"""Lines of text that a run and `aiperf score` print at the end: details and warnings, then score, error and report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aiperf.ranking.breaches import REAL_MACHINE
from aiperf.ranking.levels import DIVISION
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.figures import BEST_QUALITY, REGULATED, SCORE, by_name
from aiperf.sanitize import sanitize
from aiperf.shell_command import command

MOST_WARNINGS = 6
"""Number of warnings that are printed. The report has all of them."""
FULL = 0.995
"""Share of the planned accelerator time from which its loss is not printed."""


def closing_lines(report: Report, page: Path | None = None, run: str | Path | None = None) -> tuple[str, ...]:
    """Return the lines that a run prints at its end: details and warnings, then score, error and path of the report."""
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
    """Yield the lines that must stay on a small screen: score, error and path last."""
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
    if report.no_score is not None:
        yield report.no_score.in_words
        yield f"  next: {report.no_score.remedy}"
    if has_figures:
        between = f" ({phrases.score_interval(report)})" if score.flops_per_second_interval else ""
        regulated, quality = f" · regulated {REGULATED.text(report)}", f"error {phrases.error(report)}"
        if report.run.metric != "top1":
            regulated, quality = "", f"best {phrases.metric(report.run)} {BEST_QUALITY.text(report)}"
        yield f"{phrases.score_title(report.run)} {SCORE.text(report)}{between}{regulated}"
        yield (
            f"{quality}{f' ({noise})' if noise else ''} · "
            f"{score.trials_finished} trial{'' if score.trials_finished == 1 else 's'} finished · busy {phrases.busy(report)}"
        )
    if report.fixed_network is not None:
        yield from phrases.fixed_network(report.fixed_network)
    if page is not None:
        yield f"report: {page}"
