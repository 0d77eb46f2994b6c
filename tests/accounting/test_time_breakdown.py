"""Each line of the time breakdown against a generated truth: every worker's time is known in advance.

The last line is a remainder, so that a correct sum alone proves nothing: here each line is checked by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.intervals import IntervalTable, Window
from aiperf.accounting.score import busy_share, score
from aiperf.accounting.work_log import window, work_log
from aiperf.journal.events import CLOCKS, AnyEvent, Interval, Progress, TrialLost, WorkerLost
from aiperf.journal.messages import Sums
from tests.builders.journal import begun, ended, finished, joined, prepared, proposed, requested, started

RANKS = 2
LENGTH = 1000.0


@dataclass
class Life:
    """Time of a worker as events, recorded together with the truth."""

    worker: int
    at: float
    events: list[AnyEvent] = field(default_factory=list)
    truth: dict[str, float] = field(default_factory=dict)

    def spend(self, line: str, seconds: float) -> None:
        """Advance the time and count it in this line."""
        self.truth[line] = self.truth.get(line, 0.0) + seconds
        self.at += seconds

    def prepare(self, start: float, compiling: float) -> None:
        trial = self.events[-1].trial  # type: ignore[union-attr]
        attempt = self.events[-1].attempt  # type: ignore[union-attr]
        self.spend("start", start)
        self.spend("compile", compiling)
        self.events.append(prepared(trial, self.at, attempt=attempt, compile_seconds=compiling))

    def work(self, trial: int, attempt: int, epoch: int, parts: dict[str, float]) -> None:
        """Add an interval whose seconds are divided by line. 'training' is the remainder of the busy time."""
        begin = self.at
        for line, seconds in parts.items():
            self.spend(line, seconds)
        busy = parts["training"] + parts["communication"] + parts["validation"]
        self.events.append(
            Progress(
                at=self.at,
                worker=self.worker,
                trial=trial,
                attempt=attempt,
                epoch=epoch,
                start=begin,
                end=self.at,
                training_images=10,
                validation_images=5,
                busy_seconds=busy,
                communication_seconds=parts["communication"],
                validation_seconds=parts["validation"],
                input_seconds=parts["input"],
                checkpoint_seconds=parts["checkpoint"],
            )
        )


seconds = st.floats(0.01, 9.0)
parts = st.fixed_dictionaries(
    {
        "training": seconds,
        "communication": st.floats(0.0, 3.0),
        "validation": st.floats(0.0, 3.0),
        "input": st.floats(0.0, 3.0),
        "checkpoint": st.floats(0.0, 1.0),
        "unexplained": st.floats(0.0, 1.0),
    }
)


@st.composite
def lives(draw: st.DrawFn, worker: int, done_again: bool = False) -> Life:
    """Return a worker that joins, trains some trials, may be lost during one of them, and may leave before the end.

    A lost trial resumes with its second epoch. `done_again`: with its first, and no work before counts.
    """
    life = Life(worker, 0.0)
    life.spend("absent", draw(st.floats(0.0, 5.0)))
    life.events.append(joined(worker, life.at, ranks=RANKS))
    for trial in range(10 * worker, 10 * worker + draw(st.integers(1, 3))):
        life.events += [requested(trial, worker, life.at), proposed(trial, life.at)]
        life.spend("gap", draw(seconds))
        life.events.append(begun(trial, life.at, worker=worker))
        life.prepare(draw(seconds), draw(st.floats(0.0, 4.0)))
        before, since = dict(life.truth), life.at
        for _ in range(draw(st.integers(1, 3))):
            life.work(trial, 1, 1, draw(parts))
        if draw(st.booleans()):
            if done_again:
                life.truth = before
                life.truth["done again"] = life.truth.get("done again", 0.0) + life.at - since
            life.spend("lost", draw(seconds))
            life.events.append(TrialLost(at=life.at, trial=trial, attempt=1, reason="killed"))
            life.spend("gap", draw(seconds))
            epoch = 1 if done_again else 2
            life.events.append(begun(trial, life.at, 2, worker, epoch=epoch))
            life.prepare(draw(seconds), draw(st.floats(0.0, 4.0)))
            life.work(trial, 2, epoch, draw(parts))
        life.events.append(finished(trial, life.at, 0.5))
    life.spend("gap", draw(seconds))
    if draw(st.booleans()):
        life.spend("gap", max(0.0, 6.0 - life.at))  # by then the other one has joined
        life.events.append(WorkerLost(at=life.at, worker=worker, reason="power"))
        life.spend("absent", LENGTH - life.at)
    else:
        life.spend("gap", LENGTH - life.at)
    return life


def together(*workers: Life) -> list[AnyEvent]:
    """Return the journal of several workers."""
    events = sorted((event for life in workers for event in life.events), key=lambda event: event.at)
    return [started(duration=LENGTH, warmup=1.0), *events, ended(LENGTH)]


@settings(max_examples=40, deadline=None)
@given(lives(0), lives(1))
def test_every_line_equals_the_time_spent_on_it(first: Life, second: Life) -> None:
    kept = work_log(together(first, second))

    found = {line.name: line.seconds for line in time_breakdown(accelerator_time(kept, Window(0.0, LENGTH))).lines}

    for name, value in found.items():
        truth = RANKS * (first.truth.get(name, 0.0) + second.truth.get(name, 0.0))
        assert value == pytest.approx(truth, abs=1e-6), name


@settings(max_examples=40, deadline=None)
@given(lives(0), lives(1))
def test_busy_share_is_busy_time_over_all_accelerator_time(first: Life, second: Life) -> None:
    kept = work_log(together(first, second))
    lines = ("training", "communication", "validation")
    busy = sum(life.truth.get(line, 0.0) for life in (first, second) for line in lines)

    share = busy_share(kept, Window(0.0, LENGTH))

    assert share == pytest.approx(busy / (2 * LENGTH), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(lives(0), st.floats(5.0, 60.0))
def test_time_before_the_window_is_in_no_line(life: Life, warmup: float) -> None:
    """The lines of two adjacent windows sum to those of the combined window."""
    kept = work_log(together(life))

    before, after, whole = (
        {line.name: line.seconds for line in time_breakdown(accelerator_time(kept, inside)).lines}
        for inside in (Window(0.0, warmup), Window(warmup, LENGTH), Window(0.0, LENGTH))
    )

    for name, value in whole.items():
        assert before[name] + after[name] == pytest.approx(value, abs=1e-6), name
    assert window(kept) == Window(1.0, LENGTH)
    assert score(kept).window_seconds == LENGTH - 1.0


def test_every_clock_is_declared_in_every_form() -> None:
    """A worker's sums, both forms of an interval and the columns of the work log."""
    forms = (Sums, Interval, Progress)

    assert [set(CLOCKS) - set(form.__struct_fields__) for form in forms] == [set()] * len(forms)
    assert {name for name in Sums.__struct_fields__ if name.endswith("_seconds")} == set(CLOCKS)
    assert set(CLOCKS.values()) <= {"", *CLOCKS}
    assert all(len(IntervalTable().clock(name.removesuffix("_seconds"))) == 0 for name in CLOCKS)
