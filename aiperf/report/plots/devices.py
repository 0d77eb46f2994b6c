"""How busy and how full the accelerators were over time: Figure 5 of the paper."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aiperf.report.facts import Report
from aiperf.report.figure import Picture, drawn, legend_above, on_time_axis
from aiperf.report.palette import BLUE, GREEN
from aiperf.report.plots.progress import shade_warmup
from aiperf.system.course import Course, mean
from aiperf.units import NOT_MEASURED, count, duration, share


def devices_over_time(report: Report) -> Picture:
    """Utilisation and memory of the accelerators; of processors and host memory where no accelerator was sampled."""
    name, title = "devices", "Utilisation and memory over time"
    course = shown(report)
    if course is None:
        return Picture(name, title, "", "", None, None, "Utilisation and memory of the devices: not measured.")
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

    svg, png = drawn(draw, name, 3.1)
    told = f"{parts[0]} {_told(busy)}, {parts[1]} {_told(full)}"
    caption = (
        f"{whose}: means of {count(len(course.utilisation))} parts of {duration(course.part_seconds)}, over all that were "
        "sampled; a break in a line is time without samples. Utilisation is the share of time in which the device did "
        "anything at all, as its vendor counts it; how much of it was used is the MFU. Between two trials both may sink."
    )
    return Picture(name, title, caption, f"Line chart; on average over the run {told}.", svg, png)


def shown(report: Report) -> Course | None:
    """The course that is drawn: accelerators', where any figure of them was measured, else the hosts'."""
    courses = {} if report.telemetry is None else {course.kind: course for course in report.telemetry.courses}
    measured = [
        one for one in (courses.get("accelerator"), courses.get("host")) if one is not None and _is_measured(one)
    ]
    return measured[0] if measured else None


def _is_measured(course: Course) -> bool:
    return any(course.utilisation_seconds) or any(course.memory_seconds)


def _whose(course: Course) -> tuple[str, tuple[str, str]]:
    if course.kind == "accelerator":
        return "All accelerators", ("accelerators busy", "their memory used")
    return "No accelerator was sampled; processors and memory of the hosts", ("processors busy", "host memory used")


def _told(value: float | None) -> str:
    return NOT_MEASURED if value is None else share(value)
