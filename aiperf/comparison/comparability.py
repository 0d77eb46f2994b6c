"""Runs of a comparison, and their differences: benchmark, configuration, rules, system, versions, and by HPC AI500's layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aiperf.errors import CannotCompare
from aiperf.journal.journal import NAME
from aiperf.journal.options import OF_ONE_RUN, without
from aiperf.journal.sealed_log import ends
from aiperf.ranking.levels import LayerDifference, layer_differences
from aiperf.report.facts import Report
from aiperf.report.phrases import flattened
from aiperf.report.write import report_of
from aiperf.submission.submitted_runs import run_folders

OF_SYSTEM = frozenset({"space", "system"})
"""Parts of the configuration that follow from the machine: the planned space, and the site's description."""
NO_DESCRIPTION = frozenset(
    {"versions", "measured_matmul_flops", "measured_memory_bytes_per_second", "measured_bus_bytes_per_second"}
)
"""Parts of a host's description that have a kind of their own, or that each run measures again."""
Kind = Literal["benchmark", "configuration", "system", "versions"]
MOST_NAMED = 3
"""Largest number of differences in a message."""


@dataclass(frozen=True, slots=True)
class RunDifference:
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
    differences = differing(run, reference)
    own, other = (dict(flattened({"dataset": each.run.config["dataset"]})) for each in (run, reference))
    own |= {_name(each): each.first for each in differences}
    other |= {_name(each): each.second for each in differences}
    return layer_differences(own, other)


def _name(each: RunDifference) -> str:
    if each.kind == "versions" and each.first.partition("+")[0] == each.second.partition("+")[0]:
        return each.name if each.name.startswith("source") else f"build of {each.name}"
    return each.name.rpartition(": ")[2]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: one run, or several equal runs (repeats of one configuration)."""

    runs: tuple[Report, ...]
    folders: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Name of the first run and the number of further runs, such as `a and 2 more`."""
        more = len(self.runs) - 1
        return self.runs[0].run.name + (f" and {more} more" if more else "")


def require_each_once(folders: Iterable[Path]) -> None:
    """Raise CannotCompare if two journals belong to one run, that is, if their first lines are equal."""
    seen: dict[str, Path] = {}
    for folder in folders:
        if (known := seen.setdefault(ends(folder / NAME).first, folder)) is not folder:
            raise CannotCompare(
                f"each run is given once, but '{known}' and '{folder}' are journals of one run (equal first "
                "line): leave one out"
            )


def side(words: Sequence[str]) -> Side:
    """Read the runs of one side of a comparison and check that they are repeats of one configuration."""
    given = [folder for word in words for folder in run_folders(word)]
    runs = tuple(map(report_of, given))  # refuses what is no journal, such as a FIFO
    require_each_once(given)
    for run in runs:
        if run.run.end_reason is None or not run.score.valid:
            why = "it has not ended" if run.run.end_reason is None else "it has no valid score"
            raise CannotCompare(f"compared runs have ended with a score, but {run.run.name!r}: {why}. Leave it out")
    if apart := [each for each in unequal(runs) if each.kind in ("benchmark", "configuration")]:
        raise CannotCompare(
            f"runs of one side have one configuration, except for the seed, but these differ in {in_words(apart)}. "
            "Compare them with --with, or leave the different run out"
        )
    return Side(runs, tuple(given))


def require_one_benchmark(first: Side, second: Side) -> None:
    """Raise CannotCompare if two sides (one run, or several equal runs, each) have different benchmarks."""
    apart = [each for each in differing(first.runs[0], second.runs[0]) if each.kind == "benchmark"]
    if apart:
        raise CannotCompare(
            "compared runs have one data set and one length, and both are real or both are simulated, but "
            f"'{first.runs[0].run.name}' and '{second.runs[0].run.name}' differ in {in_words(apart)}. "
            "Repeat one with equal values"
        )


def in_words(apart: Sequence[RunDifference]) -> str:
    """Return up to three differences as text: `name (value of the first run; value of the second)`, separated by commas."""
    named = [f"{each.name} ({each.first}; {each.second})" for each in apart[:MOST_NAMED]]
    return ", ".join(named) + (f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else "")
