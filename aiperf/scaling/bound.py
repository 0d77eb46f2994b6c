"""Resources that bound the speed of runs (cores, memory, exchange, …), from two machines or from one run and its roofline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean, median

from aiperf.accounting.network_roofline import floor, layers
from aiperf.scaling.efficiency import ratios_of_rounds
from aiperf.scaling.point import Point
from aiperf.statistics.interleaved import FEWEST_PAIRS, interval_of_median
from aiperf.train.trainer_config import ELEMENT_BYTES
from aiperf.units import share
from morphism import Detector, decode_architecture

LEAST_DIFFERENCE = 0.2
"""Relative difference of the two ratios below which they do not separate cores and memory."""


@dataclass(frozen=True, slots=True)
class CoreShare:
    """Share of the time on a first machine that was bound by its cores and not by its memory, by comparison with another."""

    first: str
    other: str
    memory_ratio: float
    """Memory bandwidth of a rank, other ÷ first: m."""
    product_ratio: float
    """Matrix product of a rank, other ÷ first: k."""
    speed_ratio: float
    """Images per second of a rank, other ÷ first: s."""
    share: float | None
    """c = (1/m − 1/s)/(1/m − 1/k). None if the ratios give no share."""
    interval: tuple[float, float] | None
    """95 % interval of the median of the rounds. None for fewer than 6 rounds."""
    lacks: str
    """Reason for a missing share."""


@dataclass(frozen=True, slots=True)
class BoundParts:
    """Shares of the time of equal runs, as fractions. Their sum is 1."""

    least_arithmetic: float | None
    """Share of the least time for arithmetic: operations ÷ peak. None without a peak and a memory bandwidth, and
    for a detector."""
    least_memory: float | None
    """Share of the further time that layers bound by memory take at least. None as for `least_arithmetic`."""
    neither: float
    """Share of the remaining time in steps. Negative if a cache serves the memory accesses."""
    others: dict[str, float]
    """Share by name: exchange, waiting, input, checkpoint and framework (unexplained)."""


def core_share(m: float, k: float, s: float) -> tuple[float | None, str]:
    """Return (share, ''): the share of a machine's time that was bound by its cores and not by its memory, 0..1.

    If the ratios determine no share, the result is (None, reason). `m`, `k`, `s`: memory bandwidth, speed of a matrix product
    and images per second of another machine, each ÷ that of this machine.

    >>> [round(100 * (core_share(1.35, 2.7, s)[0] or 0), 1) for s in (1.4, 1.6, 1.8, 2.3)]
    [7.1, 31.2, 50.0, 82.6]
    """
    if abs(m / k - 1) <= LEAST_DIFFERENCE:
        return None, f"memory ({m:.2f}) and matrix product ({k:.2f}) changed alike, within {share(LEAST_DIFFERENCE, 0)}"
    if not min(m, k) <= s <= max(m, k):
        return None, f"speed ({s:.2f}) changed outside of memory ({m:.2f}) and matrix product ({k:.2f})"
    return (1 / m - 1 / s) / (1 / m - 1 / k), ""


def core_shares(groups: dict[str, tuple[Point, ...]], evaluation: Fraction) -> list[CoreShare]:
    """Return for each group of runs but the first the share of the first group's time that was bound by the cores, 0..1."""
    (first, base), *others = groups.items()
    shares = []
    for other, group in others:
        ratios = [_machine_ratios(one, old) for one, old in zip(group, base, strict=False)]
        known = [each for each in ratios if each is not None]
        if len(known) < len(ratios):
            continue
        scale = base[0].accelerators / group[0].accelerators
        speeds = [scale * each for each in ratios_of_rounds(group, base, evaluation)]
        m, k, s = median(m for m, _ in known), median(k for _, k in known), median(speeds)
        value, lacks = core_share(m, k, s)
        rounds = [(1 / m - 1 / each) / (1 / m - 1 / k) for each in speeds] if value is not None else []
        interval = interval_of_median(rounds) if len(rounds) >= FEWEST_PAIRS else None
        shares.append(CoreShare(first, other, m, k, s, value, interval, lacks))
    return shares


def bound_parts(points: Sequence[Point], evaluation: Fraction) -> BoundParts:
    """Return the shares of the time of equal runs: least arithmetic, least memory access, other time in steps, and the rest."""
    runs = [_parts(point, evaluation) for point in points]
    least = [(arithmetic, memory) for arithmetic, memory, _, _ in runs if arithmetic is not None and memory is not None]
    is_known = len(least) == len(runs)
    return BoundParts(
        fmean(arithmetic for arithmetic, _ in least) if is_known else None,
        fmean(memory for _, memory in least) if is_known else None,
        fmean(rest for _, _, rest, _ in runs),
        {line: fmean(others.get(line, 0.0) for *_, others in runs) for line in runs[0][3]},
    )


def _machine_ratios(one: Point, old: Point) -> tuple[float, float] | None:
    new, former = one.machine, old.machine
    if new.memory_bytes_per_second and former.memory_bytes_per_second and new.peak_flops and former.peak_flops:
        return new.memory_bytes_per_second / former.memory_bytes_per_second, new.peak_flops / former.peak_flops
    return None


def _parts(point: Point, evaluation: Fraction) -> tuple[float | None, float | None, float, dict[str, float]]:
    """Return the shares of least arithmetic, least memory, rest of the steps, and the other lines."""
    lines = point.seconds_per_image(evaluation)
    time = sum(lines.values())
    in_steps = float(lines["arithmetic"] / time)
    names = {"unexplained": "framework"}
    others = {names.get(line, line): float(each / time) for line, each in lines.items() if line != "arithmetic"}
    peak, bandwidth = point.machine.peak_flops, point.machine.memory_bytes_per_second
    graph = decode_architecture(json.dumps(point.start_graph))
    if peak is None or bandwidth is None or isinstance(graph, Detector):
        return None, None, in_steps, others
    operations, shortest = floor(layers(graph, point.batch, ELEMENT_BYTES[point.precision], peak, bandwidth))
    arithmetic = operations / peak / point.batch / float(time)
    memory = shortest / point.batch / float(time) - arithmetic
    return arithmetic, memory, in_steps - arithmetic - memory, others
