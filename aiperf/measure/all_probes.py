"""Lists of the probes (measurements) of a single node, in the order in which they run. Probes without torch come first."""

from __future__ import annotations

from aiperf.measure.disk import DiskRead, DiskWrite, Space
from aiperf.measure.matrix_product import MatrixProduct
from aiperf.measure.memory_bandwidth import MemoryBandwidth
from aiperf.measure.node_properties import Accelerators, Data, System, Versions
from aiperf.measure.probe import Probe

SMALL, LARGE = 2**22, 2**26
"""Bytes of the files for disk probes: quick and full."""


def quick() -> tuple[Probe, ...]:
    """Return the quick probes of one node. They do not import torch. Usually they take less than a second.

    They are versions, system description, free space, rates of writing and reading a file of 4 MiB, accelerators, and data set.
    """
    return (Versions(), System(), Space(), DiskWrite(SMALL), DiskRead(SMALL), Accelerators(), Data())


def full() -> tuple[Probe, ...]:
    """Return all probes of one node: the quick ones with a file of 64 MiB, then matrix product and memory bandwidth.

    The all-reduce between nodes is not included, because it needs several nodes at the same time.
    """
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
