"""The simulated cluster's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cluster.faults import FAULTS, AnyFault
from cluster.place import LONGEST_SECONDS, ClusterConf, NodesAsked, Place, Simulated

if TYPE_CHECKING:
    Faults = list[AnyFault]
else:
    Faults = list[
        Any
    ]  # a schema of Hydra knows no list of several classes: aiperf/config.py makes each record what it is


@dataclass
class LinkConf:
    """One layer of the links between a worker's accelerators, in the α–β model: a message of n bytes takes α + n/β."""

    width: int = field(default=8, metadata={"least": 0, "most": 1_000_000})
    """How many groups of the layer below this one joins; the last layer joins whatever is left."""
    latency_seconds: float = field(default=5e-6, metadata={"least": 0, "most": LONGEST_SECONDS})
    """α, of one message."""
    bytes_per_second: float = field(default=100e9, metadata={"least": 1, "most": 1e18})
    """β, of one accelerator, one way."""


@dataclass
class SimulatedConf(ClusterConf):
    """No machines at all: workers under a virtual clock, with invented learning curves. Never ranked."""

    kind: str = "simulated"
    workers: int = field(default=8, metadata={"least": 1, "most": 1_000_000})
    """Workers."""
    accelerators: int = field(default=8, metadata={"least": 1, "most": 1_000_000})
    """Accelerators of each."""
    workers_per_host: int = field(default=1, metadata={"least": 1, "most": 1_000_000})
    """Workers that are lost together when their host is."""
    flops: float = field(default=47.5e12, metadata={"least": 1, "most": 1e24, "unit": "operations per second"})
    """Operations per second that one accelerator reaches in training: the paper's 194.53 PFLOPS on 4096 Ascend 910."""
    memory_bytes: int = field(default=32 * 2**30, metadata={"least": 1, "most": 2**60})
    """Memory of one accelerator. Training fills it as `morphism.cost` reckons, the least that a step can need: a real one, with
    its workspaces and fragments, holds smaller batches."""
    bytes_per_element: int = field(default=2, metadata={"least": 2, "most": 4})
    """Of an activation where trainer.precision=auto: 2 for accelerators with BF16 or FP16, 4 for those without."""
    ceiling: int | None = field(default=None, metadata={"least": 8, "most": 8192, "unit": "images"})
    """The largest batch, in images per accelerator, that each worker says it can hold; none: what the memory holds, by
    trainer.ceiling_share."""
    step_seconds: float = field(default=0.002, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Of every step, whatever its batch: launching kernels, the optimiser's small change."""
    speed_spread: float = field(default=0.02, metadata={"least": 0, "most": 1})
    """Standard deviation of the hosts' speeds, as a share."""
    links: list[LinkConf] = field(
        default_factory=lambda: [LinkConf(4, 5e-6, 100e9), LinkConf(2, 1e-5, 25e9), LinkConf(0, 2e-5, 12.5e9)],
        metadata={"fewest": 1},
    )
    """Layers of links, the nearest first: within four accelerators, between the fours of a host, between hosts."""
    overlap: float = field(default=0.7, metadata={"least": 0, "most": 1})
    """Share of the backward pass behind which the exchange of gradients can hide."""
    input_share: float = field(default=0.01, metadata={"least": 0, "most": 1000})
    """Waiting for images, as a share of a training step."""
    join_seconds: float = field(default=30.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """How long a worker takes to come up."""
    return_seconds: float = field(default=120.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """After how long another worker comes up in the place of a lost one."""
    detection_seconds: float = field(default=10.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """After how long the loss of a worker is noticed."""
    build_seconds: float = field(default=2.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Building a trial's network."""
    compile_seconds: float = field(default=20.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Compiling it."""
    weights_bytes_per_second: float = field(default=1e9, metadata={"least": 1, "most": 1e18})
    """How fast a parent's weights are read."""
    checkpoint_bytes_per_second: float = field(default=20e9, metadata={"least": 1, "most": 1e18})
    """How fast a checkpoint is copied while training stands still."""
    proposal_seconds: float = field(default=1.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """What a proposal takes on a worker's processor. Proposals are really made; the time that takes is measured, and not
    charged to the virtual clock."""
    turn_seconds: float = field(default=0.25, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Words that fall due within so long after the first are heard together."""
    faults: Faults = field(default_factory=list, metadata={"records": FAULTS})
    """Faults to inject; each draws from the run's seed and its place in the list. See docs/simulation.md."""
    profile: str | None = None
    """Take step, start-up and gap times, memory, the ceiling and the rate of losses from this run's journal."""

    def check(self) -> None:
        """See `ClusterConf.check`."""
        if self.bytes_per_element == 3:
            raise ValueError("cluster.bytes_per_element is 2 (BF16, FP16) or 4 (FP32); found 3: take one of them")

    def nodes_asked(self) -> NodesAsked:
        """All of it is configured."""
        return NodesAsked(
            nodes=-(-self.workers // self.workers_per_host),
            accelerators=self.accelerators * self.workers_per_host,
            accelerator_bytes=self.memory_bytes,
        )

    def workers_in_words(self) -> str:
        """So many."""
        return f"{self.workers}, simulated"

    def place(self, environment: Mapping[str, str]) -> Place:
        """On no machine."""
        return Simulated()
