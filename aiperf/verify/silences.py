"""Decisions from silence: worker and proposal were silent for `limits.silence_seconds` before the driver gave them up.

The driver's clock is the journal's, so that the recorded times alone decide. `decisions.py` leaves these decisions out,
because it does not read the intervals that end a silence.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.errors import AiperfError
from aiperf.journal import events
from aiperf.rules.limits import limits_of
from aiperf.verify.attempts import Attempts
from aiperf.verify.check import Check, Handler, Notes

LAW = "a worker is declared lost, and a proposal rejected, after limits.silence_seconds without a message"
GENERATOR = "a proposal is lost with its generator, whose loss has a line of its own"


class Silences(Check):
    """Check decisions from silence."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts.running
        self._notes = Notes("silences", LAW, "decisions")
        self._seconds: float | None = None
        """limits.silence_seconds. None if this release cannot read the limits."""
        self._trials: dict[int, int] = {}
        """Trial of each worker that trains."""
        self._workers: dict[int, int] = {}
        """Worker of each trial that is trained."""
        self._requests: dict[int, dict[int, events.ProposalRequested]] = {}
        """Open requests of each worker by number, oldest first."""
        self._worker_of: dict[int, int] = {}
        """Worker of each open request."""
        self._generator_lost = -1.0

    def handlers(self) -> Mapping[type, Handler]:
        return {
            events.RunStarted: self._started,
            events.RunResumed: self._resumed,
            events.TrialStarted: self._trial_started,
            events.TrialFinished: self._over,
            events.TrialFailed: self._over,
            events.TrialLost: self._over,
            events.WorkerLost: self._worker_lost,
            events.ProposalRequested: self._requested,
            events.TrialProposed: self._proposed,
            events.TrialRejected: self._rejected,
            events.HelperLost: self._helper_lost,
        }

    def _started(self, line: int, event: events.RunStarted) -> None:
        try:
            self._seconds = limits_of(event).silence_seconds
        except (AiperfError, LookupError, ValueError) as error:
            self._notes.not_checked = f"this release cannot read the limits of the configuration ({error})"

    def _resumed(self, line: int, event: events.RunResumed) -> None:
        for of in (self._trials, self._workers, self._requests, self._worker_of):
            of.clear()

    def _trial_started(self, line: int, event: events.TrialStarted) -> None:
        self._trials[event.worker], self._workers[event.trial] = event.trial, event.worker

    def _over(self, line: int, event: events.TrialFinished | events.TrialFailed | events.TrialLost) -> None:
        worker = self._workers.pop(event.trial, None)
        if worker is not None:
            del self._trials[worker]

    def _requested(self, line: int, event: events.ProposalRequested) -> None:
        self._requests.setdefault(event.worker, {})[event.number] = event
        self._worker_of[event.number] = event.worker

    def _answered(self, number: int) -> events.ProposalRequested | None:
        worker = self._worker_of.pop(number, None)
        return None if worker is None else self._requests[worker].pop(number)

    def _proposed(self, line: int, event: events.TrialProposed) -> None:
        self._answered(event.number)

    def _helper_lost(self, line: int, event: events.HelperLost) -> None:
        if event.helper == "generator":
            self._generator_lost = event.at

    def _rejected(self, line: int, event: events.TrialRejected) -> None:
        request = self._answered(event.number)
        if request is None or self._seconds is None:
            return
        if event.by == "silence":
            self._check(line, f"proposal {event.number} was rejected", event.at - request.at)
            if request.worker not in self._trials:
                self._notes.add(
                    line, LAW, f"proposal {event.number} was rejected for silence, but its worker trained nothing"
                )
        elif event.by == "generator":
            self._notes.examined += 1
            if self._generator_lost < request.at:
                found = f"proposal {event.number} was lost with a generator, but no line since its request records that loss"
                self._notes.add(line, GENERATOR, found, "cannot be determined")

    def _worker_lost(self, line: int, event: events.WorkerLost) -> None:
        trial = self._trials.pop(event.worker, None)
        if trial is not None:
            del self._workers[trial]
        requests = list(self._requests.pop(event.worker, {}).values())
        for request in requests:
            del self._worker_of[request.number]
        if event.cause != "silence" or self._seconds is None:
            return
        if trial is not None:
            since: float | None = self._attempts[trial].received
        else:
            since = requests[0].at if requests else None
        if since is None:
            self._notes.add(
                line, LAW, f"worker {event.worker} was declared lost for silence, but no message from it was due"
            )
        else:
            self._check(line, f"worker {event.worker} was declared lost", event.at - since)

    def _check(self, line: int, decision: str, silent: float) -> None:
        assert self._seconds is not None, "checked by the caller"
        self._notes.examined += 1
        if silent < self._seconds:
            self._notes.add(
                line, LAW, f"{decision} after {silent:.3f} s, but limits.silence_seconds is {self._seconds:g}"
            )
