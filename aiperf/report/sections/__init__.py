"""Sections of the report of one run, each made by one function from the values of the report."""

from __future__ import annotations

from collections.abc import Callable

from aiperf.page.section import Section, reworded
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.sections import configuration, devices, score, search, step, system, time_spent
from aiperf.units import ACCURACIES

SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    score.score,
    score.error,
    score.fixed_network,
    configuration.level,
    time_spent.losses,
    score.prediction,
    time_spent.roofline,
    step.exchange,
    step.step,
    time_spent.workers,
    time_spent.accelerators,
    devices.devices,
    devices.energy,
    search.operations_and_accuracy,
    search.tree,
    search.architecture,
    search.trials,
    system.system,
    configuration.configuration,
)
"""Sections in the order of the page."""
_OF_CLASSIFICATION = (score.error, search.operations_and_accuracy, search.tree, search.architecture)


def sections(report: Report) -> tuple[Section, ...]:
    """Draw and return all sections of the page that have content, in their order."""
    is_classified = report.run.metric in ACCURACIES
    made = (section(report) for section in SECTIONS if is_classified or section not in _OF_CLASSIFICATION)
    words = phrases.of_devices(report)
    return tuple(reworded(section, words) for section in made if section is not None)
