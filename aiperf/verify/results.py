"""Results of trials: a trial ends when its round's rules end it, and says the best of its epochs and what the search is told.

The search is told a curve's value, fitted by a few hundred powers: of a long run that is worked out again for a sample.
"""

from __future__ import annotations

from collections.abc import Container

from aiperf.journal.events import AnyEvent, EpochFinished, TrialFinished
from aiperf.rules.procedure import end_of_trial, told_accuracy
from aiperf.rules.state import Run
from aiperf.verify.check import Notes
from aiperf.verify.finding import Checked

LAW = "a trial ends when the rules of its round end it, with the best of its accuracies"
TOLD = "what the search is told of a trial is its curve, read at the last epoch of round 1"
ON = "no epoch follows the end of a trial"
TOLD_ROUNDING = 1e-9
"""The C library's powers differ in their last digit."""


class Results:
    """A check of the run as the rules see it."""

    looks_at_epochs = True

    def __init__(self, told: Container[int], *, is_ours: bool) -> None:
        """`told`: trials whose told accuracy is worked out again; `is_ours`: whether the present rules say what is told."""
        self._told = told
        self._is_ours = is_ours
        self._notes = Notes("results", LAW, "trials")
        self._curves = 0

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """The event, and the run as it stands before it."""
        if type(event) is EpochFinished:
            trial = run.trials[event.trial]
            assert trial.worker is not None, "the reader has seen to it"
            if run.workers[trial.worker].nears_end:  # else it cannot have been over
                over = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
                if over is not None:
                    self._notes.add(
                        line, ON, f"epoch {event.epoch} of trial {trial.number}, which was over before ({over})"
                    )
        elif isinstance(event, TrialFinished):
            self._finished(line, run, event)

    def checked(self) -> Checked:
        """See `Check`."""
        notes = self._notes
        if not self._is_ours:
            notes.not_checked = (
                "what the search was told: by other rules than this release's, or nothing, as a followed run's"
            )
        elif self._curves < notes.examined:
            notes.not_checked = f"what the search was told, of all but {self._curves} of them (--all)"
        return notes.checked()

    def _finished(self, line: int, run: Run, event: TrialFinished) -> None:
        notes, trial = self._notes, run.trials[event.trial]
        notes.examined += 1
        reason = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
        if reason != event.reason:
            by_rules = "it goes on" if reason is None else f"it ends by {reason!r}"
            notes.add(
                line,
                LAW,
                f"trial {event.trial} of round {trial.round} ended by {event.reason!r} after {len(trial.losses)} epochs; "
                f"by its round's rules {by_rules}",
            )
        if event.accuracy != trial.best_accuracy:
            notes.add(
                line, LAW, f"trial {event.trial}: {event.accuracy!r}; the best of its epochs is {trial.best_accuracy!r}"
            )
        if self._is_ours and event.trial in self._told and trial.accuracies:
            self._curves += 1
            told = told_accuracy(run.schedule, trial.accuracies)
            if abs(told - event.told_accuracy) > TOLD_ROUNDING:
                notes.add(line, TOLD, f"trial {event.trial}: {event.told_accuracy!r}; its curve gives {told!r}")
