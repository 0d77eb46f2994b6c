"""Which probes of single nodes are carried out when, in their order: those that need no torch come first."""

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
"""Bytes of the files that are written and read: quick, and full."""


def quick() -> tuple[Probe, ...]:
    """No torch, under a second in all."""
    return (Versions(), System(), Space(), DiskWrite(SMALL), DiskRead(SMALL), Accelerators(), Data())


def full() -> tuple[Probe, ...]:
    """Of one node; those between nodes are `drive.ray.inspection`'s to arrange."""
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
