"""Check of trial results: end by the rules of the round, best accuracy, and accuracy reported to the search.

The reported accuracy is the value of a fitted learning curve. In a long run it is recomputed for a sample.
"""

from __future__ import annotations

from collections.abc import Container

from aiperf.journal.events import AnyEvent, EpochFinished, TrialFinished
from aiperf.rules.procedure import end_of_trial, reported_accuracy
from aiperf.rules.state import Run
from aiperf.verify.check import Notes
from aiperf.verify.finding import CheckResult

LAW = "a trial ends when the rules of its round end it, with the best of its accuracies"
REPORTED = "the accuracy reported to the search is the value of the trial's curve at the last epoch of round 1"
AFTER_END = "no epoch follows the end of a trial"
REPORTED_ROUNDING = 1e-9
"""Absolute. Powers of C libraries differ in the last digit."""


class Results:
    """Check the results of trials."""

    looks_at_epochs = True

    def __init__(self, sample: Container[int]) -> None:
        """Keep `sample`: trials whose reported accuracy is recomputed."""
        self._sample = sample
        self._notes = Notes("results", LAW, "trials")
        self._curves = 0

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """Examine an event. `run`: state before the event."""
        if type(event) is EpochFinished:
            trial = run.trials[event.trial]
            assert trial.worker is not None, "checked by the reader"
            if run.workers[trial.worker].nears_end:  # Else the trial cannot have ended.
                over = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
                if over is not None:
                    self._notes.add(
                        line, AFTER_END, f"epoch {event.epoch} of trial {trial.number} after its end ({over})"
                    )
        elif isinstance(event, TrialFinished):
            self._finished(line, run, event)

    def checked(self) -> CheckResult:
        """Return the result."""
        notes = self._notes
        if self._curves < notes.examined:
            notes.not_checked = f"reported accuracies, except those of {self._curves} trials (use --all)"
        return notes.checked()

    def _finished(self, line: int, run: Run, event: TrialFinished) -> None:
        notes, trial = self._notes, run.trials[event.trial]
        notes.examined += 1
        reason = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
        if reason != event.reason:
            by_rules = "it continues" if reason is None else f"it ends by {reason!r}"
            notes.add(
                line,
                LAW,
                f"trial {event.trial} of round {trial.round} ended by {event.reason!r} after {len(trial.losses)} epochs; "
                f"by the rules of its round {by_rules}",
            )
        if event.accuracy != trial.best_accuracy:
            notes.add(
                line,
                LAW,
                f"trial {event.trial}: accuracy {event.accuracy!r}, but its best epoch has {trial.best_accuracy!r}",
            )
        if event.trial in self._sample and trial.accuracies:
            self._curves += 1
            reported = reported_accuracy(run.schedule, trial.accuracies)
            if abs(reported - event.reported_accuracy) > REPORTED_ROUNDING:
                notes.add(
                    line,
                    REPORTED,
                    f"trial {event.trial}: {event.reported_accuracy!r}, but its curve gives {reported!r}",
                )
