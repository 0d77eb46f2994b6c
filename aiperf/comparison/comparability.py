"""Differences of runs in benchmark, configuration, rules, system and versions, also by layer of a system in HPC AI500."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aiperf.journal.options import OF_ONE_RUN, without
from aiperf.ranking.levels import LayerDifference, layer_differences
from aiperf.report.facts import Report
from aiperf.report.phrases import flattened

OF_SYSTEM = frozenset({"space", "system"})
"""Parts of the configuration that follow from the machine: the planned space, and the site's description."""
NO_DESCRIPTION = frozenset(
    {"versions", "measured_matmul_flops", "measured_memory_bytes_per_second", "measured_bus_bytes_per_second"}
)
"""Parts of a host's description that have a kind of their own, or that each run measures again."""
Kind = Literal["benchmark", "configuration", "system", "versions"]


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One property with different values in two runs."""

    kind: Kind
    name: str
    first: str
    second: str


def differing(first: Report, second: Report) -> tuple[RunDifference, ...]:
    """Return the differences of two runs in benchmark, configuration, system and versions, in this order."""
    return tuple(
        RunDifference(kind, name, before, after)
        for (kind, one), (_, other) in zip(_described(first), _described(second), strict=True)
        for name, before, after in _unlike(one, other)
    )


def _described(report: Report) -> Iterator[tuple[Kind, Mapping[str, str]]]:
    """Yield the properties of a run by kind, as name and text."""
    run = report.run
    schedule = {"declared length": f"{run.duration_seconds:g} s", "warm-up": f"{run.warmup_seconds:g} s"}
    simulated = {"simulated": "yes" if run.is_simulated else "no"}
    # Options that the benchmark contains are not reported twice.
    options = without(run.config, (OF_ONE_RUN - {"seed"}) | {"dataset"} | OF_SYSTEM)
    of_benchmark = ("schedule.duration_seconds", "schedule.warmup_seconds")
    yield "benchmark", {f"data set's {name}": value for name, value in flattened(run.dataset)} | schedule | simulated
    rules = {"proposal rules": str(run.proposal_rules)}
    yield "configuration", rules | {name: value for name, value in flattened(options) if name not in of_benchmark}
    of_system = {name: value for name, value in run.config.items() if name in OF_SYSTEM}
    yield "system", dict(_systems(report)) | dict(flattened(of_system))
    yield "versions", dict(run.versions)


def _systems(report: Report) -> Iterator[tuple[str, str]]:
    yield "hosts", str(sum(system.hosts for system in report.systems))
    yield "accelerators", str(report.availability.planned)
    kinds: list[dict[str, Any]] = []
    for system in report.systems:
        described = {
            "device": system.device,
            "device_memory_bytes": system.device_memory_bytes,
            "collective": system.collective,
            **{name: value for name, value in system.machine.items() if name not in NO_DESCRIPTION},
        }
        if not report.hardware.are_accelerators:
            # Momentary free memory per rank. The host's total is in its description: memory_bytes.
            del described["device_memory_bytes"]
        if described not in kinds:
            kinds.append(described)
    for index, described in enumerate(kinds, 1):
        of_kind = "" if len(kinds) == 1 else f"{index}: "
        for name, value in flattened(described):
            yield f"{of_kind}{name}", value


def _unlike(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in {**first, **second}:
        before, after = first.get(name, "—"), second.get(name, "—")
        if before != after:
            yield name, before, after


def unequal(runs: Sequence[Report]) -> tuple[RunDifference, ...]:
    """Return the differences of each further run from the first run, except for the seed."""
    return tuple(
        each
        for other in runs[1:]
        for each in differing(runs[0], other)
        if (each.kind, each.name) != ("configuration", "seed")
    )


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
