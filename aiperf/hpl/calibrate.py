"""Calibration of the HPL model: best bursts of this machine's rates and latencies, of the slowest rank, as SYSTEM.yaml."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aiperf.errors import BadConfiguration
from aiperf.hpl.model import HplLayer, System
from aiperf.hpl.mpi import launch
from aiperf.hpl.system_file import SystemFile
from aiperf.native import program
from aiperf.statistics.estimate import quantile
from aiperf.system.describe import describe, describe_node
from aiperf.system.of_run import hardware, hardware_differences
from aiperf.units import share

FLAGS = ("-O3", "-march=native", "-fopenmp", "-I/usr/include/x86_64-linux-gnu")
LONGEST_SECONDS = 20.0
"""Time of all series together, of the 60 s of a calibration."""
PROBES = 12
LEAST_GEMM_SHARE = 0.7
"""Share of the FMA loop's rate that a good DGEMM reaches."""
_AVX512_KERNELS = ("SkylakeX", "Cooperlake", "Sapphirerapids")
Real = npt.NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """Seconds of repeated bursts of one probe (short measurement of a building block of HPL) in one rank, at one size."""

    probe: str
    phase: str
    """'alone' (one rank of each host at a time), 'together' (all ranks at once), 'message' (two ranks) or 'pairs' (all pairs of
    ranks at once)."""
    rank: int
    size: int
    work: float
    """Operations, bytes or accesses of one burst."""
    seconds: tuple[float, ...]
    """Duration of each burst."""

    @property
    def best(self) -> float:
        """Seconds of the fastest burst."""
        return min(self.seconds)


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients of a least-squares fit with their 95 % intervals, in the units of the fitted values."""

    values: tuple[float, ...]
    intervals: tuple[Interval, ...]
    error: float
    """Sum of the squared relative residuals."""


@dataclass(frozen=True, slots=True)
class LinkFit:
    """Latency α in seconds and bandwidth in bytes per second of a link, fitted to messages of many sizes."""

    alpha: float
    alpha_interval: Interval
    bytes_per_second: float
    bandwidth_interval: Interval
    bend_bytes: int
    """Size at which the slope changes. α is fitted below it, the bandwidth from it on."""


def calibrate(template: str | None, ranks: int, threads: int, blas: str, nb: int, name: str) -> SystemFile:
    """Measure this machine for about a minute, and return its rates and latencies with their 95 % intervals.

    `blas`: flags that link a BLAS with CBLAS and LAPACK.
    """
    with as_file(files("aiperf.hpl").joinpath("probe.c")) as source:
        probe = program(source, compiler="mpicc", flags=(*FLAGS, *shlex.split(blas), "-ldl", "-lm"))
    seconds = LONGEST_SECONDS / (PROBES * (ranks + 1) + 48)
    run = launch(template, ranks, threads, [str(probe), str(nb), f"{seconds:.3g}"], 600.0, {})
    facts, readings = parsed(run.output)
    memory = describe().usable_memory_bytes
    return fitted(name, nb, memory, facts, readings, run.others_share)


def parsed(output: str) -> tuple[dict[str, str], list[Series]]:
    """Return the properties of the machine (text by name, such as 'ranks') and the measured series in the output of probe.c."""
    facts, readings = {}, []
    lines = output.splitlines()
    if not lines or lines[-1] != "end":
        raise BadConfiguration("the probe prints `end` last, but its output is cut short: run `hpl calibrate` again")
    for line in lines[:-1]:
        kind, _, rest = line.partition(" ")
        if kind == "fact":
            key, _, facts_text = rest.partition(" ")
            facts[key] = facts_text
        elif kind == "series":
            probe, phase, rank, size, work, *bursts = rest.split()
            readings.append(Series(probe, phase, int(rank), int(size), float(work), tuple(map(float, bursts))))
    return facts, readings


def fitted(
    name: str, nb: int, memory_bytes: float, facts: Mapping[str, str], readings: Sequence[Series], others_share: float
) -> SystemFile:
    """Return the rates and latencies of a machine, fitted to the series that probe.c measured."""
    ranks, per_host = int(facts["ranks"]), int(facts["ranks_per_host"])
    if facts["hosts_are_equal"] != "1":
        raise BadConfiguration("each host holds equally many ranks, but the hosts differ: change --launch")
    intervals: dict[str, Interval] = {}
    rates: dict[str, float] = {}
    for probe, figure in (("gemm", "gemm_flops"), ("panel", "panel_flops")):
        rates[figure], intervals[figure] = _slowest_rate(
            _of(readings, probe), figure, has_square=probe == "gemm", nb=nb
        )
    for probe, figure in (("swap", "swap_bytes_per_second"), ("triad", "memory.bytes_per_second")):
        bests = [each.work / each.best for each in _of(readings, probe)]
        rates[figure], intervals[figure] = min(bests), (min(bests), max(bests))
    latency = max(each.best / each.work for each in _of(readings, "chase"))
    layers = [HplLayer("memory", 1, latency, rates["memory.bytes_per_second"], source="triad and dependent accesses")]
    further: dict[str, float] = {}
    for layer, joined in (("node", per_host), ("network", ranks)):
        messages = [each for each in readings if (each.probe, each.phase) == (layer, "message")]
        pairs = [each for each in readings if (each.probe, each.phase) == (layer, "pairs")]
        if pairs:  # the slowest pair
            slowest: dict[int, float] = {}
            for each in pairs:
                slowest[each.size] = max(each.best, slowest.get(each.size, 0.0))
            together = fit_link([*slowest], [*slowest.values()], layer).bytes_per_second
            further[f"{layer}_all_pairs_bytes_per_second"] = float(f"{together:.4g}")
        if messages:
            link = fit_link([each.size for each in messages], [each.best for each in messages], layer)
            layers.append(HplLayer(layer, joined, link.alpha, link.bytes_per_second, source="ping-pong of rank 0"))
            intervals[f"{layer}.latency_seconds"] = link.alpha_interval
            intervals[f"{layer}.bytes_per_second"] = link.bandwidth_interval
            further[f"{layer}_bend_bytes"] = link.bend_bytes
    peak = min(each.work / each.best for each in _of(readings, "fma"))
    system = System(
        name,
        ranks,
        rates["gemm_flops"],
        tuple(layers),
        rates["panel_flops"],
        peak,
        memory_bytes / per_host,
        rates["swap_bytes_per_second"],
    )
    calibration = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "node": hardware(describe_node({})),
        "load": round(others_share, 4),
        "facts": {**facts, **further},
        "intervals": {key: list(ends) for key, ends in intervals.items()},
        "readings": [_as_text(each) for each in readings],
    }
    return SystemFile(system, intervals, calibration)


def _as_text(series: Series) -> str:
    bursts = " ".join(f"{1e6 * each:.3g}" for each in series.seconds)
    return f"{series.probe} {series.phase} rank {series.rank} size {series.size} microseconds {bursts}"


def _of(readings: Sequence[Series], probe: str) -> list[Series]:
    """Return the series of a probe with all ranks at once, as in HPL."""
    return [each for each in readings if each.probe == probe and each.phase == "together"]


def _slowest_rate(series: Sequence[Series], figure: str, *, has_square: bool, nb: int) -> tuple[float, Interval]:
    """Return the rate of the slowest rank for large sizes: the slope of the time over the work, with overhead fitted."""
    rates = []
    for rank in sorted({each.rank for each in series}):
        own = [each for each in series if each.rank == rank]
        works = np.array([each.work for each in own])
        # copying A and B takes time that is proportional to the side; a panel has a constant overhead
        overhead = np.sqrt(works / (2 * nb)) if has_square else np.ones(len(works))
        fit = least_squares(np.stack([works, overhead], axis=1), np.array([each.best for each in own]))
        _require_positive(fit.values[0], figure)
        rates.append((1 / fit.values[0], _rate_interval(fit.values[0], fit.intervals[0])))
    return min(rates)


def _rate_interval(slope: float, interval: Interval) -> Interval:
    """Return the interval of 1 ÷ slope, symmetric if that of the slope reaches 0."""
    low, high = interval
    return 1 / high, 1 / low if low > 0 else 1 / slope + (1 / slope - 1 / high)


def least_squares(columns: Real, seconds: Real) -> Fit:
    """Return the coefficients c of seconds = columns · c with their 95 % intervals, for relative errors of equal size."""
    rows = columns / seconds[:, None]
    scale = np.abs(rows).max(axis=0)  # equal magnitudes: works are 1e8, overheads 1
    coefficients, *_ = np.linalg.lstsq(rows / scale, np.ones(len(seconds)), rcond=None)
    residuals = rows / scale @ coefficients - 1
    error = float(residuals @ residuals)
    freedom = len(seconds) - columns.shape[1]
    if freedom > 0:
        covariance = np.linalg.pinv((rows / scale).T @ (rows / scale)) * error / freedom
        halves = quantile(freedom) * np.sqrt(np.diag(covariance))
    else:
        halves = np.zeros(columns.shape[1])
    values, halves = coefficients / scale, halves / scale
    ends = tuple((float(value - half), float(value + half)) for value, half in zip(values, halves, strict=True))
    return Fit(tuple(map(float, values)), ends, error)


def fit_link(sizes: Sequence[int], seconds: Sequence[float], name: str) -> LinkFit:
    """Return latency α in seconds and bandwidth in bytes per second of a link, fitted to messages of many sizes."""
    size, best = np.array(sizes, dtype=np.float64), np.array(seconds)
    columns = np.stack([np.ones_like(size), size], axis=1)
    fits = [
        (least_squares(columns[:at], best[:at]), least_squares(columns[at:], best[at:]), at)
        for at in range(3, len(sizes) - 2)
    ]
    if not fits:
        raise BadConfiguration(
            f"a link is fitted to at least 6 sizes of messages, but '{name}' has {len(sizes)}: run `hpl calibrate` again"
        )
    short, long, at = min(fits, key=lambda each: each[0].error + each[1].error)
    alpha, beta = short.values[0], long.values[1]
    _require_positive(alpha, f"{name}.latency_seconds")
    _require_positive(beta, f"{name}.bytes_per_second")
    low, high = short.intervals[0]
    return LinkFit(alpha, (max(0.0, low), high), 1 / beta, _rate_interval(beta, long.intervals[1]), sizes[at])


def _require_positive(value: float, figure: str) -> None:
    if not value > 0:
        raise BadConfiguration(
            f"{figure} follows from a positive slope, but the fit gave {value:.3g}: run `hpl calibrate` again without "
            "other programs"
        )


def require_this_node(of: SystemFile, path: Path, threads: int = 1) -> None:
    """Raise BadConfiguration if a calibration was made on other hardware than this host's, or with other threads."""
    made_with = int(of.calibration.get("facts", {}).get("threads", threads))
    if made_with != threads:
        raise BadConfiguration(
            f"a calibration holds for the threads of a rank, but '{path}' was made with {made_with}, and found --threads "
            f"{threads}: give --threads {made_with}, or run `hpl calibrate --threads {threads}`"
        )
    made_on = of.calibration.get("node")
    different = (
        [] if made_on is None else hardware_differences({"node": made_on}, {"node": hardware(describe_node({}))})
    )
    if different:
        raise BadConfiguration(
            f"a calibration holds for its own node, but '{path}' is from one with other {', '.join(different)}: run "
            "`hpl calibrate` here"
        )


def remarks(of: SystemFile) -> list[str]:
    """Return sentences for the user about a calibration: the load by other programs, and a slow DGEMM with its fix."""
    system, facts = of.system, of.calibration["facts"]
    texts = []
    if system.peak_flops is not None and system.gemm_flops < LEAST_GEMM_SHARE * system.peak_flops:
        kernel = facts["blas_kernels"]
        fix = "use a BLAS that is tuned for this processor"
        if facts["blas"].startswith("OpenBLAS") and kernel not in _AVX512_KERNELS:
            fix = "if the processor has AVX-512, set OPENBLAS_CORETYPE=SkylakeX and run `hpl calibrate` again"
        reached = share(system.gemm_flops / system.peak_flops, 0)
        texts.append(f"DGEMM reaches {reached} of the rate of an FMA loop, with kernels '{kernel}': {fix}")
    load: Any = of.calibration["load"]
    texts += [
        f"{layer}.bytes_per_second with all pairs at once: {facts[name]:.4g} (the model uses one pair's)"
        for layer in ("node", "network")
        if (name := f"{layer}_all_pairs_bytes_per_second") in facts
    ]
    texts.append(f"load: other programs used {share(load, 0)} of the processors during the calibration")
    return texts
