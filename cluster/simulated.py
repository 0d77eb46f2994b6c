"""The simulated cluster's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cluster.faults import FAULTS, AnyFault
from cluster.place import ClusterConf, NodesAsked, Place, Simulated

if TYPE_CHECKING:
    Faults = list[AnyFault]
else:
    Faults = list[
        Any
    ]  # a schema of Hydra knows no list of several classes: aiperf/config.py makes each record what it is


@dataclass
class LinkConf:
    """One layer of the links between a worker's accelerators, in the α–β model: a message of n bytes takes α + n/β."""

    width: int = 8
    """How many groups of the layer below this one joins; the last layer joins whatever is left."""
    latency_seconds: float = 5e-6
    """α, of one message."""
    bytes_per_second: float = 100e9
    """β, of one accelerator, one way."""


@dataclass
class SimulatedConf(ClusterConf):
    """No machines at all: workers under a virtual clock, with invented learning curves. Never ranked."""

    kind: str = "simulated"
    workers: int = 8
    """Workers."""
    accelerators: int = 8
    """Accelerators of each."""
    workers_per_host: int = 1
    """Workers that are lost together when their host is."""
    flops: float = 47.5e12
    """Operations per second that one accelerator reaches in training: the paper's 194.53 PFLOPS on 4096 Ascend 910."""
    memory_bytes: int = 32 * 2**30
    """Memory of one accelerator. Training fills it as `morphism.cost` reckons, the least that a step can need: a real one, with
    its workspaces and fragments, holds smaller batches."""
    bytes_per_element: int = 2
    """Of an activation where trainer.precision=auto: 2 for accelerators with BF16 or FP16, 4 for those without."""
    ceiling: int | None = None
    """The largest batch, in images per accelerator, that each worker says it can hold; none: what the memory holds, by
    trainer.ceiling_share."""
    step_seconds: float = 0.002
    """Of every step, whatever its batch: launching kernels, the optimiser's small change."""
    speed_spread: float = 0.02
    """Standard deviation of the hosts' speeds, as a share."""
    links: list[LinkConf] = field(
        default_factory=lambda: [LinkConf(4, 5e-6, 100e9), LinkConf(2, 1e-5, 25e9), LinkConf(0, 2e-5, 12.5e9)]
    )
    """Layers of links, the nearest first: within four accelerators, between the fours of a host, between hosts."""
    overlap: float = 0.7
    """Share of the backward pass behind which the exchange of gradients can hide."""
    input_share: float = 0.01
    """Waiting for images, as a share of a training step."""
    join_seconds: float = 30.0
    """How long a worker takes to come up."""
    return_seconds: float = 120.0
    """After how long another worker comes up in the place of a lost one."""
    detection_seconds: float = 10.0
    """After how long the loss of a worker is noticed."""
    build_seconds: float = 2.0
    """Building a trial's network."""
    compile_seconds: float = 20.0
    """Compiling it."""
    weights_bytes_per_second: float = 1e9
    """How fast a parent's weights are read."""
    checkpoint_bytes_per_second: float = 20e9
    """How fast a checkpoint is copied while training stands still."""
    proposal_seconds: float = 1.0
    """What a proposal takes on a worker's processor. Proposals are really made; the time that takes is measured, and not
    charged to the virtual clock."""
    turn_seconds: float = 0.25
    """Words that fall due within so long after the first are heard together."""
    faults: Faults = field(default_factory=list, metadata={"records": FAULTS})
    """Faults to inject; each draws from the run's seed and its place in the list. See docs/simulation.md."""
    profile: str | None = None
    """Take step, start-up and gap times, memory, the ceiling and the rate of losses from this run's journal."""

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
