"""hpl.html: predicted and measured HPL as one page, with its figures as SVG and PNG and all values as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from aiperf import units
from aiperf.hpl.cases import Case, as_json
from aiperf.hpl.listing import half_width
from aiperf.hpl.model import PARTS, predict
from aiperf.hpl.system_file import SystemFile, figures
from aiperf.page.html import write_figures_page
from aiperf.page.section import Cell, Column, DrawnFigure, Section, Steps, Table, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 40
"""Points of a predicted curve."""


def write(of: SystemFile, cases: Sequence[Case], folder: Path, loads: Sequence[float], remarks: Sequence[str]) -> Path:
    """Write the results as hpl.html, hpl.json and plots/ into a folder, and return the path of the page."""
    source = f"{of.system.name}, {units.count(of.system.ranks)} ranks"
    largest = max(cases, key=lambda case: (case.prediction.n, case.prediction.p * case.prediction.q))
    drawings = [_curves(of, cases, source), _stacks(cases, source), _elasticities(largest, source)]
    load = f"other programs used at most {units.share(max(loads), 0)} of the processors" if loads else "not known"
    facts = of.calibration.get("facts", {})
    about = [("System", source), ("Load while HPL ran", load)]
    about += [(name.replace("_", " "), str(facts[name])) for name in ("mpi", "blas", "blas_kernels") if name in facts]
    words = [case.gap_in_words() for case in sorted(cases, key=lambda case: -abs(case.diff))]
    sections = (
        Section("gap", "Part with the largest gap", (Steps((*words, *remarks)),)),
        Section("runs", "Predicted and measured", (_table(cases), drawings[0])),
        Section("parts", "Seconds by part", (drawings[1],)),
        Section("elasticities", "Gain from better figures", (drawings[2],)),
        Section(
            "about", "Measurement", (rows("about", "System and load", ("name", "value"), about), _figure_table(of))
        ),
    )
    values = {"system": of.system.name, "loads": list(loads), "remarks": list(remarks), "cases": as_json(cases)}
    footer = "Model, readings and errata: docs/hpl.md. All values: hpl.json."
    return write_figures_page(folder, "hpl", "HPL by layers", source, sections, footer, values)


def _table(cases: Sequence[Case]) -> Table:
    columns = (
        Column("N", True), Column("grid"), Column("predicted GFLOPS", True), Column("measured GFLOPS", True),
        Column("runs", True), Column("Diff", True), Column("largest gap"),
    )  # fmt: skip
    rows = []
    for case in cases:
        made, gap, estimate = case.prediction, case.largest_gap, case.estimate
        between = "" if estimate is None else f" ± {(estimate.interval[1] - estimate.value):.2g}"
        rows.append(
            (
                Cell(units.count(made.n), made.n),
                Cell(f"{made.p} × {made.q} {made.pmap}-major"),
                Cell(f"{made.flops / 1e9:.1f} ± {made.flops / 1e9 * case.half_width:.2g}", made.flops),
                Cell(f"{case.gflops:.1f}{between}", case.gflops),
                Cell(str(len(case.runs)), len(case.runs)),
                Cell(units.change(case.diff), case.diff),
                Cell("no detailed timers" if gap is None else f"{gap[0]} ({gap[1]:.2g} s, measured {gap[2]:.2g} s)"),
            )
        )
    return Table("runs", "Predicted and measured, with 95 % intervals", columns, tuple(rows), is_sortable=True)


def _figure_table(of: SystemFile) -> Table:
    rows = []
    for name, value in figures(of.system).items():
        low, high = of.intervals.get(name, (None, None))
        between = "not measured" if low is None or high is None else f"{low:.4g} to {high:.4g}"
        rows.append((Cell(name), Cell(f"{value:.4g}", value), Cell(between)))
    return Table(
        "figures",
        "Figures of the system",
        (Column("figure"), Column("value", True), Column("95 % interval")),
        tuple(rows),
    )


def _curves(of: SystemFile, cases: Sequence[Case], source: str) -> DrawnFigure:
    from matplotlib.lines import Line2D

    from aiperf.page.figure import drawn, legend_above
    from aiperf.page.palette import AMBER, BLUE, GREEN, PURPLE, VERMILION

    grids = sorted({(case.prediction.p, case.prediction.q, case.prediction.pmap) for case in cases})
    colours = [each.light for each in (BLUE, VERMILION, GREEN, PURPLE, AMBER)]
    most = max(case.prediction.n for case in cases)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for index, (p, q, pmap) in enumerate(grids):
            own = [
                case for case in cases if (case.prediction.p, case.prediction.q, case.prediction.pmap) == (p, q, pmap)
            ]
            nb, reading = own[0].prediction.nb, own[0].prediction.reading
            orders = [round(most * 1.1 * step / POINTS) for step in range(6, POINTS + 1)]
            made = [
                each
                for n in orders
                if n >= 3 * nb * p and (each := predict(of.system, n, nb, p, q, pmap, reading)) is not None
            ]
            halves = [half_width(each, figures(of.system), of.intervals) for each in made]
            middle, colour = [each.flops / 1e9 for each in made], colours[index % len(colours)]
            horizontal = [each.n for each in made]
            axes.plot(horizontal, middle, color=colour)
            low = [value * (1 - half) for value, half in zip(middle, halves, strict=True)]
            high = [value * (1 + half) for value, half in zip(middle, halves, strict=True)]
            axes.fill_between(horizontal, low, high, color=colour, alpha=0.15, linewidth=0)
            dots = [(case.prediction.n, run.gflops) for case in own for run in case.runs]
            axes.plot(*zip(*dots, strict=True), "o", color=colour, markersize=4)
        axes.set_xlabel("N")
        axes.set_ylabel("GFLOPS")
        axes.set_ylim(bottom=0)
        legend_above(
            axes,
            [
                Line2D([], [], color=colours[at % len(colours)], label=f"{p} × {q}")
                for at, (p, q, _) in enumerate(grids)
            ],
        )

    name, title = "hpl-curves", "GFLOPS over N"
    caption = "Lines: predicted, with the band of the calibration's 95 % intervals. Dots: each measured run."
    return DrawnFigure(name, title, caption, f"{title}. {caption}", *drawn(draw, name, 3.4, source))


def _stacks(cases: Sequence[Case], source: str) -> DrawnFigure:
    from matplotlib.patches import Patch

    from aiperf.page.figure import drawn, legend_above
    from aiperf.page.palette import AMBER, BLUE, GREEN, MUTED, SKY, VERMILION

    colours = dict(zip(PARTS, (each.light for each in (SKY, BLUE, AMBER, GREEN, VERMILION)), strict=True))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        rows = [
            (f"{case.in_words()} {kind}", parts)
            for case in cases
            for kind, parts in (
                ("predicted", {part: case.prediction.seconds_of(part) for part in PARTS}),
                ("measured", case.measured_parts or {"all parts": fmean(run.seconds for run in case.runs)}),
            )
        ]
        for row, (_, parts) in enumerate(rows):
            left = 0.0
            for part, seconds in parts.items():
                axes.barh(row, seconds, left=left, height=0.8, color=colours.get(part, MUTED.light))
                left += seconds
        labels = [label for label, _ in rows]
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("seconds")
        legend_above(axes, [Patch(color=colour, label=part) for part, colour in colours.items()])

    name, title = "hpl-parts", "Seconds by part, predicted and measured"
    caption = "Measured parts are HPL's detailed timers. “Broadcast” contains waiting. Without timers only the total is drawn."
    return DrawnFigure(name, title, caption, f"{title}. {caption}", *drawn(draw, name, 0.9 + 0.5 * len(cases), source))


def _elasticities(case: Case, source: str) -> DrawnFigure:
    from aiperf.page.figure import drawn
    from aiperf.page.palette import BLUE, VERMILION

    shares = sorted(case.prediction.elasticities().items(), key=lambda each: abs(each[1]))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        values = [value for _, value in shares]
        axes.barh(range(len(shares)), values, color=[BLUE.light if value > 0 else VERMILION.light for value in values])
        axes.set_yticks(range(len(shares)), [name for name, _ in shares])
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"per cent of GFLOPS for one per cent of the figure, {case.in_words()}")

    name, title = "hpl-elasticities", "Elasticities"
    caption = (
        "Gain in GFLOPS if one figure rises by one per cent. More latency lowers GFLOPS. Shown for the largest run."
    )
    return DrawnFigure(name, title, caption, f"{title}. {caption}", *drawn(draw, name, 0.8 + 0.3 * len(shares), source))
