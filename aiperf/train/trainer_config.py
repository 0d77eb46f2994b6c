"""The choices a user has about training; no torch here.

How the ranks of a worker exchange gradients, in which precision they compute, the optimiser's constants, and how long a
silent rank is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from aiperf.errors import BadConfiguration
from aiperf.option_limits import LONGEST_SECONDS, MOST_MEMORY, hold

PrecisionChoice = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
LaunchChoice = Literal["auto", "on", "off"]
FusedChoice = Literal["auto", "off", "norm", "conv"]

COLLECTIVES = {
    "horovod": "aiperf.train.collectives.horovod_choice",
    "torch": "aiperf.train.collectives.torch_collective",
}
"""What can exchange gradients between ranks, and the module that joins ranks so (a `choice.CollectiveModule`), imported
only when it is asked. `auto` takes the first that can be had."""

ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Of an activation in each precision, as it lies in memory."""

COLLECTIVES_IN_WORDS = " or ".join(f"collective={name}" for name in COLLECTIVES)

LARGEST_BATCH = 8192
"""Images per accelerator. None above it is tried: from here on larger ones are no faster, and train worse."""

PEER_SECONDS = 7 * 86400.0
"""How long the libraries of the exchange (Horovod, Gloo, NCCL) may wait for a rank by themselves: far above any deadline of the
group's, which alone can tell a rank that hangs from those that wait for it."""


@dataclass
class TrainerConf:
    """How a worker trains."""

    collective: str = field(default="auto", metadata={"among": lambda: ("auto", *COLLECTIVES, "none")})
    """What exchanges gradients between the ranks of a worker. horovod; torch (DistributedDataParallel); none (one rank); auto:
    none for one rank, else horovod where it is built, else torch. The run records which it was."""
    ranks: int | None = field(default=None, metadata={"least": 1, "most": 65536})
    """Data-parallel processes of a worker. None: one for each accelerator; without accelerators 2 where there are 2 cores."""
    threads: int | None = field(default=None, metadata={"least": 1, "most": 65536})
    """Threads of one rank's arithmetic. None: the cores this process may use, divided by the ranks."""
    nice: int = field(default=0, metadata={"least": 0, "most": 19})
    """Added to the niceness of the ranks, 0..19."""
    precision: str = field(default="auto", metadata={"among": get_args(PrecisionChoice)})
    """What convolutions and matrix products compute in: fp32, tf32, bf16, fp16. Weights, gradients' sums and the optimiser
    stay FP32. auto: a processor bf16 where it has it, else fp32; an accelerator the fastest of its 16-bit types (or fp32 where
    it has none), measured when the first worker on its kind starts and the same for all others on it."""
    channels_last: bool = True
    """Images and convolution weights with the channel as the fastest axis."""
    compile: str = field(default="auto", metadata={"among": get_args(LaunchChoice)})
    """torch.compile. on; off; auto: measures before a trial, where enough work lies ahead, whether it pays."""
    cuda_graphs: str = field(default="off", metadata={"among": get_args(LaunchChoice)})
    """All kernels of a pass launched by one call, with `compile` or without. on; off; auto: measured as `compile` is. Off until
    it has been run on a GPU."""
    fused: str = field(default="off", metadata={"among": get_args(FusedChoice)})
    """Kernels of our own (Triton) for batch normalisation in training: off; norm: normalise, add and ReLU in one; conv: norm,
    and 1×1 convolutions that make their normalisation's statistics; auto: measured as `compile` is. Off until it has been run
    on a GPU."""
    learning_rate: float = field(default=0.1, metadata={"least": 1e-12, "most": 1000})
    """At the beginning of a trial; falls linearly. Weights are FP32: by a smaller rate none changes, by a larger one the first
    step overwrites them all (the largest published ones, of LARS, are some tens)."""
    decay_epochs: int | None = field(default=60, metadata={"least": 1, "most": 1_000_000_000})
    """Epochs after which the learning rate would reach zero; shorter rounds keep the slope. None: the epochs of the schedule's
    last round, as a run's configuration then says (schedule=quick)."""
    momentum: float = field(default=0.9, metadata={"least": 0, "most": 0.9999})
    """Nearer to 1 the mean is over more steps than a trial has; from 0.99999997 on it is 1 in FP32: nothing is forgotten."""
    weight_decay: float = field(default=5e-5, metadata={"least": 0, "most": 1})
    """At 1 weights shrink by the learning rate itself in each step: more would outweigh any gradient."""
    label_smoothing: float = field(default=0.1, metadata={"least": 0, "below": 1})
    scale_learning_rate: bool = False
    """Multiply the learning rate by global batch / reference batch (Goyal et al., arXiv:1706.02677)."""
    reference_batch: int = field(default=256, metadata={"least": 1, "most": 2**31, "unit": "images"})
    """The global batch for which `learning_rate` is meant, where it is scaled."""
    warmup_epochs: int = field(default=5, metadata={"least": 0, "most": 1_000_000_000})
    """Of each trial, in which a learning rate that is scaled up rises from `learning_rate` to its scale; 0: none."""
    fp16_compression: bool = False
    """Gradients travel between ranks as 16-bit floats. (Horovod takes no bfloat16 tensors.)"""
    hang_seconds: float = field(default=60.0, metadata={"above": 0, "most": PEER_SECONDS / 10})
    """A rank that shows no sign of life for so long is taken for hung, and its group is restarted. A step that legitimately
    takes long extends it: at least 10 × the longest step so far is waited."""
    start_seconds: float = field(default=300.0, metadata={"above": 0, "most": PEER_SECONDS / 10})
    """Starting, opening the data set, building, compiling and waiting for storage take as long as they take; a rank in which
    nothing at all goes on for so long meanwhile (no thread runs, no disk is waited for, nothing is read) is taken for hung."""
    memory_limit_bytes: int | None = field(default=None, metadata={"least": 1, "most": MOST_MEMORY})
    """Training memory a rank may use. None: the accelerator's; without accelerators the host's free memory divided by the
    ranks. A batch whose modelled need lies above it is treated as out of memory."""
    ceiling_share: float = field(default=0.9, metadata={"above": 0, "most": 1})
    """Share of the memory that the largest batch may fill."""
    keep_checkpoints_seconds: float = field(default=30.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """A checkpoint outlives its successor by so long: a driver that was killed may not have heard of the successor."""

    def __post_init__(self) -> None:
        hold(self, "trainer")
        if self.fused != "off" and not self.channels_last:
            raise BadConfiguration(
                f"trainer.fused={self.fused!r} is written for channels_last; found trainer.channels_last=False: take fused=off"
            )
        if self.fused in ("norm", "conv") and self.compile == "on":
            raise BadConfiguration(
                f"trainer.fused={self.fused!r} is for what torch.compile does not compile; found trainer.compile='on': "
                "take compile=off or fused=off"
            )
        if self.collective == "none" and self.ranks is not None and self.ranks > 1:
            raise BadConfiguration(
                f"trainer.collective='none' is one rank; found trainer.ranks={self.ranks!r}: "
                f"leave ranks out, or take {COLLECTIVES_IN_WORDS}"
            )


def ranks_of_worker(conf: TrainerConf, accelerators: int, cores: int) -> int:
    """How many ranks a worker has: `conf.ranks`, else one an accelerator, else 2 on 2 or more cores.

    >>> ranks_of_worker(TrainerConf(), accelerators=8, cores=64), ranks_of_worker(TrainerConf(), accelerators=0, cores=2)
    (8, 2)
    """
    if conf.ranks is not None:
        return conf.ranks
    if conf.collective == "none":
        return 1
    return accelerators or min(2, cores)


def ranks_of_hosts(conf: TrainerConf, hosts: Sequence[tuple[int, int]]) -> list[int]:
    """How many ranks a worker has on each of its hosts, of which each has so many accelerators and cores for it.

    >>> ranks_of_hosts(TrainerConf(), [(8, 64), (4, 64)]), ranks_of_hosts(TrainerConf(ranks=6), [(0, 2), (0, 2)])
    ([8, 4], [3, 3])

    Raises:
        BadConfiguration: `conf.ranks` cannot be divided among them, or is more than there are accelerators.
    """
    if conf.ranks is not None and conf.ranks % len(hosts):
        raise BadConfiguration(
            f"the ranks of a worker are equally many on each of its hosts; found trainer.ranks={conf.ranks} for {len(hosts)} "
            "hosts: use a multiple, or leave it out"
        )
    if conf.collective == "none" and len(hosts) > 1:
        raise BadConfiguration(
            f"trainer.collective='none' is one rank, and a worker has one on each of its hosts at least; found {len(hosts)} "
            f"hosts: take {COLLECTIVES_IN_WORDS}, or lower accelerators_per_worker"
        )
    own = conf if conf.ranks is None else replace(conf, ranks=conf.ranks // len(hosts))
    ranks = [ranks_of_worker(own, accelerators, cores) for accelerators, cores in hosts]
    for count, (accelerators, _) in zip(ranks, hosts, strict=True):
        if accelerators and count > accelerators:
            raise BadConfiguration(
                f"a rank needs an accelerator of its own; found trainer.ranks={sum(ranks)} for "
                f"{sum(has for has, _ in hosts)}: use at most that many"
            )
    return ranks
