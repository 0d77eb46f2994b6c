"""Roofline model: bounds of a rate by peak and bandwidth. Wang et al. 2018, equations (4) to (8), as Williams et al. 2009."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LINE_BYTES = 64
"""Bytes of one memory access, a cache line. Equation (6) divides a rate by the total of these bytes, which is an error of the
paper: intensity is operations ÷ bytes."""
Bottleneck = Literal["memory", "calculation"]


@dataclass(frozen=True, slots=True)
class Roof:
    """Upper limit in a roofline picture: a peak (horizontal line) or a memory bandwidth (diagonal line)."""

    name: str
    figure: float
    """Operations per second, or bytes per second of memory."""
    origin: str
    """data sheet, measured, simulated, published, or the words of a user."""
    is_memory: bool = False


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A program or a network layer in a roofline picture: its rate over its intensity (operations per byte)."""

    name: str
    intensity: float
    rate: float
    interval: tuple[float, float] | None = None
    """95 % interval of the rate."""
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """Bound of a program or layer under one peak: its bottleneck, the attainable rate, and the attained share of it."""

    point: RooflinePoint
    roof: str
    bottleneck: Bottleneck
    bound: float
    """Attainable rate, equation (7)."""
    share: float
    """Rate ÷ bound. More than 1: the point is above its bound, for example because a cache serves its memory accesses."""


def nominal_peak(cores: int, clock_hertz: float, per_cycle: float) -> float:
    """Return the peak in operations per second by equation (4): cores × clock × operations per cycle and core.

    >>> round(nominal_peak(6, 2.4e9, 6) / 1e9, 1)
    86.4
    """
    return cores * clock_hertz * per_cycle


def adds_per_cycle(vector_ports: int, bits: int) -> float:
    """Return the largest number of 64-bit integer adds per cycle of a core: vector integer ports × bits ÷ 64.

    `vector_ports`: number of the core's execution ports for vectors of integers. `bits`: width of a vector.

    >>> adds_per_cycle(3, 128)
    6.0
    """
    return vector_ports * bits / 64


def ceiling(peak: float, port_efficiency: float, ipc: float, peak_ipc: float, simd: float = 1.0) -> float:
    """Return the rate that a program with limited parallelism can attain, in operations per second, by equation (8).

    It is peak × port efficiency × IPC ÷ peak IPC × SIMD.

    Args:
        peak: peak of the machine in operations per second.
        port_efficiency: share of the execution ports that the program uses, 0..1.
        ipc: instructions per cycle of the program.
        peak_ipc: largest instructions per cycle of the processor.
        simd: factor for the width of vectors.

    >>> round(ceiling(86.4e9, 0.5, 2, 4) / 1e9, 1), round(ceiling(86.4e9, 0.5, 2, 4, 2) / 1e9, 1)
    (21.6, 43.2)
    """
    return peak * port_efficiency * ipc / peak_ipc * simd


def attainable(operation_intensity: float, peak: float, bandwidth: float) -> float:
    """Return the attainable rate in operations per second by equation (7): the smaller of peak and intensity × bandwidth.

    `operation_intensity`: operations per byte. `peak`: operations per second. `bandwidth`: bytes per second of memory.
    """
    return min(peak, operation_intensity * bandwidth)


def ridge(peak: float, bandwidth: float) -> float:
    """Return the intensity in operations per byte above which the peak limits the rate, and below which memory does.

    `peak`: operations per second. `bandwidth`: bytes per second of memory.

    >>> round(ridge(86.4e9, 13.2e9), 2)
    6.55
    """
    return peak / bandwidth


def bottleneck(operation_intensity: float, peak: float, bandwidth: float) -> Bottleneck:
    """Return the resource that limits the rate of a program: 'memory' or 'calculation'."""
    return "memory" if operation_intensity < ridge(peak, bandwidth) else "calculation"


def labels(points: Sequence[RooflinePoint], roofs: Sequence[Roof]) -> tuple[Label, ...]:
    """Return the attainable rate and the bottleneck of each program or layer under each peak, with the largest bandwidth."""
    bandwidths = [roof.figure for roof in roofs if roof.is_memory]
    if not bandwidths:
        return ()
    bandwidth = max(bandwidths)
    judged = []
    for point in points:
        for roof in roofs:
            if not roof.is_memory:
                bound = attainable(point.intensity, roof.figure, bandwidth)
                limit = bottleneck(point.intensity, roof.figure, bandwidth)
                judged.append(Label(point, roof.name, limit, bound, point.rate / bound))
    return tuple(judged)
