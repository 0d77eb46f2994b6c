"""Parallel coordinates of the trials: size, tuned parameters and accuracy of each, as one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from aiperf.report.facts import Report, TrialFacts
from aiperf.report.phrases import source
from aiperf.report.plots.figure import drawn
from aiperf.report.plots.palette import AXIS, MUTED
from aiperf.report.section import DrawnFigure
from aiperf.report.trial_facts import operations
from aiperf.units import count, share, si

MOST_TRIALS = 200
"""Maximum number of lines, which are the best trials."""
Axis = tuple[str, Callable[[TrialFacts], float | None], Callable[[float], str], bool]
"""Label, value of a trial, text of a value, and whether the axis is logarithmic."""


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _accuracy(trial: TrialFacts) -> float:
    return trial.accuracy or 0.0


AXES: tuple[Axis, ...] = (
    ("FLOP per image", operations, lambda value: si(value, ""), True),
    ("parameters", lambda trial: trial.parameters, lambda value: si(value, ""), True),
    ("generation", lambda trial: trial.generation, _whole, False),
    ("batch", lambda trial: trial.batch_size, _whole, True),
    ("kernel", lambda trial: trial.kernel_size, _whole, False),
    ("epochs", lambda trial: trial.epochs, _whole, False),
    ("accuracy", _accuracy, lambda value: share(value, 1), False),
)


def trials_as_lines(report: Report) -> DrawnFigure:
    """Draw one line for each of the best evaluated trials."""
    name, title = "parameters", "Parameters of the trials"
    evaluated = sorted((trial for trial in report.trials if trial.accuracy is not None), key=_accuracy)
    if len(evaluated) < 2:
        return DrawnFigure(name, title, "", "", None, None, None, "Fewer than two trials were evaluated.")
    shown = evaluated[-MOST_TRIALS:]
    svg, png, pdf = drawn(lambda figure: _lines(figure, shown), name, 3.6, source(report))
    caption = (
        f"One line for each of the best {count(len(shown))} of {count(len(evaluated))} evaluated trials, "
        "coloured by accuracy. A line without a kernel size was not tuned and lies at the bottom of that axis."
    )
    return DrawnFigure(name, title, caption, f"Parallel coordinates of {count(len(shown))} trials.", svg, png, pdf)


def _lines(figure: Figure, shown: Sequence[TrialFacts]) -> None:
    axes = figure.subplots()
    columns = []
    for place, (_, value_of, written, is_log) in enumerate(AXES):
        values = [value_of(trial) for trial in shown]
        known = [value for value in values if value is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        columns.append([_height(low if value is None else value, low, high, is_log) for value in values])
        axes.plot([place, place], [0, 1], color=AXIS.light, linewidth=1, zorder=1)
        for text, at, vertical in ((written(low), -0.03, "top"), (written(high), 1.03, "bottom")):
            if known:
                axes.annotate(text, (place, at), ha="center", va=vertical, fontsize=8.5, color=MUTED.light)
    best = _accuracy(shown[-1])
    norm = Normalize(min(_accuracy(shown[0]), best - 1e-9), best)
    heights = np.array(columns).T
    segments = [np.column_stack([np.arange(len(AXES)), line]) for line in heights]
    lines = LineCollection(segments, cmap="viridis_r", norm=norm, linewidths=1.2, alpha=0.75, zorder=2)
    lines.set_array(np.array([_accuracy(trial) for trial in shown]))
    axes.add_collection(lines)
    axes.set_xlim(-0.5, len(AXES) - 0.5)
    axes.set_ylim(-0.14, 1.14)
    axes.set_xticks(range(len(AXES)), [label for label, *_ in AXES])
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    bar = figure.colorbar(ScalarMappable(norm, "viridis_r"), ax=axes, pad=0.02, aspect=24)
    bar.set_label("accuracy", color=MUTED.light)


def _height(value: float, low: float, high: float, is_log: bool) -> float:
    if high <= low:
        return 0.5
    if is_log and low > 0:
        value, low, high = (float(np.log(each)) for each in (value, low, high))
    return (value - low) / (high - low)
