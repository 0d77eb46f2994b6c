"""The report as one HTML file that needs nothing else: no network, no font, no script to be read.

Formats what `facts`, `tables` and the figures hold; no arithmetic. Every text goes through `_text`, whether it came out of a
journal or not: nobody has to remember which did.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape as _escaped
from importlib.resources import files

from aiperf import units
from aiperf.plain import plain_lines
from aiperf.report import palette, tables, words
from aiperf.report.facts import Report
from aiperf.report.figure import Picture, inline
from aiperf.report.tables import Cell, Column, Table

SECTIONS = (
    ("score", "Score"),
    ("error", "Error"),
    ("time", "Time"),
    ("workers", "Workers"),
    ("accelerators", "Accelerators"),
    ("devices", "Utilisation"),
    ("operations", "Operations"),
    ("tree", "Tree"),
    ("architecture", "Best architecture"),
    ("trials", "Trials"),
    ("system", "System"),
    ("configuration", "Configuration"),
)


def policy(script: str) -> str:
    """The page forbids itself to load anything, and to run any script but this one: whatever a journal's text may become."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _text(text: str) -> str:
    """A text as part of the page, between tags or in a quoted attribute."""
    return _escaped(plain_lines(text), quote=True)


def page(report: Report, pictures: Sequence[Picture], architecture: Picture) -> str:
    """The whole file. `pictures` are named as in SECTIONS; `architecture` is the best one, drawn."""
    by_name = {picture.name: picture for picture in pictures}
    resources = files("aiperf.report")
    style = resources.joinpath("page.css").read_text("utf-8")
    script = "\n" + resources.joinpath("page.js").read_text("utf-8")
    telemetry = tables.telemetry(report)
    sections = [
        _section("score", "Score over time", [_figure(by_name["score"]), _table(tables.result(report))]),
        _section("error", "Error over time", [_figure(by_name["error"])]),
        _section("time", "Where the time went", [_time(report)]),
        _section("workers", "Workers over time", [_figure(by_name["workers"])]),
        _section(
            "accelerators",
            "Accelerators over time",
            [_figure(by_name["accelerators"]), _table(tables.availability(report))],
        ),
        _section("devices", "Utilisation and memory over time", [_figure(by_name["devices"]), _devices(telemetry)]),
        _section("operations", "Accuracy against operations", [_figure(by_name["operations"])]),
        _section("tree", "Tree of architectures", [_figure(by_name["tree"])]),
        _section("architecture", "Best architecture", [_architecture(report, architecture)]),
        _section("trials", "Trials", [_trials(report)]),
        _section("system", "System", [_nodes(report), _beside([*tables.systems(report), tables.versions(report)])]),
        _section("configuration", "Run and configuration", [_table(tables.run(report)), _configuration(report)]),
    ]
    title = f"{report.run.name}: {words.score_title(report.run)} {words.score(report)}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{_text(title)}</title>",
            f"<style>\n:root {{ color-scheme: light dark; {palette.as_css(dark=False)} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {palette.as_css(dark=True)} }} }}",
            f"{style}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#main">To the figures</a>',
            _header(report),
            _navigation(),
            '<main id="main">',
            *sections,
            "</main>",
            "<footer><p>Computed from the run’s journal alone; every figure is in report.json. "
            "How to read it: docs/report.md.</p></footer>",
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _header(report: Report) -> str:
    run, score = report.run, report.score
    noise = words.noise(run.dataset)
    dataset = f"{run.dataset.get('name', 'unknown data set')}{f' ({noise})' if noise else ''}"
    workers = len(report.workers)
    about = (
        f"{dataset} · {units.count(workers)} worker{'' if workers == 1 else 's'} · {words.when(run)} · {words.end(run)}"
    )
    interval = words.score_interval(report)
    missing = ' class="none"' if score.flops_per_second is None else ""
    others = [
        ("regulated score", words.regulated(report), "−ln(error) × score"),
        ("error", words.error(report), "best top-1, validation"),
        ("busy share", words.share(score.busy_share), "of accelerator time"),
        ("MFU", words.share(report.utilisation.mfu), _of_which_peak(report)),
        ("trials finished", units.count(score.trials_finished), f"highest round {score.rounds}"),
        (
            "valid window",
            units.duration(score.window_seconds),
            f"after {units.duration(run.warmup_seconds)} of warm-up",
        ),
    ]
    return "\n".join(
        [
            "<header>",
            '<p class="kind">AIPerf · run report</p>',
            f"<h1>{_text(run.name)}</h1>",
            f'<p class="about">{_text(about)}</p>',
            '<div class="figures">',
            f'<dl class="headline"><div><dt>{_text(words.score_title(run))}</dt><dd{missing}>{_text(words.score(report))}'
            f"<small>{_text(interval)}</small></dd></div></dl>",
            '<dl class="others">',
            *(
                f"<div><dt>{_text(name)}</dt><dd>{_text(value)}<small>{_text(meaning)}</small></dd></div>"
                for name, value, meaning in others
            ),
            "</dl>",
            "</div>",
            f'<div class="notes">{_standing(report)}{_doubts(report)}</div>',
            "</header>",
        ]
    )


def _standing(report: Report) -> str:
    kind = "simulated" if report.run.is_simulated else "outside" if report.breaches else "clear"
    title, _, rest = words.standing(report).partition(": ")
    heading, rules = words.broken_rules(report)
    text = f"<p>{_text(rest[:1].upper() + rest[1:])}</p>" if rest else ""
    text += f"<h3>{_text(heading)}</h3>" if heading else ""
    return _note(kind, title, text, "".join(f"<li>{_text(rule)}</li>" for rule in rules))


def _doubts(report: Report) -> str:
    if not report.doubts:
        return _note("clear", "No doubts", "<p>Neither journal nor telemetry gives cause for any.</p>", "")
    graves = any(doubt.severity == "grave" for doubt in report.doubts)
    listed = "".join(
        f'<li><span class="severity">{_text(doubt.severity)}:</span> {_text(doubt.text)}</li>'
        for doubt in report.doubts
    )
    return _note("grave" if graves else "doubtful", "Doubts beside these figures", "", listed)


def _note(kind: str, title: str, text: str, items: str) -> str:
    listed = f"<ul>{items}</ul>" if items else ""
    return f'<div class="note {kind}"><h2>{_text(title)}</h2>{text}{listed}</div>'


def _navigation() -> str:
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in SECTIONS)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _section(name: str, title: str, parts: Iterable[str]) -> str:
    head = f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>'
    return "\n".join([head, *parts, "</section>"])


def _figure(picture: Picture) -> str:
    if picture.svg is None:
        return f'<p class="empty">{_text(picture.empty)}</p>'
    drawing = inline(picture.svg, picture.name, _text(picture.described))
    return (
        f'<figure><div class="scroll" tabindex="0" role="region" aria-label="{_text(picture.title)}">'
        f"{drawing}</div><figcaption>{_text(picture.caption)}</figcaption></figure>"
    )


def _architecture(report: Report, picture: Picture) -> str:
    best = report.architecture
    if best is None or picture.svg is None:
        return f'<p class="empty">{_text(picture.empty)}</p>'
    steps = "".join(f"<li>{_text(words.morph(morph))}</li>" for morph in best.morphs)
    lineage = f'<ol class="lineage">{steps}</ol>' if steps else "<p>The starting graph itself.</p>"
    # An image of its own: the drawing brings its own style sheet, which must not reach the page's.
    encoded = base64.b64encode(picture.svg.encode()).decode()
    return (
        f"{lineage}<figure class='architecture'>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Best architecture">'
        f'<img src="data:image/svg+xml;base64,{encoded}" alt="{_text(picture.described)}"></div>'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>"
    )


def _trials(report: Report) -> str:
    return _table(tables.trials(report)) if report.trials else '<p class="empty">No trial has been proposed yet.</p>'


def _time(report: Report) -> str:
    if report.time_breakdown.whole_seconds <= 0:
        return '<p class="empty">No valid window, or no worker in it: there is no time to account for.</p>'
    return _table(tables.time_lost(report))


def _nodes(report: Report) -> str:
    table = tables.nodes(report)
    return _table(table) if table is not None else '<p class="empty">No node was checked by preflight.</p>'


def _devices(telemetry: Table | None) -> str:
    if telemetry is None:
        return '<p class="empty">Utilisation, power and temperature of the devices: not measured.</p>'
    return _table(telemetry)


def _beside(shown: Iterable[Table]) -> str:
    return f'<div class="beside">{"".join(_table(table) for table in shown)}</div>'


def _configuration(report: Report) -> str:
    table = tables.configuration(report)
    return f"<details><summary>Configuration, {len(table.rows)} options</summary>{_table(table)}</details>"


def _table(table: Table) -> str:
    sortable = " data-sortable" if table.is_sortable else ""
    pairs = ' class="pairs"' if len(table.columns) == 2 else ""
    heads = "".join(_head(column) for column in table.columns)
    rows = "".join(_row(table.columns, row) for row in table.rows)
    footnote = f'<p class="footnote">{_text(table.footnote)}</p>' if table.footnote else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(table.caption)}">'
        f'<table id="table-{table.name}"{pairs}{sortable}><caption>{_text(table.caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{footnote}"
    )


def _head(column: Column) -> str:
    number = ' class="number"' if column.is_number else ""
    explained = f' title="{_text(column.explained)}"' if column.explained else ""
    return f'<th scope="col"{number}{explained}>{_text(column.name)}</th>'


def _row(columns: Sequence[Column], cells: Sequence[Cell]) -> str:
    parts = []
    for index, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        classes = [
            *(["number"] if column.is_number else []),
            *(["bar"] if cell.bar is not None else []),
            *(["wide"] if len(cell.text) > 28 and not column.is_number else []),
        ]
        attributes = f' class="{" ".join(classes)}"' if classes else ""
        attributes += f' style="--part: {cell.bar:.4f}"' if cell.bar is not None else ""
        attributes += f' data-key="{cell.key!r}"' if cell.key is not None else ""
        tag = "th" if index == 0 else "td"
        scope = ' scope="row"' if index == 0 else ""
        parts.append(f"<{tag}{scope}{attributes}>{_text(cell.text)}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def _of_which_peak(report: Report) -> str:
    source = report.utilisation.peak_source
    if report.utilisation.mfu is None or source is None:
        return ""
    return "of the dense peak" if source.startswith("dense peak") else "of this host's matrix product"
