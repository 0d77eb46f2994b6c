"""Reasons for an invalid score, and the next step for the user: text shared by the terminal, the page and report.json.

Computed from the work log alone. Every end without a score has a reason here. A missing reason would mean a valid score.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.accounting.score import Score
from aiperf.accounting.work_log import WorkLog
from aiperf.units import count, duration


@dataclass(frozen=True, slots=True)
class NoScore:
    """Reason and remedy of a missing score."""

    why: str
    """`no trial finished within the declared 1 min 00 s`."""
    remedy: str
    """`give it more time (schedule.duration_seconds), or …`."""

    @property
    def in_words(self) -> str:
        """`not valid: no worker came up; 10.0.0.7: …`."""
        return f"not valid: {self.why}"


def no_score(work_log: WorkLog, found: Score) -> NoScore | None:
    """Return the reason for an invalid score. None if it is valid. `found`: the score of the same work log."""
    if found.valid:
        return None
    missing = [_no_work(work_log) if not work_log.finished else None, _no_window(work_log, found)]
    reasons = [reason for reason in (_end(work_log), *missing) if reason is not None]
    # Reached if an error or work is missing though a trial finished in time: its evaluation did not count.
    reasons = reasons or [
        "no evaluation counts in its window" if found.quality is None else "no work was done in its valid window"
    ]
    return NoScore("; ".join(reasons), _remedy(work_log, found))


def _end(work_log: WorkLog) -> str | None:
    """Return the cause of an early end. None for the end of the declared time."""
    assert work_log.started is not None
    if work_log.ended is None and work_log.hosts_without_worker and not work_log.presences:
        return None  # the missing worker is the only relevant cause
    if work_log.ended is None:
        return "the run has not ended: it continues, or its driver was killed"
    at = duration(work_log.ended.at)
    reason = work_log.ended.reason
    if reason == "duration":
        return None
    if reason == "interrupted":
        return f"the run was interrupted after {at}"
    return f"the run ended after {at}{_ENDS.get(reason, f' ({reason})')}"


_ENDS = {
    "trials": ", when as many trials had finished as limits.trials allows",
    "no proposals": ", when nothing was left to propose",
    "corrupt images": ": more images are corrupt than dataset.corrupt_limit allows",
    "followed": ", when all trials of the followed run had been trained",
    "converged": ", when its score had come to rest (schedule.stop=converged)",
    "no workers": " without a worker",
}
"""Text for each reason of an early end."""


def _no_work(work_log: WorkLog) -> str:
    """Return the reason for the lack of finished trials."""
    if not work_log.presences:
        hosts = list(work_log.hosts_without_worker.items())
        if not hosts:
            return "no worker came up"
        host, reason = hosts[0]
        more = f" (and at {count(len(hosts) - 1)} more places)" if len(hosts) > 1 else ""
        return f"no worker came up. {host}: {reason}{more}"
    if work_log.failed:
        first = next(record for record in work_log.trials.values() if record.outcome == "failed")
        trials = f"{count(work_log.failed)} trials" if work_log.failed > 1 else "one trial"
        return f"no trial finished, and {trials} failed. The first: {first.reason}"
    if work_log.lost_attempts:
        attempts = f"{count(work_log.lost_attempts)} attempts were" if work_log.lost_attempts > 1 else "one attempt was"
        return f"no trial finished: {attempts} lost with workers"
    if not any(record.attempts for record in work_log.trials.values()):
        return "no trial began"
    if not work_log.preparations:
        return "no trial finished: the first was still being prepared (its network built and compiled)"
    if not work_log.accuracies:
        return "no trial finished: the first was still in its first epoch"
    return "no trial finished: the first was still in training"


def _no_window(work_log: WorkLog, found: Score) -> str | None:
    assert work_log.started is not None
    if found.window_seconds > 0:
        return None
    return f"its warm-up of {duration(work_log.started.warmup_seconds)} was not over, so there is no valid window"


def _remedy(work_log: WorkLog, found: Score) -> str:
    assert work_log.started is not None
    run = work_log.started.run
    again = f"go on with it while its declared time lasts: python -m aiperf resume={run}, or begin another"
    if work_log.started.simulated:
        again = "simulate it again: a simulated run is not resumed"
    reason = None if work_log.ended is None else work_log.ended.reason
    if reason is None and work_log.presences:
        return f"check its state: python -m aiperf status {run}. If its driver has ended, {again}"
    if reason == "interrupted":
        return again
    if not work_log.presences:
        return f"fix what is named above (ranks write to logs/ in the run's folder); then {again}"
    if reason == "corrupt images":
        return "fix the data set (python -m aiperf prepare names its corrupt images), then begin another run"
    if not work_log.finished and work_log.failed:
        return "fix what is named above (ranks write to logs/ in the run's folder), then begin another run"
    if reason in ("trials", "no proposals", "followed", "converged"):
        return "begin another that goes on for longer, or has a shorter schedule.warmup_seconds: work counts after the warm-up"
    if not work_log.finished:
        return "begin another with more time (schedule.duration_seconds), fewer schedule.epochs or a smaller start="
    return "begin another with more time: schedule.duration_seconds"
