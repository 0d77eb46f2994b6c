"""Check of a simulated run's laws after every event: journal, live state and true work are compared.

`run_model.py` keeps the information from the journal, independently of evolve, decide, interpret, work log and score.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from aiperf.accounting.work_log import work_log
from aiperf.drive.driver import TURN_SECONDS, Driver
from aiperf.drive.session import SessionState
from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import read
from tests.audit.ground_truth import GroundTruth
from tests.audit.laws import DUE, ENDS, GENERATIONS, IDLE, LIMITS, ONE_TRIAL, REPLAY, WAITS, WRITTEN, BrokenLaw
from tests.audit.restarts import Audience
from tests.audit.run_model import RunModel
from tests.builders.journal import state_after

LATE_CHILDREN = 20
"""Minimum number of children in the last third of a run for a check of their parents."""
LATE_ROUND = 6
"""Round from which on parents count as late: the first generations had time to be trained and to be parents."""


class Auditor(Audience):
    """Checker of one run. Raises BrokenLaw at the first event that breaks a law."""

    def __init__(self, ground_truth: GroundTruth, draw: random.Random, replays: float = 0.0) -> None:
        """`draw`: selects the times of the comparison with a replay. `replays`: share of turns with a comparison."""
        self._ground_truth = ground_truth
        self._draw = draw
        self._replays = replays
        self._model = RunModel(ground_truth)
        self._last: Driver | None = None
        """Current driver, once it has finished a turn."""

    @property
    def descent(self) -> list[tuple[int, int]]:
        """Return (round, round of its parent) of every proposal with a parent, in order."""
        return self._model.descent

    def on_disk(self, events: Sequence[AnyEvent]) -> None:
        """Check the laws for each event."""
        for event in events:
            self._model.take(event)
        if self._ground_truth.breaches:
            trial, what = self._ground_truth.breaches[0]
            raise BrokenLaw(ONE_TRIAL, what, trial)

    def after_turn(self, driver: Driver) -> None:
        """Compare the live state with the journal."""
        run, now = driver.run, driver.clock.now()
        self._last = driver
        if run.lines != self._model.line:
            raise BrokenLaw(REPLAY, f"the run has read {run.lines} lines, but the journal has {self._model.line}")
        live = {number: worker.trial for number, worker in run.workers.items()}
        if live != self._model.training:
            raise BrokenLaw(REPLAY, f"trials of the workers: live {live}, by the journal {self._model.training}")
        self._check_orders()
        if left_out := self._ground_truth.up - self._model.seen:
            raise BrokenLaw(IDLE, f"workers {sorted(left_out)} are up, but have not joined")
        if run.ended is None:
            self._check_idleness(driver, now)
        if self._draw.random() < self._replays:
            self._compare(driver)

    def before_resume(self, state: SessionState) -> None:
        """Check that a resumed run starts with all lines ever written."""
        # The dead driver's memory, such as the end of the run, need not be on disk: it is no longer checked.
        self._last = None
        self._ground_truth.up.clear()
        self._check_orders()
        if state.run.lines != self._model.line:
            raise BrokenLaw(REPLAY, f"{self._model.line} lines were written, and {state.run.lines} were read again")

    def finish(self, path: Path) -> None:
        """Check the finished run."""
        started, ended = self._model.started, self._model.ended
        assert started is not None
        if ended is None:
            raise BrokenLaw(ENDS, f"its time of {started.duration_seconds:.0f} s is up, and it has not ended")
        if self._last is not None and self._last.run.ended is not None:
            self._compare(self._last)
        self._model.check_score(work_log(read(path)))
        self._check_generations()

    def _check_orders(self) -> None:
        for trial, attempt in self._ground_truth.orders:
            if trial not in self._model.trials or self._model.trials[trial].attempt < attempt:
                raise BrokenLaw(
                    WRITTEN, f"attempt {attempt} of trial {trial} was ordered, and is not in the journal", trial
                )
        self._ground_truth.orders.clear()

    def _check_generations(self) -> None:
        # If results of round 1 had a scale of their own, its trials would always be the parents, and grown networks would
        # never grow again.
        if self._model.follows:
            return  # its rounds are those of other workers
        late = self._model.descent[-(len(self._model.descent) // 3) :]
        if len(late) < LATE_CHILDREN or min(round_ for round_, _ in late) < LATE_ROUND:
            return
        of_first = sum(parent == 1 for _, parent in late)
        if 2 * of_first > len(late):
            raise BrokenLaw(
                GENERATIONS,
                f"{of_first} of the last {len(late)} children have a parent of round 1, although they are of round "
                f"{min(late)[0]} and later",
            )

    # --- states

    def _check_idleness(self, driver: Driver, now: float) -> None:
        model, limits = self._model, self._model.limits
        idle = [number for number, trial in model.training.items() if trial is None]
        for lost in model.lost:
            if lost.losses >= limits["attempts"] or model.is_over(lost):
                raise BrokenLaw(LIMITS, f"trial {lost.number} can end, and does not", lost.number)
            if idle:
                raise BrokenLaw(IDLE, f"worker {idle[0]} idles, and trial {lost.number} is lost", lost.number)
        for number in idle:
            if waiting := model.waiting_for(number):
                raise BrokenLaw(WAITS, f"worker {number} idles, and trial {max(waiting)} waits for it", max(waiting))
        for number, turns in model.turns.items():
            # A following run may have to wait until a parent is trained.
            is_asked = turns.vain < limits["rejections"] and not model.follows
            if is_asked and model.missing(number) > 0:
                raise BrokenLaw(DUE, f"{model.missing(number)} proposals of worker {number} are due")
        overdue = limits["silence_seconds"] + TURN_SECONDS + 1e-6
        for request in model.pending:
            if now - request.at > overdue:
                raise BrokenLaw(
                    IDLE, f"proposal {request.number} has been waited for since {request.at} s", request.number
                )
        for trial_number in driver.run.running:
            if now - driver.run.trials[trial_number].last_message > overdue:
                raise BrokenLaw(IDLE, f"trial {trial_number} has been silent for longer than {overdue} s", trial_number)

    def _compare(self, driver: Driver) -> None:
        events = list(read(driver.journal.path))
        replayed = state_after(events)
        for name in replayed.__dataclass_fields__:
            if getattr(replayed, name) != getattr(driver.run, name):
                raise BrokenLaw(
                    REPLAY, f"Run.{name}: live {getattr(driver.run, name)}, replayed {getattr(replayed, name)}"
                )
        if work_log(events) != driver.work_log:
            raise BrokenLaw(REPLAY, "the live work log is not that of the journal")
