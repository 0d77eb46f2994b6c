"""Lists of the probes (measurements) of a single node, in the order in which they run. Probes without torch come first."""

from __future__ import annotations

from aiperf.measure.disk import AT_ONCE, DiskRead, DiskWrite, Space
from aiperf.measure.matrix_product import MatrixProduct
from aiperf.measure.memory_bandwidth import MemoryBandwidth
from aiperf.measure.node_properties import Accelerators, Data, System, Versions
from aiperf.measure.probe import Probe

SMALL, LARGE = 2**22, 2**26


def quick(nodes: int = 1) -> tuple[Probe, ...]:
    """Probes that do not import torch and usually take less than a second."""
    return (Versions(), System(), Space(), DiskWrite(SMALL, SMALL), DiskRead(SMALL, SMALL), Accelerators(), Data())


def full(nodes: int = 1) -> tuple[Probe, ...]:
    """All probes but the all-reduce, which needs several nodes at the same time.

    More than 16 nodes write files of 4 MiB to their shared folder: a file server of 100 MB/s takes 1 s for four nodes.
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
