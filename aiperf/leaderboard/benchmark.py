"""Benchmark of a run: the properties that runs must share to be ranked in one order (data set, length, options)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aiperf import units
from aiperf.accounting.valid_flops import target_of
from aiperf.journal.options import OF_ONE_RUN, flat_options, without
from aiperf.ranking.candidate import IMAGES
from aiperf.ranking.division import division
from aiperf.ranking.law import AtMost, written
from aiperf.ranking.levels import layer_of
from aiperf.report import phrases
from aiperf.report.facts import Report, RunFacts
from aiperf.sanitize import identity

Standing = Literal["division", "outside", "simulated"]
SIMULATED: Standing = "simulated"

CHOICES = frozenset({"dataset.name", "searcher.name", "hpo.name"})
"""Options judged by their result that still define a benchmark."""

EXPONENT = "benchmark.exponent"
WORKER_CLASSES = {"accelerator": "one accelerator", "node": "all of a node"}
WORKLOAD_LAYERS = (7, 9)
"""Layers of HPC AI500 that define the workload of a fixed network."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Properties that runs share if they can be ranked in one order."""

    standing: Standing
    """Valid runs of a division, real runs outside every division, or simulated runs."""
    division: str | None
    """Division whose rules all these runs keep. The rules then define the rest of the benchmark."""
    dataset: str
    images: tuple[tuple[str, str], ...]
    start: str
    """Name of the starting network, or the beginning of its fingerprint."""
    start_fingerprint: str | None
    follows: str | None
    """Run with the proposals that these runs train. None for runs with a search of their own."""
    duration_seconds: float | None
    warmup_seconds: float | None
    options: tuple[tuple[str, str], ...]
    """(name, value as written on the command line), in order of name."""

    @property
    def is_fixed_network(self) -> bool:
        """True for real runs of one fixed network to a target quality."""
        return self.standing == "outside" and self.duration_seconds is None

    @property
    def is_announced(self) -> bool:
        """True if only announced runs have a place, as the median of all announced runs of a system."""
        return self.division == "ranking" or self.is_fixed_network

    @property
    def is_simulated(self) -> bool:
        """True if the runs are simulated: no machine did the work."""
        return self.standing == SIMULATED


def of_division(
    name: str,
    duration_seconds: float | None = None,
    files: str | None = None,
    worker: str | None = None,
    follows: str | None = None,
) -> Benchmark:
    """Return the benchmark of all valid runs of a division. `worker`, `follows`: class of workers and list, if it has any."""
    images = () if files is None else (("files", files),)
    options = () if worker is None else (("a worker", WORKER_CLASSES[worker]),)
    return Benchmark("division", name, "", images, "", None, follows, duration_seconds, None, options)


def benchmark_of(report: Report) -> Benchmark:
    run = report.run
    files = _files(run.config, run.dataset)
    if report.divisions:
        name = report.divisions[0]
        has_classes = "accelerators_per_worker" in division(name).judged
        follows = None if run.follows is None else run.follows.run
        return of_division(name, run.duration_seconds, files, report.worker_class if has_classes else None, follows)
    is_fixed = target_of(run.config) is not None
    images = {name: run.dataset[name] for name in IMAGES if name in run.dataset}
    images |= {} if files is None else {"files": files}
    noise = phrases.noise(run.dataset)
    name = str(run.dataset.get("name", "unknown data set"))
    return Benchmark(
        standing=SIMULATED if run.is_simulated else "outside",
        division=None,
        dataset=f"{name} ({noise})" if noise else name,
        images=tuple((name, str(value)) for name, value in images.items()),
        start=_start(run),
        start_fingerprint=run.start_fingerprint,
        follows=None if run.follows is None else f"{run.follows.run} ({run.follows.identity})",
        duration_seconds=None if is_fixed else run.duration_seconds,
        warmup_seconds=None if is_fixed else run.warmup_seconds,
        options=tuple(sorted(_of_workload(run.config) if is_fixed else _that_matter(run.config))),
    )


def _files(config: Mapping[str, Any], images: Mapping[str, Any]) -> str | None:
    """Return the contents of image files, else their fingerprint. None for generated images, which their options identify."""
    dataset, contents = config.get("dataset"), images.get("contents") or images.get("fingerprint")
    has_files = isinstance(dataset, Mapping) and dataset.get("root") is not None
    return str(contents) if contents is not None and has_files else None


def _start(run: RunFacts) -> str:
    if run.start_network not in (None, "another"):
        return str(run.start_network)
    return "another starting graph" if run.start_fingerprint is None else f"graph {run.start_fingerprint[:8]}"


def _that_matter(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    ranking = division("ranking")
    bounds = {rule.option for rule in ranking.rules if isinstance(rule.law, AtMost)}
    others = {*ranking.free, *ranking.judged, *bounds} - CHOICES
    for name, value in flat_options(config).items():
        if name not in others and name.partition(".")[0] not in others:
            yield name, written(value)


def _of_workload(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in flat_options(config).items():
        if name == EXPONENT or layer_of(name) in WORKLOAD_LAYERS:
            yield name, written(value)


def purpose_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the purpose of an announced run: (site, system, data set, declared seconds, kind).

    Kind: 'ranking', 'fixed network' or 'other'. Site and system are in the form in which names are compared.
    """
    values = flat_options(config)
    names = (identity(str(values.get(name) or "")) for name in ("system.site", "system.name"))
    parts = (*names, values.get("dataset.name"), values.get("schedule.duration_seconds"))
    named = (rule for rule in division("ranking").rules if rule.option is not None and rule.option in values)
    is_for_ranking = all(rule.law.holds(values[str(rule.option)], values) for rule in named)
    purpose = "ranking" if is_for_ranking else "other"
    if target_of(config) is not None:  # runs of a fixed network of any declared length are one benchmark
        parts, purpose = (*parts[:-1], None), "fixed network"
    return (
        *("" if part is None else f"{part:g}" if isinstance(part, float | int) else str(part) for part in parts),
        purpose,
    )


def procedure_of(config: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Return the SHA-256 digest (hexadecimal) of a run's configuration and source code."""
    options = without(config, OF_ONE_RUN)
    return hashlib.sha256(json.dumps([options, versions.get("source")], sort_keys=True).encode()).hexdigest()


def title(benchmark: Benchmark) -> str:
    """Return a benchmark as text, such as `digits · 3 min 00 s, 20 s of warm-up · from digits_small`."""
    if benchmark.division is not None:
        length = "" if benchmark.duration_seconds is None else f", {units.duration(benchmark.duration_seconds)}"
        workers = "".join(f", {value} a worker" for _, value in benchmark.options)
        follows = "" if benchmark.follows is None else f", list {benchmark.follows}"
        return f"Division {benchmark.division}{length}{workers}{follows}: {division(benchmark.division).title}"
    lengths = (
        "" if benchmark.duration_seconds is None else units.duration(benchmark.duration_seconds),
        "" if benchmark.warmup_seconds is None else f"{units.duration(benchmark.warmup_seconds)} of warm-up",
    )
    follows = "" if benchmark.follows is None else f"following {benchmark.follows}"
    parts = (benchmark.dataset, ", ".join(filter(None, lengths)), f"from {benchmark.start}", follows)
    text = " · ".join(filter(None, parts))
    return f"Simulated: {text}" if benchmark.is_simulated else text


def differing(benchmarks: Iterable[Benchmark]) -> dict[Benchmark, tuple[tuple[str, str], ...]]:
    """Return, for each benchmark, the options by which it differs from others with the same title, as (name, value)."""
    by_title: dict[str, list[Benchmark]] = {}
    for benchmark in dict.fromkeys(benchmarks):
        by_title.setdefault(title(benchmark), []).append(benchmark)
    options: dict[Benchmark, tuple[tuple[str, str], ...]] = {}
    for alike in by_title.values():
        values = [
            dict((("start", str(benchmark.start_fingerprint)), *benchmark.images, *benchmark.options))
            for benchmark in alike
        ]
        names = sorted({name for each in values for name in each if len({one.get(name) for one in values}) > 1})
        for benchmark, each in zip(alike, values, strict=True):
            options[benchmark] = tuple((name, each.get(name, "not reported")) for name in names)
    return options
