"""Lists of the probes (measurements) of a single node, in the order in which they run. Probes without torch come first."""

from __future__ import annotations

from aiperf.measure.disk import AT_ONCE, DiskRead, DiskWrite, Space
from aiperf.measure.matrix_product import MatrixProduct
from aiperf.measure.memory_bandwidth import MemoryBandwidth
from aiperf.measure.node_properties import Accelerators, Data, System, Versions
from aiperf.measure.probe import Probe

SMALL, LARGE = 2**22, 2**26
"""Bytes of the files for disk probes: quick and full."""


def quick(nodes: int = 1) -> tuple[Probe, ...]:
    """Return the quick probes of each of `nodes` nodes. They do not import torch. Usually they take less than a second.

    They are versions, system description, free space, rates of writing and reading a file of 4 MiB, accelerators, and data set.
    """
    return (Versions(), System(), Space(), DiskWrite(SMALL, SMALL), DiskRead(SMALL, SMALL), Accelerators(), Data())


def full(nodes: int = 1) -> tuple[Probe, ...]:
    """Return all probes of each of `nodes` nodes: the quick ones with files of 64 MiB, matrix product, memory.

    More than 16 nodes write files of 4 MiB to their shared folder: a file server of 100 MB/s takes 1 s for four nodes.
    The all-reduce between nodes is not included, because it needs several nodes at the same time.
    """
    shared = LARGE if nodes <= AT_ONCE else SMALL
    return (
        Versions(),
        System(),
        Space(),
        DiskWrite(LARGE, shared),
        DiskRead(LARGE, shared),
        Accelerators(),
        Data(),
        MatrixProduct(),
        MemoryBandwidth(),
    )
