"""The report of a run as one HTML file, which loads no network resource, no font and no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aiperf import units
from aiperf.page import html
from aiperf.page.html import text
from aiperf.page.section import Collapsed, Group, Items, Note, Paragraph, Section, reworded, warned
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.figures import SCORE
from aiperf.report.sections.configuration import preset_of, standing
from aiperf.report.sections.score import key_figures

RELEASE = "aiperf-cluster"
"""Name of this package among a run's versions."""


def page(report: Report, sections: Sequence[Section]) -> str:
    """Return the content of report.html: header with the main results, navigation, and `sections` in their order."""
    return html.page(
        f"{report.run.name}: {phrases.score_title(report.run)} {SCORE.text(report)}",
        _header(report),
        sections,
        "Computed from the run’s journal alone. Every figure is in report.json. How to read it: docs/report.md.",
        kind="simulated-run" if report.run.is_simulated else "",
    )


def _header(report: Report) -> str:
    run, score = report.run, report.score
    facts = "".join(f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in about(report))
    interval, words = phrases.score_interval(report), phrases.of_devices(report)
    missing = ' class="none"' if score.flops_per_second is None or report.no_score is not None else ""
    return "\n".join(
        [
            "<header>",
            f'<p class="kind">AIPerf · run report{" · simulated" if run.is_simulated else ""}</p>',
            f"<h1>{text(run.name)}</h1>",
            f'<dl class="about">{facts}</dl>',
            '<div class="figures">',
            f'<dl class="headline"><div><dt>{text(phrases.score_title(run))}</dt><dd{missing}>'
            f"{html.quantity(SCORE.text(report))}"
            f"<small><strong>{text(verdict(report))}</strong></small><small>{text(interval)}</small></dd></div></dl>",
            '<dl class="others">',
            *(
                f"<div><dt>{text(name)}</dt><dd>{html.quantity(value)}<small>{text(words(meaning))}</small></dd></div>"
                for name, value, meaning in key_figures(report)
            ),
            "</dl>",
            "</div>",
            html.parts_as_html((Group((_no_score(report), _standing(report), _warnings(report)), "notes"),)),
            "</header>",
        ]
    )


def verdict(report: Report) -> str:
    """Return what the score is worth: valid or not, ranked or not, and the runs with which it may be compared."""
    is_valid, simulated = "not valid" if report.no_score is not None else "valid", report.run.is_simulated
    ranked = "outside the ranking" if report.breaches else "may be ranked"
    division = f"division {' or '.join(report.divisions)}" if report.divisions else "equal options"
    return f"{is_valid} · {'never ranked: simulated' if simulated else ranked} · compare with runs of {division}"


def _no_score(report: Report) -> Note | None:
    if (none := report.no_score) is None:
        return None
    texts = (none.why, f"next: {none.remedy}")
    return Note("critical", "Not valid", tuple(Paragraph(_sentence(each)) for each in texts))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _standing(report: Report) -> Note:
    has_preset = preset_of(report) is not None
    title, rest = standing(report)
    heading, rules = ("", []) if has_preset else phrases.broken_rules(report)
    parts = (
        Paragraph(rest[:1].upper() + rest[1:]) if rest else None,
        Paragraph(heading, "heading") if heading else None,
        Collapsed("each rule with its fix", (Items(tuple(rules)),)) if rules else None,
    )
    is_outside = bool(report.breaches) and not has_preset
    return Note("simulated" if report.run.is_simulated else "outside" if is_outside else "clear", title, parts)


def _warnings(report: Report) -> Note:
    if report.warnings:
        note: Note = reworded(warned("", report.warnings), phrases.of_devices(report))
        critical = note.kind == "critical"
        title = f"{units.counted(len(report.warnings), 'warning')} about these figures"
        return replace(note, title=title, parts=note.parts if critical else (Collapsed("what to do", note.parts),))
    return Note("clear", "No warnings", (Paragraph("Journal and telemetry give no reason for one."),))


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
