"""Page scale.html: the results of `scale` (runs with more accelerators, or with several values of an option) with figures."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.page.html import write_figures_page
from aiperf.page.section import DrawnFigure, Paragraph, Part, Section
from aiperf.scaling.batch import BatchStudy
from aiperf.scaling.efficiency import Scaling
from aiperf.scaling.option_ratios import OptionRatios
from aiperf.scaling.scale_text import parts as results
from aiperf.scaling.scale_text import scale_json, sentences, warnings
from aiperf.scaling.study import ScalingStudy
from aiperf.units import NOT_MEASURED, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write(study: ScalingStudy, folder: Path) -> Path:
    source = f"reported by {', '.join(dict.fromkeys(each.label for each in study.reported))}"
    if study.points:
        first = study.points[0]
        simulated = ", simulated" if first.is_simulated else ""
        precisions = " and ".join(dict.fromkeys(each.precision for each in study.points))
        source = f"{len(study.points)} runs, {first.machine.device}, {precisions}{simulated}"
    drawings: list[Part] = []
    if study.scaling is not None or not study.points:
        drawings.append(_linear(study, source))
    if study.scaling is not None:
        drawings.append(_lost(study.scaling, source))
    if study.batch is not None:
        drawings.append(_seconds(study.batch, study.samples, source))
    if study.ratios is not None:
        drawings.append(_epochs(study.ratios, source))
    conclusions = [*sentences(study), *warnings(study)]
    concluded = Section("conclusions", "Conclusions", tuple(map(Paragraph, conclusions)))
    sections = (
        *([concluded] if conclusions else []),
        Section("figures", "Figures", tuple(drawings)),
        Section("results", "All results", results(study)),
    )
    footer = "Definitions: docs/scaling.md. All values: scale.json."
    values = {"schema": "aiperf-scale", "version": 1, **scale_json(study)}
    return write_figures_page(folder, "scale", "scaling of a worker", source, sections, footer, values)


def _linear(study: ScalingStudy, source: str) -> DrawnFigure:
    from aiperf.page.figure import drawing, on_axes, over_accelerators
    from aiperf.page.palette import GREEN, MUTED, PURPLE

    pairs = () if study.scaling is None else study.scaling.pairs
    shares = {pair.base: (1.0, None) for pair in pairs[:1]} | {
        pair.accelerators: (pair.efficiency, pair.interval) for pair in pairs
    }

    def draw(axes: Axes) -> None:
        over_accelerators(axes, shares, "measured" if pairs else "")
        if pairs:
            with_evaluation = [100, *(100 * pair.efficiency_with_evaluation for pair in pairs)]
            axes.plot([*shares], with_evaluation, "s:", color=GREEN.light, label="with evaluation")
        if study.predicted:
            line = [(each.accelerators, 100 * each.efficiency) for each in study.predicted]
            axes.plot(*zip(*line, strict=True), "-", color=PURPLE.light, label="predicted")
        pale = [each for each in study.reported if each.efficiency is not None]
        if pale:
            dots = [(each.accelerators, 100 * (each.efficiency or 0.0)) for each in pale]
            axes.plot(*zip(*dots, strict=True), "D", color=MUTED.light, alpha=0.45, label="reported")
        axes.set_ylabel("% of linear")

    caption = (
        "Lines at a point: 95 % interval of the rounds. Reported points are from elsewhere. The prediction is a model."
    )
    return drawing("scale-linear", "Share of linear", caption, 3.4, source, on_axes(draw))


def _lost(scaling: Scaling, source: str) -> DrawnFigure:
    from aiperf.page.figure import bars, drawing, on_axes
    from aiperf.page.palette import AMBER, BLUE, GREEN, MUTED, PURPLE, SKY, VERMILION

    colours = [each.light for each in (BLUE, AMBER, VERMILION, GREEN, PURPLE, MUTED, SKY)]
    names = list(dict.fromkeys(line for pair in scaling.pairs for line in pair.points_lost))

    def draw(axes: Axes) -> None:
        lost = [(f"{pair.base} to {pair.accelerators}", pair.points_lost) for pair in scaling.pairs]
        bars(axes, lost, dict(zip(names, cycle(colours))))
        axes.set_xlabel("points of linear lost (left of 0: gained)")

    caption = "The parts of a bar add up to 100 % − share of linear."
    return drawing("scale-lost", "Points lost by line", caption, 1.2 + 0.4 * len(scaling.pairs), source, on_axes(draw))


def _seconds(batches: BatchStudy, samples: str, source: str) -> DrawnFigure:
    from aiperf.page.figure import drawing, on_axes
    from aiperf.page.palette import BLUE, VERMILION

    timed = [(each.global_batch, each.seconds, each.next_run_seconds) for each in batches.points if each.seconds]
    missed = [each.global_batch for each in batches.points if not each.seconds]

    def draw(axes: Axes) -> None:
        axes.plot(
            [batch for batch, *_ in timed], [seconds for _, seconds, _ in timed], "o-", color=BLUE.light, label="mean"
        )
        for batch, _, between in timed:
            if between is not None:
                axes.vlines(batch, *between, color=BLUE.light)
        if missed:
            axes.plot(
                missed, [0.0] * len(missed), "x", color=VERMILION.light, label="target not reached", clip_on=False
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: count(round(value)))
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"global batch in {samples}")
        axes.set_ylabel(f"seconds to a quality of {batches.target:g}")

    caption = f"Steps to the target · batch ÷ {samples}/s. Lines: 95 % interval of another run."
    return drawing("scale-batch", "Seconds to the target over the batch", caption, 3.2, source, on_axes(draw))


def _epochs(ratios: OptionRatios, source: str) -> DrawnFigure:
    from aiperf.page.figure import drawing
    from aiperf.page.palette import AMBER, BLUE, GREEN, PURPLE, VERMILION

    colours = [each.light for each in (BLUE, VERMILION, GREEN, PURPLE, AMBER)]

    def draw_both(figure: Figure) -> None:
        for axes, field in zip(figure.subplots(1, 2), ("training_loss", "accuracy"), strict=True):
            for number, (value, runs) in enumerate(ratios.groups.items()):
                for run in runs:
                    curve = [(each.epoch, getattr(each, field)) for each in run.epochs]
                    label = value if run is runs[0] else None
                    axes.plot(*zip(*curve, strict=True), color=colours[number % len(colours)], alpha=0.7, label=label)
            axes.set_xlabel("epoch")
            axes.set_ylabel("training loss" if field == "training_loss" else "quality")
        axes.legend()

    changes = [
        f"{each.value}: p = {each.quality_change.p_value:.2g}"
        for each in ratios.values
        if each.quality_change is not None and each.quality_change.p_value is not None
    ]
    test = f"Welch's test of the last quality against {ratios.values[0].value}: {', '.join(changes) or NOT_MEASURED}."
    caption = f"One line per run. {test}"
    return drawing("scale-epochs", f"Loss and quality by {ratios.option}", caption, 3.2, source, draw_both)
