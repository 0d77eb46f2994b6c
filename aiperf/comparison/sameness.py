"""What runs are equal in, and what they are not: benchmark, configuration, rules, system, versions.

Equal runs: the same configuration but for the run's name, its folder and its seed; the same data set, rules of proposing,
versions and system. Of those, only what makes two runs two benchmarks forbids a comparison of their figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aiperf.report.facts import Report
from aiperf.report.words import flattened

OF_ONE_RUN = frozenset({"name", "runs", "resume", "resume_until", "dry_run"})
"""Options that tell one run from another, and change nothing in it."""
OF_SYSTEM = frozenset({"space", "system"})
"""Parts of the configuration that come of the machine: what the plan made of its memory, and the site's form."""
NO_DESCRIPTION = frozenset({"versions", "measured_matmul_flops"})
"""Parts of a host's description that stand under a kind of their own, or are measured anew by each run."""
Kind = Literal["benchmark", "configuration", "system", "versions"]


@dataclass(frozen=True, slots=True)
class Differing:
    """One thing that two runs have otherwise."""

    kind: Kind
    name: str
    first: str
    second: str


def differing(first: Report, second: Report) -> tuple[Differing, ...]:
    """All of it, the benchmark first."""
    return tuple(
        Differing(kind, name, before, after)
        for (kind, one), (_, other) in zip(_described(first), _described(second), strict=True)
        for name, before, after in _unlike(one, other)
    )


def _described(report: Report) -> Iterator[tuple[Kind, Mapping[str, str]]]:
    """By kind, as names and plain texts."""
    run = report.run
    schedule = {"declared length": f"{run.duration_seconds:g} s", "warm-up": f"{run.warmup_seconds:g} s"}
    simulated = {"simulated": "yes" if run.is_simulated else "no"}
    # What stands in the benchmark's own words is not reported again as options.
    options = {name: value for name, value in run.config.items() if name not in OF_ONE_RUN | {"dataset"} | OF_SYSTEM}
    told_already = ("schedule.duration_seconds", "schedule.warmup_seconds")
    yield "benchmark", {f"data set's {name}": value for name, value in flattened(run.dataset)} | schedule | simulated
    rules = {"rules of proposing": str(run.proposal_rules)}
    yield "configuration", rules | {name: value for name, value in flattened(options) if name not in told_already}
    of_system = {name: value for name, value in run.config.items() if name in OF_SYSTEM}
    yield "system", dict(_systems(report)) | dict(flattened(of_system))
    yield "versions", dict(run.versions)


def _systems(report: Report) -> Iterator[tuple[str, str]]:
    yield "hosts", str(sum(system.hosts for system in report.systems))
    yield "accelerators", str(report.availability.planned)
    for index, system in enumerate(report.systems):
        of_kind = "" if len(report.systems) == 1 else f"{index + 1}: "
        described = {
            "device": system.device,
            "device_memory_bytes": system.device_memory_bytes,
            "collective": system.collective,
            **{name: value for name, value in system.machine.items() if name not in NO_DESCRIPTION},
        }
        for name, value in flattened(described):
            yield f"{of_kind}{name}", value


def _unlike(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in {**first, **second}:
        before, after = first.get(name, "—"), second.get(name, "—")
        if before != after:
            yield name, before, after


def unequal(runs: Sequence[Report]) -> tuple[Differing, ...]:
    """What keeps runs of one side from being repeats of one another, each against the first; a seed does not."""
    return tuple(
        each
        for other in runs[1:]
        for each in differing(runs[0], other)
        if (each.kind, each.name) != ("configuration", "seed")
    )
