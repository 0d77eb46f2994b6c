"""Sections of the report on the utilization of devices and hosts, and on energy with its EEHPC level (Green500 methodology)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from aiperf import units
from aiperf.page.figure import drawing, legend_above, on_time_axis
from aiperf.page.palette import BLUE, GREEN
from aiperf.page.section import DrawnFigure, Paragraph, Section, Table, numbers, rows, table, texts
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.phrases import share, source
from aiperf.report.plots import shade_warmup
from aiperf.sanitize import sanitize
from aiperf.system.utilization_series import UtilizationSeries, mean
from aiperf.units import count, duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DEVICES = 64
MOST_HOSTS = 64


def devices(report: Report) -> Section:
    """Return the section on utilization, memory, power and temperature of the devices, and load of the hosts."""
    missing = Paragraph("Utilization, power and temperature of the devices: not measured.", "empty")
    parts = (devices_over_time(report), each_device_over_time(report), telemetry(report) or missing, loads(report))
    return Section("devices", "Utilization and memory over time", parts, "Utilization")


def telemetry(report: Report) -> Table | None:
    """Return a table of the measurements in the valid window, one row for each of at most 64 devices. None without samples."""
    if report.telemetry is None or not report.telemetry.devices:
        return None
    every = report.telemetry.devices
    shown = every[:MOST_DEVICES]
    columns = (
        texts("device", [f"{one.device.model or one.device.id} on {one.host}" for one in shown]),
        numbers("worker", [one.worker for one in shown], str),
        numbers("utilisation", [one.utilisation_mean for one in shown], units.share, "mean, as defined by the vendor"),
        numbers("memory", [one.memory_used_max_bytes for one in shown], units.size, "maximum used"),
        numbers("power", [one.power_mean_watts for one in shown], units.watts, "mean"),
        numbers("energy", [one.energy_joules for one in shown], units.joules),
        numbers("max. temperature", [one.temperature_max_celsius for one in shown], "{:.0f} °C".format),
        texts("throttled", [_throttled(one.throttled or {}) for one in shown]),
        numbers(
            "not measured", [one.seconds_missing for one in shown], units.duration, "time of the window without samples"
        ),
    )
    footnote = "A dash: the device does not report this figure."
    footnote += f" {units.count(len(every) - len(shown))} more devices are in report.json." if every != shown else ""
    footnote += phrases.by_minute(report)
    return table("telemetry", "Devices over the valid window", columns, footnote, is_sortable=True)


def _throttled(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{reason} {units.share(part)}" for reason, part in shares.items() if part > 0) or "—"


def loads(report: Report) -> Table | None:
    """Return a table of the hosts' processor time by user (this run, other programs, kernel). None without samples of hosts."""
    if report.telemetry is None or not report.telemetry.loads:
        return None
    by_others = sorted(report.telemetry.loads, key=lambda one: -one.others)
    shown = by_others[:MOST_HOSTS]
    left_out = len(by_others) - len(shown)
    footnote = "Shares of all of the host's processor time. Programs of other containers count as other programs."
    footnote += f" {units.count(left_out)} more hosts are in report.json." if left_out else ""
    waiting = "time in which a program waited for a processor (/proc/pressure/cpu)"
    columns = (
        texts("host", [one.host for one in shown]),
        numbers("this run", [one.own for one in shown], phrases.share, "programs of this run, including Ray"),
        numbers("other programs", [one.others for one in shown], phrases.share),
        numbers("kernel", [one.kernel for one in shown], phrases.share, "interrupts and the kernel's own threads"),
        numbers("stolen", [one.stolen for one in shown], phrases.share, "given to other virtual machines by the hypervisor"),
        numbers("waiting", [one.stalled for one in shown], units.share, waiting),
        numbers("measured", [one.seconds for one in shown], units.duration, "of the window"),
    )  # fmt: skip
    return table("loads", "Processor time of the hosts over the valid window", columns, footnote, is_sortable=True)


def energy(report: Report) -> Section:
    """Return the section on energy in the valid window by measured part of the machine, with the level of the measurement."""
    missing = Paragraph("Power of the devices: not measured.", "empty")
    return Section("energy", "Energy", (energy_table(report) or missing, energy_level(report)))


def energy_table(report: Report) -> Table | None:
    """One row for each measured part of the machine. None if no power was measured."""
    if report.energy is None:
        return None
    shown = report.energy.scopes
    trapezoidal = "in the same seconds, by the trapezoidal rule"
    gaps = "share of the window's device-seconds; gaps are in no figure"
    columns = (
        texts("measured on", [one.scope for one in shown]),
        numbers("devices", [one.devices for one in shown], units.count),
        numbers("measured", [one.measured_share for one in shown], units.share, gaps),
        numbers("power", [one.watts for one in shown], units.watts, "mean over the measured time"),
        numbers("energy", [one.joules for one in shown], units.joules),
        numbers("by counters", [one.counted_joules for one in shown], units.joules, "in the seconds with counters and samples"),
        numbers("by samples", [one.sampled_joules for one in shown], units.joules, trapezoidal),
        numbers("difference", [one.disagreement for one in shown], units.share, "samples ÷ counters − 1"),
        numbers("max. difference", [one.worst_disagreement for one in shown], units.share, "of one device"),
        numbers("FLOPS/W", [one.flops_per_watt for one in shown], units.flops_per_watt, "score ÷ power of these devices only"),
    )  # fmt: skip
    restarts = sum(one.counter_restarts for one in report.energy.scopes)
    footnote = "A dash was not measured. Gaps are not filled. Methods: docs/report.md."
    footnote += phrases.by_minute(report)
    if restarts:
        footnote += f" Counters restarted {units.count(restarts)} times; samples, if any, cover that time."
    return table("energy", "Energy over the valid window", columns, footnote)


def energy_level(report: Report) -> Table | None:
    """Return the table of the EEHPC level of the power measurement by aspect. None if no power was measured."""
    if report.energy is None:
        return None
    shown = [(each.name, str(each.level), each.found, each.missing or "—") for each in report.energy.level.aspects]
    caption = f"Power measured by {report.energy.of}: {phrases.energy_level(report.energy)}"
    heads = ("aspect", ">level", "found", "missing for Level 1")
    return rows("energy-level", caption, heads, shown, "The level is that of the lowest aspect.")


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
        from matplotlib.lines import Line2D

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

    described = f"Line chart; on average over the run {parts[0]} {share(busy)}, {parts[1]} {share(full)}."
    caption = (
        f"{whose}: means of {count(len(course.utilisation))} parts of {duration(course.part_seconds)}, over all sampled "
        "devices. A gap in a line is time without samples. Utilization is the share of time in which the device was active, "
        "as defined by its vendor; MFU counts the work done. Both may fall between two trials."
    )
    return drawing(name, title, caption, 3.1, source(report), draw, described)


def shown(report: Report) -> UtilizationSeries | None:
    """Return the time series of utilization to draw: of the accelerators if measured, otherwise of the hosts. None without."""
    courses = () if report.telemetry is None else report.telemetry.courses
    measured = {one.kind: one for one in courses if any(one.utilisation_seconds) or any(one.memory_seconds)}
    return measured.get("accelerator", measured.get("host"))


def _whose(course: UtilizationSeries) -> tuple[str, tuple[str, str]]:
    if course.kind == "accelerator":
        return "All accelerators", ("accelerators busy", "their memory used")
    return "Processors and memory of the hosts", ("processors busy", "host memory used")


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

    height = 0.9 + max(0.9, 0.16 * len(rows))
    caption = f"One row for each of the first {count(len(rows))} sampled devices. White: not measured."
    described = f"Heat map of the utilization of {count(len(rows))} devices."
    return drawing(name, title, caption, height, source(report), draw, described)
