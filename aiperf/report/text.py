"""The last lines a run prints, and `aiperf score`: figures, each with its warnings beside it, and where the report is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aiperf import units
from aiperf.plain import plain
from aiperf.report import words
from aiperf.report.facts import Report

MOST_WARNINGS = 6
"""All are in the report."""
FULL = 0.995
"""With so much of the planned accelerator time there, nothing is said of it."""


def closing_lines(report: Report, page: Path | None = None) -> tuple[str, ...]:
    """What a run ends with; `page` is the report that was written, if one was."""
    return tuple(plain(line) for line in _lines(report, page))


def _lines(report: Report, page: Path | None) -> Iterator[str]:
    run, score = report.run, report.score
    between = words.score_interval(report)
    noise = words.noise(run.dataset)
    if report.no_score is not None:
        yield report.no_score.in_words
        yield f"  next: {report.no_score.remedy}"
        if not report.workers and not run.is_simulated:
            if page is not None:
                yield f"  report: {page}"
            return  # there are no figures
    yield (
        f"{words.score_title(run)} {words.score(report)}"
        + (f" ({between})" if score.flops_per_second_interval else "")
        + f" · regulated {words.regulated(report)} · error {words.error(report)}"
        + (f" ({noise})" if noise else "")
    )
    yield (
        f"  window {units.duration(score.window_seconds)} · cumulative "
        f"{units.flops_per_second(score.cumulative_flops_per_second)} · {words.trials_finished(score.trials_finished)}, "
        f"highest round {score.rounds} · busy {words.busy(report)} · MFU {words.share(report.utilisation.mfu)}"
    )
    if score.flops_per_second is not None and score.flops_per_second_interval is None:
        yield f"  {between}"
    if (lost := words.largest_losses(report)) is not None:
        yield f"  largest losses: {lost}"
    if (power := words.power(report)) is not None:
        yield f"  {power}"
    if (report.availability.share or 1.0) < FULL:
        yield f"  {words.availability_meaning(report).removesuffix('.')}"
    if report.checkpoints is not None:
        yield f"  checkpoints: {words.checkpoints(report.checkpoints)}"
    if score.wasted_flops:
        yield f"  wasted {units.operations(score.wasted_flops)}: done again after a loss, and in no score"
    for warning in report.warnings[:MOST_WARNINGS]:
        yield from (f"  {line}" for line in warning.lines)
    if len(report.warnings) > MOST_WARNINGS:
        yield f"  and {len(report.warnings) - MOST_WARNINGS} more, in the report"
    yield f"  {words.standing(report)}"
    heading, rules = words.broken_rules(report)
    if heading:
        yield f"  {heading}"
    for rule in rules:
        yield f"    {rule}"
    if page is not None:
        yield f"  report: {page}"
