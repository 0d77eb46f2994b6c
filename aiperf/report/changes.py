"""Text for the morphs of a proposal, which are the changes from a network to its successor, one by one or as a summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiperf.report.facts import TrialFacts

Morph = Mapping[str, Any]
"""A morph as encoded in the journal."""


def morph(encoded: Morph) -> str:
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
        case _:
            return json.dumps(encoded)


def morphs(encoded: Sequence[Morph]) -> str:
    """Return all morphs of a proposal (changes of its network) as text, in order, with semicolons. '' without morphs."""
    return "; ".join(morph(each) for each in encoded)


def in_short(encoded: Sequence[Morph]) -> str:
    """Return the number of morphs (changes of a network) of each kind as text, such as `16 × kernel, 1 × skip`."""
    if len(encoded) < 2:
        return morphs(encoded)
    return ", ".join(
        f"{number} × {kind}" for kind, number in Counter(str(each.get("kind")) for each in encoded).items()
    )


def change(trial: TrialFacts) -> str:
    """Return the change from the network of a trial's parent to that of the trial as short text: `16 × kernel, 1 × skip`."""
    summary = in_short(trial.morphs) or ("the starting graph" if trial.parent is None else "its parent again")
    if trial.kernel_size is not None and not any(each.get("kind") == "kernel" for each in trial.morphs):
        summary += f"; kernel size {trial.kernel_size} unchanged"
    return summary


def lineage(trial: TrialFacts, trials: Mapping[int, TrialFacts]) -> Iterator[str]:
    """Yield one line of text for each ancestor of a trial and for the trial itself, from the starting network on."""
    chain = [trial]
    while (parent := chain[-1].parent) is not None and parent in trials:
        chain.append(trials[parent])
    for each in reversed(chain):
        yield f"trial {each.number}: {change(each) if each is not trial else morphs(each.morphs) or change(each)}"
