"""Lists of the probes of single nodes, in their order. Probes without torch come first."""

from __future__ import annotations

from aiperf.preflight.probes.accelerators import Accelerators
from aiperf.preflight.probes.data import Data
from aiperf.preflight.probes.disk import DiskRead, DiskWrite, Space
from aiperf.preflight.probes.matmul import Matmul
from aiperf.preflight.probes.memory import Memory
from aiperf.preflight.probes.system import System
from aiperf.preflight.probes.versions import Versions
from aiperf.preflight.reading import Probe

SMALL, LARGE = 2**22, 2**26
"""Bytes of the files for disk probes: quick and full."""


def quick() -> tuple[Probe, ...]:
    """Return the quick probes: no torch, under a second in total."""
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
        Matmul(),
        Memory(),
    )
