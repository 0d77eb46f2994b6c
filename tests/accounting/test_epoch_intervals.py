"""Journals from before EpochFinished had an interval give the same results as current ones in every fold."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.score import score
from aiperf.accounting.score_texts import score_warnings
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent, EpochFinished, Interval, Progress, ProposalRequested, TrialProposed
from aiperf.journal.journal import NAME, read
from aiperf.report.fold import Collected, collect
from aiperf.rules.state import Run
from aiperf.simulate.model.profile import profile
from aiperf.simulate.session import world_of
from tests.audit import laws
from tests.audit.ground_truth import GroundTruth
from tests.audit.laws import BrokenLaw
from tests.audit.random_runs import _opening, cheap, random_case
from tests.audit.restarts import drive
from tests.audit.run_model import RunModel
from tests.builders.journal import in_old_form, state_after

GOLDEN = Path(__file__).parents[1] / "golden"

Change = Callable[[EpochFinished, Interval], EpochFinished]


def simulated(seed: int) -> tuple[list[AnyEvent], GroundTruth]:
    """Return the journal of a small run with many faults, and the true work of its workers."""
    ground_truth = GroundTruth()
    case = dataclasses.replace(random_case(seed), searches=False)
    opening = _opening(case)
    world = world_of(opening, cheap())
    with tempfile.TemporaryDirectory() as folder:
        drive(world, opening.first, Path(folder) / NAME, faults=case.faults, truth=ground_truth)
        return list(read(Path(folder))), ground_truth


def verdict(events: Iterable[AnyEvent], ground_truth: GroundTruth) -> tuple[str, int | None] | None:
    """Return the broken law found by the auditor and the trial. None if there is none."""
    record = RunModel(ground_truth)
    try:
        for event in events:
            record.take(event)
    except BrokenLaw as broken:
        return broken.law, broken.trial
    return None


def without_positions(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Return a journal without line positions."""
    return [
        msgspec.structs.replace(event, position=0) if isinstance(event, ProposalRequested | TrialProposed) else event
        for event in events
    ]


def in_one_line(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Return a journal of the old form in the current form. An epoch that has its interval keeps it."""
    reported: list[AnyEvent] = []
    for event in events:
        last = reported[-1] if reported else None
        if (
            isinstance(event, EpochFinished)
            and event.interval is None
            and isinstance(last, Progress)
            and last.trial == event.trial
        ):
            fields = {name: getattr(last, name) for name in Interval.__struct_fields__}
            reported[-1] = msgspec.structs.replace(event, interval=Interval(**fields))
        else:
            reported.append(event)
    return reported


def of_interval(**changes: Callable[[Any], Any]) -> Change:
    """Return a change of fields of the interval."""

    def changed(event: EpochFinished, interval: Interval) -> EpochFinished:
        fields = {name: change(getattr(interval, name)) for name, change in changes.items()}
        return msgspec.structs.replace(event, interval=msgspec.structs.replace(interval, **fields))

    return changed


DEFECTS: dict[str, tuple[Change, set[str]]] = {
    "no interval": (lambda event, interval: msgspec.structs.replace(event, interval=None), {laws.LOST}),
    "an image too many": (of_interval(training_images=lambda images: images + 1), {laws.LEGAL, laws.ONCE}),
    "an image too few": (of_interval(validation_images=lambda images: images - 1), {laws.ONCE}),
    "busy for longer than it lasted": (of_interval(busy_seconds=lambda seconds: seconds + 1e4), {laws.LEGAL}),
    "begun before the last one ended": (of_interval(start=lambda start: start - 1e4), {laws.LEGAL}),
    "ended after it was heard of": (of_interval(end=lambda end: end + 1.0), {laws.LEGAL}),
    "another epoch": (lambda event, interval: msgspec.structs.replace(event, epoch=event.epoch + 1), {laws.LEGAL}),
    "another attempt": (
        lambda event, interval: msgspec.structs.replace(event, attempt=event.attempt + 1),
        {laws.LEGAL},
    ),
}


def without_lines(run: Run) -> Run:
    """Remove the line count: the old form has more lines for the same events."""
    return dataclasses.replace(run, lines=0)


def without_forms(found: Collected) -> Collected:
    """Remove what differs by the form: the lines."""
    return dataclasses.replace(found, line=0, lines={})


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 9_999))
def test_the_old_form_of_a_journal_has_the_same_content(seed: int) -> None:
    today, ground_truth = simulated(seed)

    old = in_old_form(today)

    assert work_log(old) == work_log(today)
    assert asdict(score(work_log(old))) == asdict(score(work_log(today)))
    assert verdict(old, ground_truth) is None and verdict(today, ground_truth) is None
    old, today = without_positions(old), without_positions(today)
    assert profile(old) == profile(today)
    assert without_lines(state_after(old)) == without_lines(state_after(today))
    assert without_forms(collect(old)) == without_forms(collect(today))


@pytest.mark.parametrize("defect", DEFECTS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_defect_at_an_epochs_end_breaks_one_law_in_both_forms(defect: str, data: st.DataObject) -> None:
    change, broken = DEFECTS[defect]
    today, ground_truth = simulated(3)
    ends = [index for index, event in enumerate(today) if isinstance(event, EpochFinished) and event.interval]
    index = data.draw(st.sampled_from(ends))
    event = today[index]
    assert isinstance(event, EpochFinished) and event.interval is not None

    today[index] = change(event, event.interval)

    found = verdict(today, ground_truth)
    assert found is not None and found[0] in broken
    assert verdict(in_old_form(today), ground_truth) == found


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_recorded_journal_scores_the_same_in_the_new_form(journal: Path) -> None:
    recorded = json.loads(journal.with_suffix(".score.json").read_text())
    events = in_one_line(read(journal))
    assert any(isinstance(event, EpochFinished) and event.interval is not None for event in events)

    folded = work_log(events)
    result = score(folded)
    warnings = [asdict(warning) for warning in score_warnings(folded, result)]
    scored = json.loads(json.dumps(asdict(result) | {"warnings": warnings}))

    beside = ("flops_per_second_interval", "interval_method", "interval_basis")  # a statistic of a newer method
    assert {name: scored[name] for name in recorded if name not in beside} == {
        name: figure for name, figure in recorded.items() if name not in beside
    }
    present = asdict(score(work_log(read(journal))))
    assert [scored[name] for name in beside] == [present[name] for name in beside]
