"""The figures of a report, one function each: from facts to a Picture. Nothing is computed here but places on paper."""

from __future__ import annotations

from aiperf.report.facts import Report
from aiperf.report.figure import Picture
from aiperf.report.plots.accelerators import accelerators_over_time
from aiperf.report.plots.devices import devices_over_time
from aiperf.report.plots.progress import error_over_time, score_over_time
from aiperf.report.plots.search import accuracy_against_operations, tree_of_architectures
from aiperf.report.plots.waterfall import waterfall
from aiperf.report.plots.workers import workers_over_time


def all_pictures(report: Report) -> tuple[Picture, ...]:
    """Every figure that matplotlib draws, in the page's order."""
    return (
        score_over_time(report),
        error_over_time(report),
        waterfall(report),
        workers_over_time(report),
        accelerators_over_time(report),
        devices_over_time(report),
        accuracy_against_operations(report),
        tree_of_architectures(report),
    )
