"""The Pareto front of a run's trials: operations of a training image against accuracy."""

from __future__ import annotations

from collections.abc import Iterable

from aiperf.report.facts import TrialFacts


def pareto_front(trials: Iterable[TrialFacts]) -> tuple[TrialFacts, ...]:
    """Evaluated trials that no trial with as few operations or fewer equals in accuracy, the cheapest first. Of trials alike in
    both the first one stands there."""
    kept: list[TrialFacts] = []
    best = -1.0
    for trial in sorted(trials, key=lambda each: (operations(each), -(each.accuracy or 0.0), each.number)):
        if trial.accuracy is not None and trial.accuracy > best:
            kept.append(trial)
            best = trial.accuracy
    return tuple(kept)


def operations(trial: TrialFacts) -> int:
    """Of one training image, forward and backward."""
    return trial.forward_flops + trial.backward_flops
