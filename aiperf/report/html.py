"""The report of a run as one HTML file, which loads no network resource, no font and no script."""

from __future__ import annotations

from collections.abc import Sequence

from aiperf import units
from aiperf.page import html
from aiperf.page.html import text
from aiperf.page.section import Collapsed, Group, Items, Note, Paragraph, Section, warned
from aiperf.report import phrases
from aiperf.report.facts import Report

RELEASE = "aiperf-cluster"
"""Name of this package among a run's versions."""


def page(report: Report, sections: Sequence[Section]) -> str:
    """Return the content of report.html: header with the main results, navigation, and `sections` in their order."""
    return html.page(
        f"{report.run.name}: {phrases.score_title(report.run)} {phrases.score(report)}",
        _header(report),
        sections,
        "Computed from the run’s journal alone. Every figure is in report.json. How to read it: docs/report.md.",
        kind="simulated-run" if report.run.is_simulated else "",
    )


def _header(report: Report) -> str:
    run, score = report.run, report.score
    facts = "".join(f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in about(report))
    interval = phrases.score_interval(report)
    missing = ' class="none"' if score.flops_per_second is None or report.no_score is not None else ""
    others = [
        *_quality(report),
        ("busy time", phrases.share(score.busy_share), "of accelerator time"),
        ("MFU", phrases.mfu(report), _of_which_peak(report)),
        ("trials finished", units.count(score.trials_finished), f"up to {score.rounds} on one worker"),
        (
            "valid window",
            units.duration(score.window_seconds),
            f"after {units.duration(run.warmup_seconds)} of warm-up",
        ),
    ]
    return "\n".join(
        [
            "<header>",
            f'<p class="kind">AIPerf · run report{" · simulated" if run.is_simulated else ""}</p>',
            f"<h1>{text(run.name)}</h1>",
            f'<dl class="about">{facts}</dl>',
            '<div class="figures">',
            f'<dl class="headline"><div><dt>{text(phrases.score_title(run))}</dt><dd{missing}>{text(phrases.score(report))}'
            f"<small>{text(interval)}</small></dd></div></dl>",
            '<dl class="others">',
            *(
                f"<div><dt>{text(name)}</dt><dd>{text(value)}<small>{text(meaning)}</small></dd></div>"
                for name, value, meaning in others
            ),
            "</dl>",
            "</div>",
            html.parts_as_html((Group((_no_score(report), _standing(report), _warnings(report)), "notes"),)),
            "</header>",
        ]
    )


def _quality(report: Report) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of the figures of the quality."""
    run, error = report.run, report.score.error
    if run.metric != "top1":
        return [(phrases.metric(run), phrases.quality(report), f"best {phrases.measured(run)}, validation")]
    value, floor = ("no evaluation", "") if error is None else phrases.error_parts(error, run)
    return [
        ("regulated score", phrases.regulated(report), "−ln(error) × score"),
        ("error", value, f"best {phrases.measured(run)} top-1, validation{f': {floor}' if floor else ''}"),
    ]


def _no_score(report: Report) -> Note | None:
    if (none := report.no_score) is None:
        return None
    texts = (none.why, f"next: {none.remedy}")
    return Note("critical", "Not valid", tuple(Paragraph(_sentence(each)) for each in texts))


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def _standing(report: Report) -> Note:
    title, rest = phrases.standing_parts(report)
    heading, rules = phrases.broken_rules(report)
    parts = (
        Paragraph(rest[:1].upper() + rest[1:]) if rest else None,
        Paragraph(heading, "heading") if heading else None,
        Collapsed("each rule with its fix", (Items(tuple(rules)),)) if rules else None,
    )
    return Note("simulated" if report.run.is_simulated else "outside" if report.breaches else "clear", title, parts)


def _warnings(report: Report) -> Note:
    if report.warnings:
        return warned("Warnings about these figures", report.warnings)
    return Note("clear", "No warnings", (Paragraph("Journal and telemetry give no reason for one."),))


def _of_which_peak(report: Report) -> str:
    peak = phrases.peak(report)
    if peak is None:
        return "peak not known"
    used = report.utilisation
    kind = (
        "measured matrix product"
        if used.is_peak_measured
        else "declared peak"
        if used.is_peak_declared
        else "dense peak"
    )
    return f"of {peak}: {kind}"


def about(report: Report) -> tuple[tuple[str, str], ...]:
    """Return the properties by which a reader compares two pages, as (name, text): machine, benchmark, run and release."""
    run = report.run
    return (
        ("Machine", phrases.hardware(report.hardware)),
        ("Benchmark", benchmark(report)),
        ("Run", f"{phrases.when(run)} · {phrases.end(run)}"),
        ("Release", release(report)),
    )


def benchmark(report: Report) -> str:
    """Return text on data set, starting network and length: `digits, 8×8×1, 10 classes · starts at digits_small · 3 min, …`."""
    run, images = report.run, report.run.dataset
    shape = [images.get(name) for name in ("image", "channels", "classes")]
    size = (
        f", {shape[0]}×{shape[0]}×{shape[1]}, {shape[2]} classes"
        if all(isinstance(each, int) for each in shape)
        else ""
    )
    noise = phrases.noise(images)
    return " · ".join(
        (
            f"{images.get('name', 'unknown data set')}{size}{f', {noise}' if noise else ''}",
            f"starts at {start_network(report)}",
            f"{units.duration(run.duration_seconds)}, including {units.duration(run.warmup_seconds)} of warm-up",
        )
    )


def start_network(report: Report) -> str:
    match report.run.start_network:
        case None:
            return "a graph that this release cannot read"
        case "another":
            return f"a custom graph ({(report.run.start_fingerprint or '')[:12]}…)"
        case name:
            return name


def release(report: Report) -> str:
    """Return the versions of AIPerf and its file formats as text: `aiperf 0.2.0 · journal schema 4 · report.json version 1`."""
    version = report.run.versions.get(RELEASE)
    unknown = "no release named (simulated)" if report.run.is_simulated else "release of AIPerf not known"
    return " · ".join(
        (
            unknown if version is None else f"aiperf {version}",
            f"journal schema {report.run.journal_schema}",
            f"report.json version {report.version}",
        )
    )
