"""Section of the report on the predicted score, with predicted and measured time of each activity."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from aiperf import units
from aiperf.page.figure import drawing, legend_above
from aiperf.page.palette import AMBER, accent
from aiperf.page.section import DrawnFigure, Paragraph, Section, Table, numbers, table, texts
from aiperf.report import phrases
from aiperf.report.facts import PredictionFacts, Report
from aiperf.report.figures import SCORE

ROW_INCHES = 0.34
BAR = 0.38
"""Height of a bar, as a share of its row."""


def prediction(report: Report) -> Section | None:
    """Return the section with predicted and measured score and accelerator time. None if the run was not predicted."""
    found = report.prediction
    if found is None:
        return None
    parts = (Paragraph(_scores(found, report)), Paragraph(_gap(found)), _lines(found), _bars(found, report))
    return Section("prediction", "Predicted and measured", parts, "Prediction")


def _scores(found: PredictionFacts, report: Report) -> str:
    label = ", extrapolated from another number of workers" if found.is_extrapolated else ""
    measured = report.score.flops_per_second
    change = "" if measured is None else f", Diff {units.change(found.flops_per_second / measured - 1)}"
    return (
        f"Predicted from the profile of {found.source}{label}: {units.flops_per_second(found.flops_per_second)}, 95 % interval "
        f"{units.interval(*found.interval, 'FLOPS')}{change}. Measured: {SCORE.text(report)}, "
        f"{phrases.score_interval(report)}."
    )


def _gap(found: PredictionFacts) -> str:
    line = next((line for line in found.lines if line.name == found.largest_gap), None)
    if line is None:
        return "The run has no valid window, so that no line can be compared."
    return (
        f"Largest gap: {line.name}, predicted {units.share(line.predicted)} of the accelerator time. For the same operations "
        f"it took {units.share(line.same_work)} of the predicted time."
    )


def _lines(found: PredictionFacts) -> Table | None:
    if not found.lines:
        return None
    columns = (
        texts("line", [line.name for line in found.lines]),
        numbers("predicted", [line.predicted for line in found.lines], units.share),
        numbers("measured", [line.measured for line in found.lines], units.share),
        numbers("for the same operations", [line.same_work for line in found.lines], units.share),
        numbers("gap", [line.gap for line in found.lines], lambda gap: f"{100 * gap:+.1f} points".replace("-", "−")),
    )
    return table("prediction", "Accelerator time, predicted and measured", columns)


def _bars(found: PredictionFacts, report: Report) -> DrawnFigure:
    name, title = "prediction", "Accelerator time, predicted and measured"
    if not found.lines:
        return DrawnFigure(name, title, empty="No valid window, so that nothing is compared.")
    colour = accent(is_simulated=report.run.is_simulated).strong

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for row, line in enumerate(found.lines):
            axes.barh(row - BAR / 2, 100 * line.predicted, height=BAR, color=AMBER.light)
            axes.barh(row + BAR / 2, 100 * line.measured, height=BAR, color=colour.light)
        axes.set_yticks(range(len(found.lines)), [line.name for line in found.lines])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("% of the accelerator time")
        legend_above(axes, [Patch(color=AMBER.light, label="predicted"), Patch(color=colour.light, label="measured")])

    caption = "Each line of the time breakdown: above as predicted, below as measured."
    height, described = 0.8 + ROW_INCHES * len(found.lines), f"{title}. {_gap(found)}"
    return drawing(name, title, caption, height, phrases.source(report), draw, described)
