"""Probe of the network between nodes (an all-reduce over the transport of gradients), and the pairing of nodes for it."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from aiperf.measure.probe import ProbeReading, Setting
from aiperf.system.network import interface_of

if TYPE_CHECKING:
    import torch


MOST_FOR_ALL_PAIRS = 16
SAMPLED_ROUNDS = 6

Round = tuple[tuple[int, int], ...]


def rounds(nodes: int, seed: int = 0) -> tuple[Round, ...]:
    """Return rounds of pairs of nodes 0 … nodes - 1 that exchange data at the same time. Every node has a partner once or more.

    Up to 16 nodes, the rounds contain all pairs (circle method, Kirkman 1847). For more nodes, there are 6 rounds of random
    pairs, drawn with `seed`.
    """
    if nodes < 2:
        return ()
    circle: list[int | None] = [*range(nodes), *([None] if nodes % 2 else [])]
    number = len(circle) - 1
    if nodes > MOST_FOR_ALL_PAIRS:
        random.Random(seed).shuffle(circle)
        number = SAMPLED_ROUNDS
    pairings: list[Round] = []
    for _ in range(number):
        half = len(circle) // 2
        sides = zip(circle[:half], reversed(circle[half:]), strict=True)
        pairings.append(tuple((min(a, b), max(a, b)) for a, b in sides if a is not None and b is not None))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(pairings)


SIZES = (2**20, 2**25)
"""Bytes of the FP32 buffers."""
REPETITIONS = 5


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Probe of the bus bandwidth in bytes/s, as nccl-tests defines it: bytes / seconds · 2 (n - 1) / n for n ranks.

    It does not depend on the number of ranks (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). The buffers have the SIZES 1
    MiB and 32 MiB.
    """

    rank: int
    ranks: int
    meeting: str
    seconds: float
    on_host: bool = False
    """Use host memory and Gloo even with accelerators, for a partner that is training."""
    name: ClassVar[str] = "all-reduce"
    unit: ClassVar[str] = "B/s"

    def measure(self, setting: Setting) -> ProbeReading:
        import torch
        import torch.distributed as dist

        interface = interface_of(setting.address)
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")  # as for training ranks: a user's value is kept
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
            series = {str(size): _bus_bandwidth(size, self.ranks, device, self.seconds) for size in SIZES}
        finally:
            dist.destroy_process_group()
        facts = {"ranks": self.ranks, "over": "nccl" if is_on_device else "gloo", "interface": interface}
        return ProbeReading(probe=self.name, unit=self.unit, series=series, facts=facts)


def _bus_bandwidth(size: int, ranks: int, device: torch.device, limit: float) -> list[float]:
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
        if repetition:  # the first repetition opens connections
            rates.append(bus_bandwidth(size, seconds, ranks))
            if ranks == 2:
                stop_if_slow(size, seconds, limit, device)
        if not bool((buffer == ranks).all()):
            raise RuntimeError(
                f"an all-reduce of {ranks} ones must give {ranks}, but gave {float(buffer.min())} to "
                f"{float(buffer.max())}: check the links and the communication library of these nodes (NCCL, Gloo)"
            )
    return rates


def stop_if_slow(size: int, seconds: float, limit: float, device: torch.device) -> None:
    import torch
    import torch.distributed as dist

    slower = torch.tensor([seconds], device=device)
    dist.all_reduce(slower, dist.ReduceOp.MAX)
    expected = float(slower) / size * sum(SIZES) * (REPETITIONS + 1)
    if expected > limit:
        raise RuntimeError(
            f"an exchange of {size} bytes took {float(slower):.1f} s, so all exchanges would take {expected:.0f} s, but may "
            f"take {limit:g} s: check the link between the two nodes, or raise preflight.seconds"
        )


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    return size / seconds * 2 * (ranks - 1) / ranks
