"""hpl.html: predicted and measured HPL as one page, with its figures as SVG and PNG and all values as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from aiperf import units
from aiperf.hpl.cases import Case, as_json
from aiperf.hpl.listing import half_width, prediction_as_json
from aiperf.hpl.model import PARTS, Prediction, guideline, padded, predict
from aiperf.hpl.system_file import SystemFile, figures
from aiperf.page.html import write_figures_page
from aiperf.page.section import Cell, Column, DrawnFigure, Section, Steps, Table, numbers, rows, table, texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 40
"""Points of a predicted curve."""
GRIDS_SHOWN = 12


def write(of: SystemFile, cases: Sequence[Case], folder: Path, loads: Sequence[float], remarks: Sequence[str]) -> Path:
    """Write the results as hpl.html, hpl.json and plots/ into a folder, and return the path of the page."""
    source = f"{of.system.name}, {units.count(of.system.ranks)} ranks"
    largest = max(cases, key=lambda case: (case.prediction.n, case.prediction.p * case.prediction.q))
    dots = [(case.prediction, run.gflops) for case in cases for run in case.runs]
    curves = _curves(of, [case.prediction for case in cases], dots, source)
    drawings = [curves, _stacks(cases, source), _elasticities(largest.prediction, largest.in_words(), source)]
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
        Section("about", "Measurement", (rows("about", "System and load", ("name", "value"), about), figure_table(of))),
    )
    values = {"system": of.system.name, "loads": list(loads), "remarks": list(remarks), "cases": as_json(cases)}
    footer = "Model, readings and errata: docs/hpl.md. All values: hpl.json."
    return write_figures_page(folder, "hpl", "HPL by layers", source, sections, footer, values)


def write_predictions(of: SystemFile, made: Sequence[Prediction], folder: Path) -> Path:
    """Write predictions of one grid by order of the matrix as hpl.html, hpl.json and plots/, and return the page's path."""
    source = f"{of.system.name}, {units.count(of.system.ranks)} ranks, predicted"
    best = made[-1]
    name = f"N {best.n}, {grid(best)}"
    curve = (_curves(of, made, [], source), predicted(of, made, "orders", "Predicted"))
    sections = (
        Section("curve", "GFLOPS over N", curve),
        Section("elasticities", "Gain from better figures", (_elasticities(best, name, source),)),
        Section("about", "Figures", (figure_table(of),)),
    )
    footer = "Model, readings and errata: docs/hpl.md. All values: hpl.json."
    values = {"system": of.system.name, "predictions": [{"n": each.n, **prediction_as_json(each)} for each in made]}
    return write_figures_page(folder, "hpl", "HPL by layers", source, sections, footer, values)


def prediction_parts(of: SystemFile, made: Sequence[Prediction]) -> tuple[Table, ...]:
    """Tables of predictions on several grids, the fastest first: the grids, and parts and elasticities of the first."""
    first, more = made[0], len(made) - GRIDS_SHOWN
    title = (
        f"{of.system.name}: N {first.n} (padded {padded(first.n, first.nb)}), NB {first.nb}, reading '{first.reading}'"
    )
    left = f"{more} slower grids are left out (--json lists all)" if more > 0 else ""
    parts = [(part.part, part.layer or "compute", f"{part.seconds:.4f}") for part in first.parts]
    shares = [(name, f"{value:+.4f}") for name, value in _by_size(first)]
    return (
        predicted(of, made[:GRIDS_SHOWN], "grids", title, left),
        rows("parts", f"Parts on {first.p} x {first.q}", ("part", "layer", ">seconds"), parts),
        rows("elasticities", "Elasticities: per cent of GFLOPS for one per cent of the figure", ("", ">"), shares),
    )


def predicted(of: SystemFile, made: Sequence[Prediction], name: str, caption: str, footnote: str = "") -> Table:
    known, square = figures(of.system), guideline(of.system.ranks)
    columns = (
        numbers("N", [each.n for each in made], units.count),
        texts("grid", map(grid, made)),
        numbers("predicted GFLOPS", [each.flops / 1e9 for each in made], lambda value: units.count(value, 1)),
        numbers(
            "± 95 %", [half_width(each, known, of.intervals) if of.intervals else None for each in made], units.share
        ),
        numbers("share of the peak", [each.efficiency for each in made], units.share),
        numbers("time", [each.seconds for each in made], units.duration),
        texts("", ["the paper's guideline" if (each.p, each.q) == square else "" for each in made]),
    )
    return table(name, caption, columns, footnote)


def grid(of: Prediction) -> str:
    return f"{of.p} x {of.q} {of.pmap}-major"


def _by_size(of: Prediction) -> list[tuple[str, float]]:
    return sorted(of.elasticities().items(), key=lambda each: -abs(each[1]))


def _table(cases: Sequence[Case]) -> Table:
    made = [case.prediction for case in cases]
    columns = (
        numbers("N", [each.n for each in made], units.count),
        texts("grid", map(grid, made)),
        (Column("predicted GFLOPS", True), tuple(map(_predicted, cases))),
        (Column("measured GFLOPS", True), tuple(map(_measured, cases))),
        numbers("runs", [len(case.runs) for case in cases], str),
        numbers("Diff", [case.diff for case in cases], units.change),
        texts("largest gap", map(_gap, cases)),
    )
    return table("runs", "Predicted and measured, with 95 % intervals", columns, is_sortable=True)


def _predicted(case: Case) -> Cell:
    gflops = case.prediction.flops / 1e9
    return Cell(f"{gflops:.1f} ± {gflops * case.half_width:.2g}", case.prediction.flops)


def _measured(case: Case) -> Cell:
    between = "" if case.estimate is None else f" ± {(case.estimate.interval[1] - case.estimate.value):.2g}"
    return Cell(f"{case.gflops:.1f}{between}", case.gflops)


def _gap(case: Case) -> str:
    if (gap := case.largest_gap) is None:
        return case.no_gap
    return f"{gap[0]} ({gap[1]:.2g} s, measured {gap[2]:.2g} s)"


def figure_table(of: SystemFile) -> Table:
    values = figures(of.system)
    ends = (of.intervals.get(name) for name in values)
    columns = (
        texts("figure", values),
        numbers("value", values.values(), "{:.4g}".format),
        texts(
            "95 % interval", ["not measured" if each is None else f"{each[0]:.4g} to {each[1]:.4g}" for each in ends]
        ),
    )
    return table("figures", "Figures of the system", columns)


def _curves(
    of: SystemFile, shown: Sequence[Prediction], runs: Sequence[tuple[Prediction, float]], source: str
) -> DrawnFigure:
    """Draw predicted GFLOPS over N for the grids of `shown`, and `runs` (prediction, measured GFLOPS) as dots."""
    from aiperf.page.figure import drawing, on_axes
    from aiperf.page.palette import AMBER, BLUE, GREEN, PURPLE, VERMILION

    grids = sorted({(each.p, each.q, each.pmap) for each in shown})
    colours = [each.light for each in (BLUE, VERMILION, GREEN, PURPLE, AMBER)]
    most = max(each.n for each in shown)

    def draw(axes: Axes) -> None:
        for (p, q, pmap), colour in zip(grids, cycle(colours)):
            first = next(each for each in shown if (each.p, each.q, each.pmap) == (p, q, pmap))
            nb, reading = first.nb, first.reading
            orders = [round(most * 1.1 * step / POINTS) for step in range(6, POINTS + 1)]
            made = [
                each
                for n in orders
                if n >= 3 * nb * p and (each := predict(of.system, n, nb, p, q, pmap, reading)) is not None
            ]
            halves = [half_width(each, figures(of.system), of.intervals) for each in made]
            middle, horizontal = [each.flops / 1e9 for each in made], [each.n for each in made]
            axes.plot(horizontal, middle, color=colour, label=f"{p} × {q}")
            low = [value * (1 - half) for value, half in zip(middle, halves, strict=True)]
            high = [value * (1 + half) for value, half in zip(middle, halves, strict=True)]
            axes.fill_between(horizontal, low, high, color=colour, alpha=0.15, linewidth=0)
            dots = [(each.n, gflops) for each, gflops in runs if (each.p, each.q, each.pmap) == (p, q, pmap)]
            axes.plot([n for n, _ in dots], [gflops for _, gflops in dots], "o", color=colour, markersize=4)
        axes.set_xlabel("N")
        axes.set_ylabel("GFLOPS")
        axes.set_ylim(bottom=0)

    caption = "Lines: predicted, with the band of the calibration's 95 % intervals. Dots: each measured run."
    return drawing("hpl-curves", "GFLOPS over N", caption, 3.4, source, on_axes(draw))


def _stacks(cases: Sequence[Case], source: str) -> DrawnFigure:
    from aiperf.page.figure import bars, drawing, on_axes
    from aiperf.page.palette import AMBER, BLUE, GREEN, MUTED, SKY, VERMILION

    parts = (*PARTS, "all parts")
    colours = dict(zip(parts, (each.light for each in (SKY, BLUE, AMBER, GREEN, VERMILION, MUTED)), strict=True))

    def draw(axes: Axes) -> None:
        rows: list[tuple[str, dict[str, float]]] = []
        for case in cases:
            predicted = {part: case.prediction.seconds_of(part) for part in PARTS}
            measured = case.measured_parts or {"all parts": fmean(run.seconds for run in case.runs)}
            rows += [(f"{case.in_words()} predicted", predicted), (f"{case.in_words()} measured", measured)]
        bars(axes, rows, colours)
        axes.set_xlabel("seconds")

    caption = "Measured parts are HPL's detailed timers. “Broadcast” contains waiting. Without timers only the total is drawn."
    title = "Seconds by part, predicted and measured"
    return drawing("hpl-parts", title, caption, 0.9 + 0.5 * len(cases), source, on_axes(draw))


def _elasticities(of: Prediction, name: str, source: str) -> DrawnFigure:
    from aiperf.page.figure import bars, drawing
    from aiperf.page.palette import BLUE, VERMILION

    shares = _by_size(of)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        rows = [(figure_name, {"gain" if value > 0 else "loss": value}) for figure_name, value in shares]
        bars(axes, rows, {"gain": BLUE.light, "loss": VERMILION.light})
        axes.set_xlabel(f"per cent of GFLOPS for one per cent of the figure, {name}")

    caption = (
        "Gain in GFLOPS if one figure rises by one per cent. More latency lowers GFLOPS. Shown for the largest run."
    )
    return drawing("hpl-elasticities", "Elasticities", caption, 0.8 + 0.3 * len(shares), source, draw)
