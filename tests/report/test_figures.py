"""Figures for papers: three file formats, run and machine in each file, marks where a curve leaves the axes."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

from aiperf.report import phrases
from aiperf.report.gather import gather
from aiperf.report.plots import score_over_time
from aiperf.report.sections import sections
from aiperf.report.sections.devices import each_device_over_time
from aiperf.system.summary import DeviceCourse, Telemetry
from tests.builders.report_journal import Shape, invented

REPORT = gather(invented(Shape(duration=40.0, warmup=10.0)))


def test_every_plot_names_run_and_machine_in_three_formats() -> None:
    plots = [each for section in sections(REPORT) for each in section.pictures if each.svg and not each.has_own_style]

    assert len(plots) >= 7
    for plot in plots:
        assert plot.svg is not None and phrases.source(REPORT) in unescape(plot.svg), plot.name
        assert plot.png is not None and plot.png.startswith(b"\x89PNG"), plot.name
        assert plot.pdf is not None and plot.pdf.startswith(b"%PDF"), plot.name


def test_equal_reports_give_equal_pdf_files() -> None:
    assert score_over_time(REPORT).pdf == score_over_time(REPORT).pdf


def test_a_burst_beyond_the_axis_is_marked_as_clipped() -> None:
    middle = len(REPORT.curve) // 2
    burst = replace(REPORT.curve[middle], instantaneous_flops_per_second=1e15)
    clipped = replace(REPORT, curve=(*REPORT.curve[:middle], burst, *REPORT.curve[middle + 1 :]))

    assert "clipped, up to 1.00" in (score_over_time(clipped).svg or "").replace("\u202f", " ")


def test_each_sampled_device_is_a_row_of_the_heat_map() -> None:
    courses = tuple(DeviceCourse(n, "node", f"GPU-{n}", (0.5, None, 1.0)) for n in range(3))
    measured = Telemetry(window=(10.0, 40.0), workers=(), devices=(), damaged=(), device_courses=courses)

    picture = each_device_over_time(replace(REPORT, telemetry=measured))

    assert picture is not None and picture.svg is not None
    assert all(f"node GPU-{n}" in picture.svg for n in range(3))
    one = replace(measured, device_courses=courses[:1])
    assert each_device_over_time(replace(REPORT, telemetry=one)) is None
