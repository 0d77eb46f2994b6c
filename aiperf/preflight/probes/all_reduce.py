"""How fast nodes add up among themselves: an all-reduce over the transport that gradients take, one rank a node.

The ranks meet through a file in the run's folder: no store listens anywhere. Gloo and NCCL exchange on the interface that
carries the node's address in the cluster, as long as the probe takes.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from aiperf.preflight.reading import Reading, Setting
from aiperf.system.network import interface_of

if TYPE_CHECKING:
    import torch

SIZES = (2**20, 2**25)
"""Bytes, FP32."""
REPETITIONS = 5


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Bus bandwidth as nccl-tests define it: bytes / seconds · 2 (n - 1) / n, for each of SIZES, of n ranks.

    (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md: so the figure does not depend on the number of ranks.)
    """

    rank: int
    ranks: int
    meeting: str
    """Name of a file in the setting's folder that is not there yet."""
    seconds: float
    """The ranks give each other so long to come."""
    on_host: bool = False
    """In the hosts' memory over Gloo, even where there are accelerators: those of a partner that trains are taken."""
    name: ClassVar[str] = "all-reduce"
    unit: ClassVar[str] = "B/s"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`."""
        import torch
        import torch.distributed as dist

        interface = interface_of(setting.address)
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
        is_on_device = setting.accelerators > 0 and not self.on_host
        device = torch.device("cuda", 0) if is_on_device else torch.device("cpu")
        store = dist.FileStore(str(setting.folder / self.meeting), self.ranks)  # type: ignore[attr-defined]  # not in torch's stub
        store.set_timeout(timedelta(seconds=self.seconds))
        dist.init_process_group(
            "nccl" if is_on_device else "gloo",
            store=store,
            rank=self.rank,
            world_size=self.ranks,
            timeout=timedelta(seconds=self.seconds),
        )
        try:
            series = {str(size): _bus_bandwidth(size, self.ranks, device) for size in SIZES}
        finally:
            dist.destroy_process_group()
        facts = {"ranks": self.ranks, "over": "nccl" if is_on_device else "gloo", "interface": interface}
        return Reading(probe=self.name, unit=self.unit, series=series, facts=facts)


def _bus_bandwidth(size: int, ranks: int, device: torch.device) -> list[float]:
    import torch
    import torch.distributed as dist

    buffer = torch.ones(size // 4, device=device)
    rates: list[float] = []
    for repetition in range(REPETITIONS + 1):
        buffer.fill_(1.0)
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(buffer)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - began
        if repetition:  # the first sets connections up
            rates.append(bus_bandwidth(size, seconds, ranks))
        if not bool((buffer == ranks).all()):
            raise RuntimeError(f"the sum of {ranks} ones came to {float(buffer.min())} to {float(buffer.max())}")
    return rates


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Bytes a second that each rank's link carries in an all-reduce of `size` bytes.

    >>> bus_bandwidth(1000, 1.0, 2), bus_bandwidth(1000, 1.0, 4)
    (1000.0, 1500.0)
    """
    return size / seconds * 2 * (ranks - 1) / ranks
