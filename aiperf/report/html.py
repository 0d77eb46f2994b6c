"""The report as one HTML file that needs nothing else: no network, no font, no script to be read.

Formats what `facts`, `tables` and the figures hold; no arithmetic. What pages are made of is in `document.py`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from aiperf import units
from aiperf.report import changes, head, machine_tables, system, tables, words
from aiperf.report.beside import Beside
from aiperf.report.document import HINT, document, listed, note, section, table, text, with_code
from aiperf.report.facts import Report
from aiperf.report.figure import Picture, inline
from aiperf.report.loads import loads
from aiperf.report.tables import Table

SECTIONS = (
    ("score", "Score"),
    ("error", "Error"),
    ("losses", "Losses"),
    ("time", "Time"),
    ("workers", "Workers"),
    ("accelerators", "Accelerators"),
    ("devices", "Utilisation"),
    ("energy", "Energy"),
    ("operations", "Operations"),
    ("tree", "Tree"),
    ("architecture", "Best architecture"),
    ("trials", "Trials"),
    ("system", "System"),
    ("configuration", "Configuration"),
)


def page(report: Report, pictures: Sequence[Picture], architecture: Picture, beside: Sequence[Beside] = ()) -> str:
    """The whole file. `pictures` are named as in SECTIONS; `architecture` is the best one, drawn; `beside`: of other runs."""
    by_name = {picture.name: picture for picture in pictures}
    telemetry = machine_tables.telemetry(report)
    sections = [
        section("score", "Score over time", [_figure(by_name["score"]), table(tables.result(report))]),
        section("error", "Error over time", [_figure(by_name["error"])]),
        *(section(each.name, each.title, each.parts) for each in beside),
        section("losses", "From the peak to the score", [_figure(by_name["losses"]), *_losses(report)]),
        section("time", "Where the time went", [_time(report)]),
        section("workers", "Workers over time", [_figure(by_name["workers"])]),
        section(
            "accelerators",
            "Accelerators over time",
            [_figure(by_name["accelerators"]), table(tables.availability(report))],
        ),
        section(
            "devices",
            "Utilisation and memory over time",
            [_figure(by_name["devices"]), _devices(telemetry), _processors(report)],
        ),
        section("energy", "Energy", _energy(report)),
        section("operations", "Accuracy against operations", [_figure(by_name["operations"]), *_front(report)]),
        section("tree", "Tree of architectures", [_figure(by_name["tree"])]),
        section("architecture", "Best architecture", [_architecture(report, architecture)]),
        section("trials", "Trials", [_trials(report)]),
        section(
            "system",
            "System",
            [
                _nodes(report),
                _described(report),
                _beside([*machine_tables.systems(report), machine_tables.versions(report)]),
            ],
        ),
        section("configuration", "Run and configuration", [table(tables.run(report)), _configuration(report)]),
    ]
    title = f"{report.run.name}: {words.score_title(report.run)} {words.score(report)}"
    return document(
        title,
        [
            '<a class="skip" href="#main">To the figures</a>',
            _header(report),
            _navigation(beside),
            '<main id="main">',
            *sections,
            "</main>",
            "<footer><p>Computed from the run’s journal alone; every figure is in report.json. "
            "How to read it: docs/report.md.</p></footer>",
        ],
        kind="simulated-run" if report.run.is_simulated else "",
    )


def _header(report: Report) -> str:
    run, score = report.run, report.score
    about = "".join(f"<div><dt>{name}</dt><dd>{text(told)}</dd></div>" for name, told in head.lines(report))
    interval = words.score_interval(report)
    missing = ' class="none"' if score.flops_per_second is None or report.no_score is not None else ""
    error, _, floor = words.error(report).removesuffix(")").partition(" (")
    others = [
        ("regulated score", words.regulated(report), "−ln(error) × score"),
        ("error", error, f"best {words.measured(run)} top-1, validation{f': {floor}' if floor else ''}"),
        ("busy time", words.share(score.busy_share), "of accelerator time"),
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
            f'<p class="kind">AIPerf · run report{" · simulated" if run.is_simulated else ""}</p>',
            f"<h1>{text(run.name)}</h1>",
            f'<dl class="about">{about}</dl>',
            '<div class="figures">',
            f'<dl class="headline"><div><dt>{text(words.score_title(run))}</dt><dd{missing}>{text(words.score(report))}'
            f"<small>{text(interval)}</small></dd></div></dl>",
            '<dl class="others">',
            *(
                f"<div><dt>{text(name)}</dt><dd>{text(value)}<small>{text(meaning)}</small></dd></div>"
                for name, value, meaning in others
            ),
            "</dl>",
            "</div>",
            f'<div class="notes">{_no_score(report)}{_standing(report)}{_warnings(report)}</div>',
            "</header>",
        ]
    )


def _no_score(report: Report) -> str:
    none = report.no_score
    if none is None:
        return ""
    told = (none.why, f"next: {none.remedy}")
    return note("critical", "Not valid", "".join(f"<p>{with_code(_sentence(each))}</p>" for each in told), "")


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def _standing(report: Report) -> str:
    kind = "simulated" if report.run.is_simulated else "outside" if report.breaches else "clear"
    title, _, rest = words.standing(report).partition(": ")
    heading, rules = words.broken_rules(report)
    told = f"<p>{text(rest[:1].upper() + rest[1:])}</p>" if rest else ""
    told += f"<h3>{text(heading)}</h3>" if heading else ""
    items = "".join(f"<li>{with_code(rule)}</li>" for rule in rules)
    unfolds = "which these are, and what would fix each"
    return note(
        kind, title, told + (f"<details><summary>{unfolds}</summary><ul>{items}</ul></details>" if rules else ""), ""
    )


def _warnings(report: Report) -> str:
    if not report.warnings:
        return note("clear", "No warnings", "<p>Neither journal nor telemetry gives cause for any.</p>", "")
    criticals = any(warning.severity == "critical" for warning in report.warnings)
    return note("critical" if criticals else "warned", "Warnings beside these figures", "", listed(report.warnings))


def _navigation(beside: Sequence[Beside]) -> str:
    of_others = [(each.name, each.title) for each in beside]
    links = "".join(
        f'<li><a href="#{name}">{title}</a></li>' for name, title in (*SECTIONS[:2], *of_others, *SECTIONS[2:])
    )
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _figure(picture: Picture) -> str:
    if picture.svg is None:
        return f'<p class="empty">{text(picture.empty)}</p>'
    drawing = inline(picture.svg, picture.name, text(picture.described))
    return (
        f'<figure>{HINT}<div class="scroll" tabindex="0" role="region" aria-label="{text(picture.title)}">'
        f"{drawing}</div><figcaption>{text(picture.caption)}</figcaption></figure>"
    )


def _architecture(report: Report, picture: Picture) -> str:
    best = report.architecture
    if best is None or picture.svg is None:
        return f'<p class="empty">{text(picture.empty)}</p>'
    steps = "".join(f"<li>{text(changes.morph(morph))}</li>" for morph in best.morphs)
    lineage = f'<ol class="lineage">{steps}</ol>' if steps else "<p>The starting graph itself.</p>"
    # An image of its own: the drawing brings its own style sheet, which must not reach the page's.
    encoded = base64.b64encode(picture.svg.encode()).decode()
    return (
        f"{lineage}{_kept(report)}<figure class='architecture'>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Best architecture">'
        f'<img src="data:image/svg+xml;base64,{encoded}" alt="{text(picture.described)}"></div>'
        f"<figcaption>{text(picture.caption)}</figcaption></figure>"
    )


def _kept(report: Report) -> str:
    return "" if report.checkpoints is None else f"<p>Checkpoints: {text(words.checkpoints(report.checkpoints))}.</p>"


def _trials(report: Report) -> str:
    return table(tables.trials(report)) if report.trials else '<p class="empty">No trial has been proposed yet.</p>'


def _losses(report: Report) -> list[str]:
    shown = tables.losses(report)
    return [] if shown is None else [table(shown)]


def _front(report: Report) -> list[str]:
    shown = tables.front(report)
    return [] if shown is None else [table(shown)]


def _energy(report: Report) -> list[str]:
    shown = [each for each in (machine_tables.energy(report), machine_tables.energy_level(report)) if each is not None]
    return [table(each) for each in shown] or ['<p class="empty">Power of the devices: not measured.</p>']


def _time(report: Report) -> str:
    if report.time_breakdown.whole_seconds <= 0:
        return '<p class="empty">No valid window, or no worker in it: there is no time to account for.</p>'
    return table(tables.time_lost(report))


def _nodes(report: Report) -> str:
    checked = machine_tables.nodes(report)
    return table(checked) if checked is not None else '<p class="empty">No node was checked by preflight.</p>'


def _devices(telemetry: Table | None) -> str:
    if telemetry is None:
        return '<p class="empty">Utilisation, power and temperature of the devices: not measured.</p>'
    return table(telemetry)


def _processors(report: Report) -> str:
    shown = loads(report)
    return "" if shown is None else table(shown)


def _beside(shown: Iterable[Table]) -> str:
    return f'<div class="beside">{"".join(table(each) for each in shown)}</div>'


def _described(report: Report) -> str:
    described = "".join(table(each) for each in system.tables(report))
    return (
        f"<details><summary>Nodes as they were read, and the site's form</summary>{described}</details>"
        if described
        else ""
    )


def _configuration(report: Report) -> str:
    options = tables.configuration(report)
    return f"<details><summary>Configuration, {len(options.rows)} options</summary>{table(options)}</details>"


def _of_which_peak(report: Report) -> str:
    source = report.utilisation.peak_source
    peak = words.peak(report)
    if peak is None or source is None:
        return "no peak is known"
    kinds = {
        "dense": "dense peak",
        "matrix": "this host’s matrix product",
        "fastest": "the fastest host’s matrix product",
    }
    return f"of {peak}: {kinds[source.partition(' ')[0]]}"
