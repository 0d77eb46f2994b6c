"""Section "A step" of a run with traced steps."""

from __future__ import annotations

from typing import Any

import pytest

from aiperf.accounting.step_breakdown import StepBreakdown, step_breakdown
from aiperf.journal.events import AnyEvent
from aiperf.page.section import DrawnFigure, Paragraph
from aiperf.report.facts import Report
from aiperf.report.gather import gather
from aiperf.report.html import page
from aiperf.report.sections import sections
from aiperf.report.sections.step import step, tables
from tests.builders.journal import ended, evaluated, finished, interval, one_trial, prepared, profiled


def report_of(*traced: AnyEvent) -> Report:
    """Run whose only trial has these events."""
    work: list[AnyEvent] = [interval(0, 4.0, 20.0, 100), evaluated(0, 20.0, 0.5), finished(0, 20.0, 0.5), ended()]
    return gather(one_trial(prepared(0, 2.0), *traced, *work))


def found(**changes: Any) -> StepBreakdown:
    return step_breakdown(profiled(**changes))


def test_a_run_without_traced_steps_has_no_section() -> None:
    report = report_of()

    assert report.step is None and step(report) is None
    assert "step" not in [section.name for section in sections(report)]


def test_shares_and_bandwidth_are_those_of_the_definition() -> None:
    traced = found()

    assert sum(part.share for part in traced.kernels) == pytest.approx(1)
    assert sum(part.share for part in traced.exchange) == pytest.approx(1)
    assert traced.slowdown == pytest.approx(0.1)
    assert traced.exchange_bytes == 2 * 1_000_000 * 2 * (2 - 1) / 2
    assert traced.exchange_bytes_per_second == pytest.approx(traced.exchange_bytes / 0.1)
    assert traced.numbers["convolution"]["fp16_subnormal"] == 0.13
    assert traced.numbers["convolution"]["lost_updates"] == 0.25


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        (
            {},
            ["negotiation", "wait for data", "wait for other data", "queuing", "memcpy in", "all-reduce", "memcpy out"],
        ),
        ({"exchange_source": "DDP logging data", "exchange": {"all-reduce alone": 1.0}}, ["all-reduce alone"]),
        ({"exchange_source": "", "exchange": {}}, ["exchange"]),
        ({"ranks": 1, "exchange_source": "", "exchange": {}, "exchange_bytes": 0}, None),
    ],
)
def test_phases_that_were_not_measured_say_so(changes: dict[str, Any], rows: list[str] | None) -> None:
    shown = {table.name: table for table in tables(found(**changes))}

    table = shown.get("step-exchange")
    assert (None if table is None else [row[0].text for row in table.rows]) == rows
    measured = profiled(**changes).exchange
    for row in () if table is None else table.rows:
        assert (row[1].text == "not measured") == (row[0].text not in measured)


@pytest.mark.parametrize(
    "nothing", [{"kernels": {}}, {"kernels": {}, "exchange": {}}, {"numbers": {}}, {"reference_seconds": 0}]
)
def test_a_trace_without_a_part_has_a_section(nothing: dict[str, Any]) -> None:
    assert step(report_of(profiled(**nothing))) is not None


def test_the_section_shows_the_first_trace_with_its_cost() -> None:
    report = report_of(profiled(at=3.0), profiled(at=3.5, first_step=1))

    section = step(report)
    assert section is not None
    (text,) = [part.text for part in section.parts if isinstance(part, Paragraph)]
    assert text.startswith(
        "Rank 0 of 2 traced steps 21 to 30 of trial 0: 110.000 ms per step, +10.00 % against the steps before"
    )
    assert "2.00 MB of gradients per step, 20.0 MB/s" in text
    (figure,) = [part for part in section.parts if isinstance(part, DrawnFigure)]
    assert figure.svg is not None and figure.svg.count("convolution") == 1 and figure.svg.count("negotiation") == 1
    assert '<a href="#step">A step</a>' in page(report, sections(report))
