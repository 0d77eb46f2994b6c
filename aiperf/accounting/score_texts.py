"""Texts about a score: its warnings, and the reason for an invalid one, each with what the user can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aiperf.accounting.score import Score
from aiperf.accounting.work_log import WorkLog
from aiperf.run_warning import RunWarning
from aiperf.shell_command import command
from aiperf.units import count, duration, noun, share

_ENDS = {
    "interrupted": "was interrupted",
    "trials": "finished as many trials as limits.trials allows",
    "no proposals": "had nothing left to propose",
    "corrupt images": "found more corrupt {samples} than dataset.corrupt_limit allows",
    "followed": "trained all trials of the followed run",
    "no workers": "ended without a worker",
}
"""Text for each reason of an early end."""


@dataclass(frozen=True, slots=True)
class NoScore:
    """Reason for a missing score, and what the user can do."""

    why: str
    """`no worker came up. 10.0.0.7: …`."""
    remedy: str
    """`begin another run with more time (schedule.duration_seconds), or …`."""

    @property
    def in_words(self) -> str:
        return f"no valid score: {self.why}. Next: {self.remedy}"


def no_score(work_log: WorkLog, result: Score) -> NoScore | None:
    """Return the reason for an invalid score. None if it is valid."""
    assert work_log.started is not None
    if result.valid:
        return None
    reasons = [reason for reason in (_end(work_log), _no_trial(work_log)) if reason is not None]
    if result.window_seconds <= 0:
        warmup = duration(work_log.started.warmup_seconds)
        reasons.append(f"its warm-up of {warmup} was not over, so there is no valid window")
    # Reached if an error or work is missing though a trial finished in time: its evaluation did not count.
    missing = "no evaluation counts in its window" if result.quality is None else "no work was done in its valid window"
    return NoScore("; ".join(reasons or [missing]), _remedy(work_log))


def _end(work_log: WorkLog) -> str | None:
    ended = work_log.ended
    if ended is None:
        if work_log.hosts_without_worker and not work_log.presences:
            return None  # the missing worker is the only relevant cause
        return "the run has not ended: it continues, or its driver was killed"
    if ended.reason == "duration":
        return None
    text = _ENDS.get(ended.reason, "ended ({reason})").format(reason=ended.reason, samples=_samples(work_log))
    return f"the run {text}, after {duration(ended.at)}"


def _samples(work_log: WorkLog) -> str:
    assert work_log.started is not None
    return noun(work_log.started.dataset).many


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
        return f"{_fix(work_log)} {again}"
    if reason is None:
        return f"check its state: python -m aiperf status {run}. If its driver has ended, {again}"
    if reason == "corrupt images":
        return f"fix the data set (python -m aiperf prepare names its corrupt {_samples(work_log)}), then begin another run"
    if not work_log.finished and work_log.failed:
        return f"{_fix(work_log)} begin another run"
    return (
        "begin another with more time (schedule.duration_seconds), a shorter schedule.warmup_seconds, fewer schedule.epochs "
        "or a smaller start="
    )


def _fix(work_log: WorkLog) -> str:
    """Return the beginning of a remedy, with the cause that a host, a worker or a trial named."""
    failed = [record.reason for record in work_log.trials.values() if record.outcome == "failed"]
    lost = [last.left_reason for last in work_log.presences[-1:]]
    cause = next(filter(None, (*work_log.hosts_without_worker.values(), *failed, *lost)), "the cause")
    return f"fix this: {cause} (ranks write to logs/ in the run's folder). Then"


def score_warnings(work_log: WorkLog, result: Score) -> tuple[RunWarning, ...]:
    """Return the warnings to show next to a score, `result`, of the same work log."""
    warnings = [RunWarning(text, "warning", remedy) for text, remedy in _warning_texts(work_log, result)]
    if missing := work_log.missing_regions:
        text = f"training sampled {count(missing)} regions fewer than are counted, so its operations are overstated"
        remedy = (
            f"do not use these FLOPS: {_samples(work_log)} so small have too few regions, use others or another start="
        )
        warnings.insert(0, RunWarning(text, "critical", remedy))
    return tuple(warnings)


def _warning_texts(work_log: WorkLog, result: Score) -> Iterator[tuple[str, str]]:
    assert work_log.started is not None
    run, declared = work_log.started.run, work_log.started.duration_seconds
    if work_log.started.simulated:
        yield "simulated: no work was done", "do not use it as a score: only a real run has one"
    if work_log.ended is None:
        yield (
            "the run has not ended: figures up to the journal's last line",
            "simulate it again" if work_log.started.simulated else f"check its state: {command('status', run)}",
        )
    elif work_log.ended.reason != ("trials" if "benchmark" in work_log.started.config else "duration"):
        yield (
            f"ended before its declared {declared:.0f} s ({work_log.ended.reason})",
            "compare it with no run that lasted its declared time, or run it again",
        )
    if result.window_seconds <= 0:
        yield (
            f"no valid window: the warm-up of {work_log.started.warmup_seconds:.0f} s was not over",
            "run it for longer (schedule.duration_seconds), or with a shorter schedule.warmup_seconds",
        )
    if work_log.lost_workers:
        yield (
            f"workers lost: {work_log.lost_workers} of {len(work_log.presences)}",
            f"see {command('status', run)} for the last reason, and logs/ in the run's folder for the output of the ranks",
        )
    if (unlike := _unlike(work_log)) is not None:
        yield (
            unlike,
            "leave out the nodes with fewer accelerators, or set accelerators_per_worker to a number that all nodes have",
        )
    yield from _of_helpers(work_log)
    if work_log.hosts_without_worker:
        host, reason = next(iter(work_log.hosts_without_worker.items()))
        hosts = len(work_log.hosts_without_worker)
        yield (
            f"starts of workers that failed: {work_log.failed_starts}; hosts without one for a time: {hosts}, "
            f"as {host}: {reason}",
            "fix the named cause, and check these hosts: python -m aiperf preflight",
        )
    if work_log.lost_attempts:
        yield (
            f"attempts at trials lost: {work_log.lost_attempts}",
            "find the reasons in the report's table of trials; repeated work counts as wasted, in no score",
        )
    if work_log.failed:
        yield (
            f"trials failed: {work_log.failed}",
            "find the reason in the report's table of trials, and the output of the ranks in logs/ of the run's folder",
        )
    if work_log.unwritten:
        first = work_log.unwritten[0]
        yield (
            f"checkpoints that could not be written: {len(work_log.unwritten)}; first of trial {first.trial} after epoch "
            f"{first.epoch}: {first.reason}",
            "free space in the run's folder, or fix its file system: without checkpoints a loss costs more epochs",
        )
    if work_log.skipped:
        name, why = next(iter(work_log.skipped.items()))
        yield (
            f"corrupt {noun(work_log.started.dataset).many} left out: {len(work_log.skipped)}; first {name!r}: {why}",
            "repair or remove them: python -m aiperf prepare lists all",
        )
    if work_log.ended is not None and not work_log.start_finished:
        yield (
            "no trial of the starting network finished",
            "run it for longer (schedule.duration_seconds), or with fewer schedule.epochs",
        )
    yield from _of_interruptions(work_log)
    if result.busy_share is not None and result.busy_share < 0.95:
        yield (
            f"{share(1 - result.busy_share, 0)} of accelerator time idle",
            "see in the report where the time went, line by line",
        )


def _of_helpers(work_log: WorkLog) -> Iterator[tuple[str, str]]:
    for helper, effect in (("recorder", "samples are missing"), ("generator", "its requests were repeated")):
        of = sorted({worker for what, worker in work_log.lost_helpers if what == helper})
        if of:
            times = sum(what == helper for what, _ in work_log.lost_helpers)
            named = ", ".join(map(str, of[:8])) + (", …" if len(of) > 8 else "")
            yield f"{helper}s that died and were replaced: {times}, of worker {named}; {effect}", _KERNELS_LOG
    if work_log.unanswered:
        yield (
            f"requests for proposals without an answer: {work_log.unanswered} (the generator died, or was silent)",
            _KERNELS_LOG,
        )


def _of_interruptions(work_log: WorkLog) -> Iterator[tuple[str, str]]:
    if work_log.down_seconds:
        yield (
            f"the driver was down for {work_log.down_seconds:.0f} s, and this time counts in the score",
            "run it again, or compare it only with runs that were interrupted too",
        )
    for step in work_log.clock_steps:
        yield (
            f"the driver's wall clock stepped {'back' if step < 0 else 'forward'} by {abs(step):.1f} s",
            "set that host's clock before a run, and let chronyd or ntpd only slew it during the run",
        )
    for at, lines in work_log.rollbacks:
        yield (
            f"rolled back at {at:.0f} s: {lines} lines of the journal were removed and are in no figure",
            "do not compare it with a run without a rollback; a file next to the journal has the removed lines",
        )


_KERNELS_LOG = "find the cause in the kernel's log of that worker's host (dmesg: the OOM killer)"


def _unlike(work_log: WorkLog) -> str | None:
    assert work_log.started is not None
    planned = work_log.started.shape
    others = [] if planned is None else [one for one in work_log.presences if one.ranks != planned.ranks]
    if planned is None or not others:
        return None
    ranks = ", ".join(map(str, sorted({one.ranks for one in others})))
    return f"the plan was made for workers of {planned.ranks} ranks; {len(others)} of {len(work_log.presences)} had {ranks}"
