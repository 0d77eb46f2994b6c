"""Reasons for an invalid score, and what the user can do. Every end without a score has a reason here."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.accounting.score import Score
from aiperf.accounting.work_log import WorkLog
from aiperf.units import count, duration

_ENDS = {
    "interrupted": "was interrupted",
    "trials": "finished as many trials as limits.trials allows",
    "no proposals": "had nothing left to propose",
    "corrupt images": "found more corrupt images than dataset.corrupt_limit allows",
    "followed": "trained all trials of the followed run",
    "no workers": "ended without a worker",
}
"""Text for each reason of an early end."""
_FIX = "fix what is named above (ranks write to logs/ in the run's folder), then"


@dataclass(frozen=True, slots=True)
class NoScore:
    """Reason for a missing score, and what the user can do."""

    why: str
    """`no worker came up. 10.0.0.7: …`."""
    remedy: str
    """`begin another run with more time (schedule.duration_seconds), or …`."""

    @property
    def in_words(self) -> str:
        return f"not valid: {self.why}"


def no_score(work_log: WorkLog, found: Score) -> NoScore | None:
    """Return the reason for an invalid score. None if it is valid."""
    assert work_log.started is not None
    if found.valid:
        return None
    reasons = [reason for reason in (_end(work_log), _no_trial(work_log)) if reason is not None]
    if found.window_seconds <= 0:
        warmup = duration(work_log.started.warmup_seconds)
        reasons.append(f"its warm-up of {warmup} was not over, so there is no valid window")
    # Reached if an error or work is missing though a trial finished in time: its evaluation did not count.
    missing = "no evaluation counts in its window" if found.quality is None else "no work was done in its valid window"
    return NoScore("; ".join(reasons or [missing]), _remedy(work_log))


def _end(work_log: WorkLog) -> str | None:
    ended = work_log.ended
    if ended is None:
        if work_log.hosts_without_worker and not work_log.presences:
            return None  # the missing worker is the only relevant cause
        return "the run has not ended: it continues, or its driver was killed"
    if ended.reason == "duration":
        return None
    return f"the run {_ENDS.get(ended.reason, f'ended ({ended.reason})')}, after {duration(ended.at)}"


def _no_trial(work_log: WorkLog) -> str | None:
    if work_log.finished:
        return None
    if not work_log.presences:
        hosts = [f". {host}: {reason}" for host, reason in work_log.hosts_without_worker.items()]
        more = f" (and at {count(len(hosts) - 1)} more places)" if len(hosts) > 1 else ""
        return "no worker came up" + "".join(hosts[:1]) + more
    if work_log.failed:
        first = next(record for record in work_log.trials.values() if record.outcome == "failed")
        return f"no trial finished. Trials failed: {count(work_log.failed)}. The first: {first.reason}"
    if _all_were_lost(work_log):
        last = work_log.presences[-1]
        whose = "its only worker was lost" if len(work_log.presences) == 1 else "all its workers were lost. The last"
        return f"no trial finished: {whose}, after {duration(last.left or 0.0)}: {last.left_reason}"
    if work_log.lost_attempts:
        return f"no trial finished. Attempts lost with workers: {count(work_log.lost_attempts)}"
    if not any(record.attempts for record in work_log.trials.values()):
        return "no trial began"
    doing = "in training" if work_log.preparations else "being prepared (its network built and compiled)"
    return f"no trial finished: the first was still {doing}"


def _all_were_lost(work_log: WorkLog) -> bool:
    return 0 < work_log.lost_workers == len(work_log.presences)


def _remedy(work_log: WorkLog) -> str:
    assert work_log.started is not None
    run, reason = work_log.started.run, None if work_log.ended is None else work_log.ended.reason
    again = f"continue it while its declared time lasts: python -m aiperf resume={run}, or begin another"
    if work_log.started.simulated:
        again = "simulate it again: a simulated run is not resumed"
    if reason == "interrupted":
        return again
    if not work_log.presences or (not work_log.finished and _all_were_lost(work_log)):
        return f"{_FIX} {again}"
    if reason is None:
        return f"check its state: python -m aiperf status {run}. If its driver has ended, {again}"
    if reason == "corrupt images":
        return "fix the data set (python -m aiperf prepare names its corrupt images), then begin another run"
    if not work_log.finished and work_log.failed:
        return f"{_FIX} begin another run"
    return (
        "begin another with more time (schedule.duration_seconds), a shorter schedule.warmup_seconds, fewer schedule.epochs "
        "or a smaller start="
    )
