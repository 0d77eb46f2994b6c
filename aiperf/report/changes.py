"""Text for the morphs of a proposal, one by one or as a summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from aiperf.report.facts import TrialFacts

Morph = Mapping[str, Any]
"""A morph as encoded in the journal."""


def morph(encoded: Morph) -> str:
    """Describe one morph. An unknown morph is returned as JSON."""
    match encoded:
        case {"kind": "deepen", "after": after}:
            return f"deepen after {after}"
        case {"kind": "widen", "convolution": convolution, "channels": channels}:
            return f"widen {convolution} to {channels} channels"
        case {"kind": "skip", "source": source, "target": target}:
            return f"skip {source} → {target}"
        case {"kind": "kernel", "convolution": convolution, "kernel": kernel}:
            return f"kernel {kernel}×{kernel} on {convolution}"
        case _:
            return json.dumps(encoded)


def morphs(encoded: Sequence[Morph]) -> str:
    """Describe all morphs of a proposal in order. Empty without morphs."""
    return "; ".join(morph(each) for each in encoded)


def in_short(encoded: Sequence[Morph]) -> str:
    """Summarize the morphs of a proposal: `kernel 5×5 on 16 convolutions; skip a → b`. Empty without morphs."""
    return "; ".join(_alike(list(group)) for _, group in groupby(encoded, key=_likeness))


def change(trial: TrialFacts) -> str:
    """Summarize the change from a trial's parent to the trial."""
    summary = in_short(trial.morphs) or ("the starting graph" if trial.parent is None else "its parent again")
    if trial.kernel_size is not None and not any(each.get("kind") == "kernel" for each in trial.morphs):
        summary += f"; kernel size {trial.kernel_size} unchanged"
    return summary


def lineage(trial: TrialFacts, trials: Mapping[int, TrialFacts]) -> Iterator[str]:
    """Yield the proposals from the starting graph to a trial: summaries, and all morphs of the last one.

    >>> # trial 2: deepen after stem.relu
    """
    chain = [trial]
    while (parent := chain[-1].parent) is not None and parent in trials:
        chain.append(trials[parent])
    for each in reversed(chain):
        yield f"trial {each.number}: {change(each) if each is not trial else morphs(each.morphs) or change(each)}"


def _likeness(encoded: Morph) -> tuple[object, ...]:
    """Return a key that is equal for morphs of one summary."""
    match encoded:
        case {"kind": "kernel", "convolution": _, "kernel": kernel}:
            return "kernel", kernel
        case {"kind": "widen", "convolution": _, "channels": channels}:
            return "widen", channels
        case {"kind": "deepen" | "skip" as kind}:
            return (kind,)
        case _:
            return "", json.dumps(encoded)


def _alike(group: Sequence[Morph]) -> str:
    if len(group) == 1:
        return morph(group[0])
    match group[0]:
        case {"kind": "kernel", "convolution": _, "kernel": kernel}:
            return f"kernel {kernel}×{kernel} on {len(group)} convolutions"
        case {"kind": "widen", "convolution": _, "channels": channels}:
            return f"widen {len(group)} convolutions to {channels} channels"
        case {"kind": "deepen", "after": _}:
            return f"deepen at {len(group)} places"
        case {"kind": "skip", "source": _, "target": _}:
            return f"{len(group)} skip connections"
        case _:
            return f"{len(group)} times {morph(group[0])}"
