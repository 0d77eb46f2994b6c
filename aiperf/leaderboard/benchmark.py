"""Which runs may stand in one order: those of the same benchmark.

Runs that break no rule of a division are of one benchmark, since its rules are what makes them comparable (those of the ranking
leave the length to the site). All others are of one benchmark where data set, starting graph, length and warm-up agree, and
every option that the ranking does not leave free or judge by what came of it; runs that follow another one, where they follow
the same one. An option that a journal does not tell agrees with no value of it. Simulated runs are never in one order with real
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aiperf import units
from aiperf.ranking.breaches import options
from aiperf.ranking.candidate import IMAGES
from aiperf.ranking.division import division
from aiperf.ranking.law import AtMost, written
from aiperf.report import words
from aiperf.report.facts import Report

Standing = Literal["division", "outside", "simulated"]
SIMULATED: Standing = "simulated"

CHOICES = frozenset({"dataset.name", "searcher.name", "hpo.name"})
"""Of the options that the ranking judges by what came of them, those that make a benchmark another one. The others say where
a run was, or are told better by what came of them: length, warm-up, the starting graph's fingerprint."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What runs have to have in common; equal ones are the same benchmark."""

    standing: Standing
    """Runs of a division, real ones that break a rule of each, or simulated ones."""
    division: str | None
    """That none of them breaks a rule of. All else is then that division's to say."""
    dataset: str
    images: tuple[tuple[str, str], ...]
    start: str
    """What the configuration calls the starting graph, or its fingerprint's beginning."""
    start_fingerprint: str | None
    follows: str | None
    """Of runs that search for nothing, whose proposals they train."""
    duration_seconds: float | None
    warmup_seconds: float | None
    options: tuple[tuple[str, str], ...]
    """(name, value as it is written on the command line), in order of name."""

    @property
    def is_simulated(self) -> bool:
        """Whether no machine did the work of its runs."""
        return self.standing == SIMULATED


def of_division(name: str) -> Benchmark:
    """That of all runs that break no rule of a division."""
    return Benchmark("division", name, "", (), "", None, None, None, None, ())


def benchmark_of(report: Report) -> Benchmark:
    """The benchmark that a run is a run of."""
    run = report.run
    if report.divisions:
        return of_division(report.divisions[0])
    images = {name: run.dataset[name] for name in IMAGES if name in run.dataset}
    noise = words.noise(run.dataset)
    name = str(run.dataset.get("name", "unknown data set"))
    return Benchmark(
        standing=SIMULATED if run.is_simulated else "outside",
        division=None,
        dataset=f"{name} ({noise})" if noise else name,
        images=tuple((name, str(value)) for name, value in images.items()),
        start=_start(run.config, run.start_fingerprint),
        start_fingerprint=run.start_fingerprint,
        follows=None if run.follows is None else f"{run.follows.run} ({run.follows.last_hash[:12]})",
        duration_seconds=run.duration_seconds,
        warmup_seconds=run.warmup_seconds,
        options=tuple(sorted(_that_matter(run.config))),
    )


def _start(config: Mapping[str, Any], fingerprint: str | None) -> str:
    told = config.get("start")
    if isinstance(told, str) and "/" not in told:
        return told
    return "another starting graph" if fingerprint is None else f"graph {fingerprint[:8]}"


def _that_matter(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    ranking = division("ranking")
    bounds = {rule.option for rule in ranking.rules if isinstance(rule.law, AtMost)}
    others = {*ranking.free, *ranking.judged, *bounds} - CHOICES
    for name, value in options(config).items():
        if name not in others and name.partition(".")[0] not in others:
            yield name, written(value)


def title(benchmark: Benchmark) -> str:
    """`digits · 3 min 00 s, 20 s of warm-up · from digits_small`."""
    if benchmark.division is not None:
        return f"Division {benchmark.division}: {division(benchmark.division).title}"
    lengths = (
        "" if benchmark.duration_seconds is None else units.duration(benchmark.duration_seconds),
        "" if benchmark.warmup_seconds is None else f"{units.duration(benchmark.warmup_seconds)} of warm-up",
    )
    follows = "" if benchmark.follows is None else f"following {benchmark.follows}"
    parts = (benchmark.dataset, ", ".join(filter(None, lengths)), f"from {benchmark.start}", follows)
    told = " · ".join(filter(None, parts))
    return f"Simulated: {told}" if benchmark.is_simulated else told


def differing(benchmarks: Iterable[Benchmark]) -> dict[Benchmark, tuple[tuple[str, str], ...]]:
    """Of each benchmark the options by which it is another one than those of the same title."""
    by_title: dict[str, list[Benchmark]] = {}
    for benchmark in dict.fromkeys(benchmarks):
        by_title.setdefault(title(benchmark), []).append(benchmark)
    found: dict[Benchmark, tuple[tuple[str, str], ...]] = {}
    for alike in by_title.values():
        told = [
            dict((("start", str(benchmark.start_fingerprint)), *benchmark.images, *benchmark.options))
            for benchmark in alike
        ]
        names = sorted({name for each in told for name in each if len({one.get(name) for one in told}) > 1})
        for benchmark, each in zip(alike, told, strict=True):
            found[benchmark] = tuple((name, each.get(name, "not reported")) for name in names)
    return found
