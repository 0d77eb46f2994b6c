"""Lists of the probes of single nodes, in their order. Probes without torch come first."""

from __future__ import annotations

from aiperf.measure.disk import DiskRead, DiskWrite, Space
from aiperf.measure.matrix_product import MatrixProduct
from aiperf.measure.memory_bandwidth import MemoryBandwidth
from aiperf.measure.node_properties import Accelerators, Data, System, Versions
from aiperf.measure.probe import Probe

SMALL, LARGE = 2**22, 2**26
"""Bytes of the files for disk probes: quick and full."""


def quick() -> tuple[Probe, ...]:
    """Return the quick probes of one node. They do not import torch and take under a second in total."""
    return (Versions(), System(), Space(), DiskWrite(SMALL), DiskRead(SMALL), Accelerators(), Data())


def full() -> tuple[Probe, ...]:
    """Return all probes of one node. `drive.ray.inspection` arranges the probes between nodes."""
    return (
        Versions(),
        System(),
        Space(),
        DiskWrite(LARGE),
        DiskRead(LARGE),
        Accelerators(),
        Data(),
        MatrixProduct(),
        MemoryBandwidth(),
    )
