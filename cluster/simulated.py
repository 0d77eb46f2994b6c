"""Option +cluster=simulated: a run on a simulated cluster, without machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, get_args

from cluster.faults import FAULTS, AnyFault
from cluster.place import LONGEST_SECONDS, ClusterConf, NodesAsked, Place, Simulated
from cluster.topology import LinkConf, Topology, exchange_seconds, torus_seconds

if TYPE_CHECKING:
    Faults = list[AnyFault]
else:
    # a schema of Hydra knows no list of several classes: aiperf/config.py makes each record what it is
    Faults = list[Any]


@dataclass
class SimulatedConf(ClusterConf):
    """Simulation without machines: workers under a virtual clock, with invented learning curves. Never ranked."""

    kind: str = "simulated"
    workers: int = field(default=8, metadata={"least": 1, "most": 1_000_000})
    """Number of workers."""
    accelerators: int = field(default=8, metadata={"least": 1, "most": 1_000_000})
    """Accelerators of each worker."""
    workers_per_host: int = field(default=1, metadata={"least": 1, "most": 1_000_000})
    """Workers on one host. They are lost together."""
    flops: float = field(default=47.5e12, metadata={"least": 1, "most": 1e24, "unit": "operations per second"})
    """Operations per second that one accelerator reaches in training: the paper's 194.53 PFLOPS on 4096 Ascend 910."""
    memory_bytes: int = field(default=32 * 2**30, metadata={"least": 1, "most": 2**60})
    """Memory of one accelerator. Training uses the minimum that `morphism.cost` estimates for a step. A real
    accelerator also needs workspaces and has fragmentation, so it holds smaller batches."""
    bytes_per_element: int = field(default=2, metadata={"least": 2, "most": 4})
    """Bytes of an activation element with trainer.precision=auto: 2 for accelerators with BF16 or FP16, else 4."""
    ceiling: int | None = field(default=None, metadata={"least": 8, "most": 8192, "unit": "images"})
    """Largest batch that each worker can hold, in images per accelerator. Default: from the memory, by
    trainer.ceiling_share."""
    step_seconds: float = field(default=0.002, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Constant time of every step: kernel launches and the optimizer's small updates."""
    step_costs: list[float] = field(default_factory=list, metadata={"least": 0, "most": 1e9, "unit": "seconds"})
    """Compute seconds of one accelerator for: a step, an operation of convolutions and matrix products, another operation,
    a parameter of a step, and a generation of a step. Five numbers, as cluster.profile measures them. They replace
    cluster.flops and step_seconds. Default: empty, which uses those."""
    validation_cost: float = field(default=1.0, metadata={"least": 0, "most": 1e6})
    """Factor on the time of validation, which updates no weights. Only with step_costs."""
    speed_spread: float = field(default=0.02, metadata={"least": 0, "most": 1})
    """Relative standard deviation of the hosts' speeds."""
    links: list[LinkConf] = field(
        default_factory=lambda: [LinkConf(4, 5e-6, 100e9), LinkConf(2, 1e-5, 25e9), LinkConf(0, 2e-5, 12.5e9)],
        metadata={"fewest": 1},
    )
    """Layers of links, the nearest first: within four accelerators, between the fours of a host, between hosts. A torus or a
    switch has one kind of link."""
    topology: str = field(default="layers", metadata={"among": get_args(Topology)})
    """Network of a worker's accelerators: layers (a ring on each layer of links), torus or switch (one ring through it)."""
    shape: list[int] = field(default_factory=list, metadata={"least": 1, "most": 1_000_000})
    """Edges of the torus, two or three. Their product is cluster.accelerators."""
    overlap: float = field(default=0.7, metadata={"least": 0, "most": 1})
    """Share of the backward pass that can overlap with the exchange of gradients."""
    input_share: float = field(default=0.01, metadata={"least": 0, "most": 1000})
    """Time waiting for images, as a share of a training step."""
    join_seconds: float = field(default=30.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time until a worker is up."""
    return_seconds: float = field(default=120.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time until another worker replaces a lost one."""
    detection_seconds: float = field(default=10.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time until the loss of a worker is detected."""
    build_seconds: float = field(default=2.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time to build a trial's network."""
    compile_seconds: float = field(default=20.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time to compile it."""
    weights_bytes_per_second: float = field(default=1e9, metadata={"least": 1, "most": 1e18})
    """Rate of reading a parent's weights."""
    checkpoint_bytes_per_second: float = field(default=20e9, metadata={"least": 1, "most": 1e18})
    """Rate of copying a checkpoint while training pauses."""
    proposal_seconds: float = field(default=1.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time of a proposal on a worker's processor. Proposals are really computed. Their real time is measured, but not
    added to the virtual clock."""
    turn_seconds: float = field(default=0.25, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Messages that arrive within this time after the first are processed in one turn."""
    faults: Faults = field(default_factory=list, metadata={"records": FAULTS})
    """Faults to inject. Each depends on the run's seed and on its position in the list. See docs/simulation.md."""
    profile: str | None = None
    """Take compute, exchange, start-up and gap times, memory, the ceiling and the rate of losses from this run's journal."""

    def check(self) -> None:
        if self.bytes_per_element == 3:
            raise ValueError("cluster.bytes_per_element is 2 (BF16, FP16) or 4 (FP32), but found 3: take one of them")
        if len(self.step_costs) not in (0, 5):
            raise ValueError(
                f"cluster.step_costs is empty or five numbers, but found {len(self.step_costs)}: give five or none"
            )

        edges, links = list(self.shape), len(self.links)
        is_torus = self.topology == "torus"
        if is_torus and (len(edges) not in (2, 3) or prod(edges) != self.accelerators):
            raise ValueError(
                f"cluster.shape of a torus has two or three edges with the product {self.accelerators} "
                f"(cluster.accelerators), but found {edges}: give for example cluster.accelerators=64 cluster.shape=[8,8]"
            )
        if edges and not is_torus:
            raise ValueError(
                f"cluster.shape is of a torus, but found {edges}: leave it out, or set cluster.topology=torus"
            )
        if self.topology != "layers" and links != 1:
            raise ValueError(
                f"cluster.topology={self.topology} has one kind of link, but found {links} layers in cluster.links: give one, "
                "as cluster.links=[{latency_seconds: 1e-6, bytes_per_second: 62e9}]"
            )

    @property
    def accelerators_per_host(self) -> int:
        """Product of the widths of all layers of links but the last: 1 with one layer, such as a torus or switch."""
        return prod(link.width for link in self.links[:-1])

    def all_reduce_seconds(self, size: float) -> float:
        """Return the seconds of an all-reduce of `size` bytes among all accelerators of one worker."""
        if self.topology == "torus":
            return torus_seconds(size, self.shape, self.links[0])
        return exchange_seconds(size, self.accelerators, self.links)

    def requested_nodes(self) -> NodesAsked:
        """Return number of simulated hosts, accelerators of each, and memory of one accelerator in bytes."""
        return NodesAsked(
            nodes=-(-self.workers // self.workers_per_host),
            accelerators=self.accelerators * self.workers_per_host,
            accelerator_bytes=self.memory_bytes,
        )

    def workers_text(self) -> str:
        return f"{self.workers}, simulated"

    def place(self, environment: Mapping[str, str]) -> Place:
        """Return the value for a run without Ray and machines. `environment`: not used."""
        return Simulated()
