"""Differences of a run from another one by layer of a system in HPC AI500: hardware, libraries, workload, data and others."""

from __future__ import annotations

from aiperf.comparison.comparability import RunDifference, differing
from aiperf.ranking.levels import LayerDifference, layer_differences
from aiperf.report.facts import Report
from aiperf.report.phrases import flattened


def differences_by_layer(run: Report, reference: Report) -> tuple[LayerDifference, ...]:
    """Return the differences of a run from a reference run, in order of the layers of HPC AI500 (1: hardware, …, 9: data)."""
    found = differing(run, reference)
    own, other = (dict(flattened({"dataset": each.run.config["dataset"]})) for each in (run, reference))
    own |= {_name(each): each.first for each in found}
    other |= {_name(each): each.second for each in found}
    return layer_differences(own, other)


def _name(each: RunDifference) -> str:
    """Return the name in the rules."""
    if each.kind == "versions" and each.first.partition("+")[0] == each.second.partition("+")[0]:
        return each.name if each.name.startswith("source") else f"build of {each.name}"
    return each.name.rpartition(": ")[2]
