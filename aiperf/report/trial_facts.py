"""Results of each trial (training of one network): outcome, work inside the valid window, and the Pareto front."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aiperf.accounting.intervals import Window, share_inside
from aiperf.accounting.work_log import Operations
from aiperf.report.facts import InWindow, TrialFacts, facts_of
from aiperf.report.fold import Collected, CollectedTrial

AT_THE_END = {"training": "cut off", "waiting": "never started"}
"""Outcomes of trials that were in these states at the end of the run."""
Morph = Mapping[str, Any]
"""A morph as encoded in the journal."""


def trials(run: Collected, inside: Window) -> tuple[TrialFacts, ...]:
    """Return description, outcome and work of all proposed trials, in order of their proposals."""
    columns = run.work_log.intervals
    trial = columns.trial
    most = 1 + max(run.trials, default=0)
    seconds = np.bincount(trial, columns.end - columns.start, most).tolist()
    # These floating-point sums are exact: a trial has fewer than 2^53 images.
    images = np.bincount(trial, columns.training_images, most).tolist()
    weight = share_inside(columns.start, columns.end, inside)
    in_window = [
        np.bincount(trial, weight * amount, most).tolist()
        for amount in (
            columns.training_images,
            columns.flops + columns.wasted,
            columns.tensor_flops,
            columns.clock("busy") * columns.ranks,
        )
    ]
    records, has_ended = run.work_log.trials, run.work_log.ended is not None

    def trial_facts(number: int, results: CollectedTrial) -> TrialFacts:
        record, follows = records[number], results.proposal.follows
        return facts_of(
            TrialFacts,
            results,
            record,
            results.proposal,
            follows=None if follows is None else follows.trial,
            morphs=tuple(results.proposal.morphs),
            outcome=AT_THE_END.get(record.outcome, record.outcome) if has_ended else record.outcome,
            training_images=int(images[number]),
            seconds=seconds[number],
            in_window=_in_window(record.operations, *(amounts[number] for amounts in in_window)),
        )

    return tuple(trial_facts(number, results) for number, results in run.trials.items())


def _in_window(each: Operations, trained: float, operations: float, tensor: float, busy: float) -> InWindow:
    """Return a trial's work in the window. Validation images follow from the work that is not training."""
    validated = max(0.0, operations - trained * each.training) / each.validation
    return InWindow(trained, validated, operations, tensor, busy)


def pareto_front(trials: Iterable[TrialFacts]) -> tuple[TrialFacts, ...]:
    """Return the evaluated trials that are more accurate than all cheaper ones, cheapest first."""
    kept: list[TrialFacts] = []
    best = -1.0
    for trial in sorted(trials, key=lambda each: (operations(each), -(each.accuracy or 0.0), each.number)):
        if trial.accuracy is not None and trial.accuracy > best:
            kept.append(trial)
            best = trial.accuracy
    return tuple(kept)


def operations(trial: TrialFacts) -> int:
    """Return the floating-point operations of one training image, forward and backward."""
    return trial.forward_flops + trial.backward_flops


def morph_text(encoded: Morph) -> str:
    """Return one morph (change of a network) as text, such as `deepen after stem.relu`. An unknown morph is JSON."""
    match encoded:
        case {"kind": "deepen", "after": after}:
            return f"deepen after {after}"
        case {"kind": "widen", "convolution": convolution, "channels": channels}:
            return f"widen {convolution} to {channels} channels"
        case {"kind": "skip", "source": source, "target": target}:
            return f"skip {source} → {target}"
        case {"kind": "kernel", "convolution": convolution, "kernel": kernel}:
            return f"kernel {kernel}×{kernel} on {convolution}"
        case {"kind": "heads", "attention": attention, "heads": heads}:
            return f"{heads} heads of {attention}"
        case _:
            return json.dumps(encoded)


def morphs_text(encoded: Sequence[Morph]) -> str:
    """Return all morphs of a proposal (changes of its network) as text, in order, with semicolons. '' without morphs."""
    return "; ".join(morph_text(each) for each in encoded)


def in_short(encoded: Sequence[Morph]) -> str:
    """Return the number of morphs (changes of a network) of each kind as text, such as `16 × kernel, 1 × skip`."""
    if len(encoded) < 2:
        return morphs_text(encoded)
    return ", ".join(
        f"{number} × {kind}" for kind, number in Counter(str(each.get("kind")) for each in encoded).items()
    )


def change_text(trial: TrialFacts) -> str:
    """Return the change from the network of a trial's parent to that of the trial as short text: `16 × kernel, 1 × skip`."""
    summary = in_short(trial.morphs) or ("the starting graph" if trial.parent is None else "its parent again")
    if trial.kernel_size is not None and not any(each.get("kind") == "kernel" for each in trial.morphs):
        summary += f"; kernel size {trial.kernel_size} unchanged"
    return summary


def lineage_lines(trial: TrialFacts, trials: Mapping[int, TrialFacts]) -> Iterator[str]:
    chain = [trial]
    while (parent := chain[-1].parent) is not None and parent in trials:
        chain.append(trials[parent])
    for each in reversed(chain):
        text = (morphs_text(each.morphs) if each is trial else "") or change_text(each)
        yield f"trial {each.number}: {text}"
