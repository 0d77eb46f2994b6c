"""Drawings of the accelerators' utilization and memory over time, as Figure 5 of the AIPerf paper."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aiperf.page.figure import drawn, legend_above, on_time_axis
from aiperf.page.palette import BLUE, GREEN
from aiperf.page.section import DrawnFigure
from aiperf.report.facts import Report
from aiperf.report.phrases import share, source
from aiperf.report.plots.progress import shade_warmup
from aiperf.sanitize import sanitize
from aiperf.system.utilization_series import UtilizationSeries, mean
from aiperf.units import count, duration


def devices_over_time(report: Report) -> DrawnFigure:
    """Draw mean utilization and memory of the accelerators over time, in percent."""
    name, title = "devices", "Utilization and memory over time"
    course = shown(report)
    if course is None:
        return DrawnFigure(name, title, empty="Utilization and memory of the devices: not measured.")
    whose, parts = _whose(course)
    busy = mean(course.utilisation, course.utilisation_seconds)
    full = mean(course.memory, course.memory_seconds)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        divisor = on_time_axis(axes, report.run.end)
        shade_warmup(axes, report.run.warmup_seconds, report.run.end, divisor, label="center")
        at = (np.arange(len(course.utilisation)) + 0.5) * course.part_seconds / divisor
        lines = ((course.utilisation, BLUE, parts[0], busy), (course.memory, GREEN, parts[1], full))
        handles = []
        for values, colour, what, average in lines:
            if average is None:
                continue
            axes.plot(
                at, [np.nan if each is None else 100 * each for each in values], color=colour.light, linewidth=1.6
            )
            handles.append(Line2D([], [], color=colour.light, label=f"{what}, mean {share(average)}"))
        axes.set_ylim(0, 104)
        axes.set_yticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        legend_above(axes, handles)

    files = drawn(draw, name, 3.1, source(report))
    averages = f"{parts[0]} {share(busy)}, {parts[1]} {share(full)}"
    caption = (
        f"{whose}: means of {count(len(course.utilisation))} parts of {duration(course.part_seconds)}, over all sampled "
        "devices. A gap in a line is time without samples. Utilization is the share of time in which the device was active, "
        "as defined by its vendor; MFU counts the work done. Both may fall between two trials."
    )
    return DrawnFigure(name, title, caption, f"Line chart; on average over the run {averages}.", *files)


def shown(report: Report) -> UtilizationSeries | None:
    """Return the time series of utilization to draw: of the accelerators if measured, otherwise of the hosts. None without."""
    courses = {} if report.telemetry is None else {course.kind: course for course in report.telemetry.courses}
    measured = [
        one for one in (courses.get("accelerator"), courses.get("host")) if one is not None and _is_measured(one)
    ]
    return measured[0] if measured else None


def _is_measured(course: UtilizationSeries) -> bool:
    return any(course.utilisation_seconds) or any(course.memory_seconds)


def _whose(course: UtilizationSeries) -> tuple[str, tuple[str, str]]:
    if course.kind == "accelerator":
        return "All accelerators", ("accelerators busy", "their memory used")
    return "No accelerator was sampled; processors and memory of the hosts", ("processors busy", "host memory used")


def each_device_over_time(report: Report) -> DrawnFigure | None:
    """Draw the utilization of at most 64 devices over time, one row of a heat map each. None if fewer than two have samples."""
    courses = () if report.telemetry is None else report.telemetry.device_courses
    rows = [each for each in courses if any(value is not None for value in each.utilisation)]
    if len(rows) < 2:
        return None
    name, title = "each-device", "Utilization of each device over time"
    shares = np.array([[np.nan if value is None else 100 * value for value in row.utilisation] for row in rows])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        divisor = on_time_axis(axes, report.run.end)
        assert report.telemetry is not None
        end = report.telemetry.window[1] / divisor
        image = axes.imshow(
            shares,
            aspect="auto",
            interpolation="nearest",
            cmap="viridis",
            vmin=0,
            vmax=100,
            extent=(0, end, len(rows) - 0.5, -0.5),
        )
        axes.set_yticks(range(len(rows)), [sanitize(f"{row.host} {row.device}") for row in rows], fontsize=7)
        axes.grid(visible=False)
        figure.colorbar(image, ax=axes, pad=0.01, aspect=24).set_label("utilization in %")

    files = drawn(draw, name, 0.9 + max(0.9, 0.16 * len(rows)), source(report))
    caption = f"One row for each of the first {count(len(rows))} sampled devices. White: not measured."
    described = f"Heat map of the utilization of {count(len(rows))} devices."
    return DrawnFigure(name, title, caption, described, *files)
