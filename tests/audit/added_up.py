"""Counted work, recomputed from a shadow model and compared with the work log and the score."""

from __future__ import annotations

import math

from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkLog
from aiperf.data.description import DataSet
from tests.audit.laws import ONCE, SCORE, BrokenLaw
from tests.audit.shadow_model import ShadowModel


def check_work_log(shadow: ShadowModel, task: DataSet, kept: WorkLog) -> None:
    """Raise BrokenLaw if an image of a finished run counts twice, or if the score does not match the work."""
    assert shadow.started is not None and shadow.ended is not None
    begin, end = shadow.started.warmup_seconds, min(shadow.ended.at, shadow.started.duration_seconds)
    inside: list[float] = []
    logged_of: dict[int, float] = {}
    for number, flops in zip(kept.intervals.trial, kept.intervals.flops, strict=True):
        logged_of[number] = logged_of.get(number, 0.0) + flops  # whole numbers below 2^53: exact in any order
    for trial in shadow.trials.values():
        training, validation = trial.shadow_trial.operations
        total = 0
        for epoch, rows in trial.shadow_trial.rows.items():
            images = (sum(row.training for row in rows), sum(row.validation for row in rows))
            if images[0] > task.training_images or images[1] > task.validation_images:
                raise BrokenLaw(ONCE, f"{images} images of epoch {epoch} of trial {trial.number} count", trial.number)
            for row in rows:
                done = row.training * training + row.validation * validation
                total += done
                length = row.end - row.start
                overlap = min(row.end, end) - max(row.start, begin)
                if length > 0:
                    inside.append(done * max(0.0, overlap) / length)
                elif begin < row.end <= end:
                    inside.append(done)
        logged = logged_of.get(trial.number, 0.0)
        if not math.isclose(logged, total, rel_tol=1e-12):
            raise BrokenLaw(
                ONCE, f"trial {trial.number}: {logged!r} operations in the work log, {total!r} done", trial.number
            )
    found = score(kept).flops_per_second
    expected = math.fsum(inside) / (end - begin) if end > begin else None
    if (found is None) != (expected is None) or (found and not math.isclose(found, expected or 0.0, rel_tol=1e-9)):
        raise BrokenLaw(SCORE, f"{found!r} FLOPS, by the work done {expected!r}")
