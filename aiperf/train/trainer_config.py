"""The choices a user has about training; no torch here.

How the ranks of a worker exchange gradients, in which precision they compute, the optimiser's constants, and how long a
silent rank is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from aiperf.errors import BadConfiguration

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

PEER_SECONDS = 7 * 86400.0
"""How long the libraries of the exchange (Horovod, Gloo, NCCL) may wait for a rank by themselves: far above any deadline of the
group's, which alone can tell a rank that hangs from those that wait for it."""


@dataclass
class TrainerConf:
    """How a worker trains."""

    collective: str = "auto"
    """What exchanges gradients between the ranks of a worker. horovod; torch (DistributedDataParallel); none (one rank); auto:
    none for one rank, else horovod where it is built, else torch. The run records which it was."""
    ranks: int | None = None
    """Data-parallel processes of a worker. None: one for each accelerator; without accelerators 2 where there are 2 cores."""
    threads: int | None = None
    """Threads of one rank's arithmetic. None: the cores this process may use, divided by the ranks."""
    nice: int = 0
    """Added to the niceness of the ranks, 0..19."""
    precision: str = "auto"
    """What convolutions and matrix products compute in: fp32, tf32, bf16, fp16. Weights, gradients' sums and the optimiser
    stay FP32. auto: a processor bf16 where it has it, else fp32; an accelerator the fastest of its 16-bit types (or fp32 where
    it has none), measured when the first worker on its kind starts and the same for all others on it."""
    channels_last: bool = True
    """Images and convolution weights with the channel as the fastest axis."""
    compile: str = "auto"
    """torch.compile. on; off; auto: measures before a trial, where enough work lies ahead, whether it pays."""
    cuda_graphs: str = "off"
    """All kernels of a pass launched by one call, with `compile` or without. on; off; auto: measured as `compile` is. Off until
    it has been run on a GPU."""
    fused: str = "off"
    """Kernels of our own (Triton) for batch normalisation in training: off; norm: normalise, add and ReLU in one; conv: norm,
    and 1×1 convolutions that make their normalisation's statistics; auto: measured as `compile` is. Off until it has been run
    on a GPU."""
    learning_rate: float = 0.1
    """At the beginning of a trial; falls linearly."""
    decay_epochs: int | None = 60
    """Epochs after which the learning rate would reach zero; shorter rounds keep the slope. None: the epochs of the schedule's
    last round, as a run's configuration then says (schedule=quick)."""
    momentum: float = 0.9
    weight_decay: float = 5e-5
    label_smoothing: float = 0.1
    scale_learning_rate: bool = False
    """Multiply the learning rate by global batch / reference batch (Goyal et al., arXiv:1706.02677)."""
    reference_batch: int = 256
    """The global batch for which `learning_rate` is meant, where it is scaled."""
    warmup_epochs: int = 5
    """Of each trial, in which a learning rate that is scaled up rises from `learning_rate` to its scale; 0: none."""
    fp16_compression: bool = False
    """Gradients travel between ranks as 16-bit floats. (Horovod takes no bfloat16 tensors.)"""
    hang_seconds: float = 60.0
    """A rank that shows no sign of life for so long is taken for hung, and its group is restarted. A step that legitimately
    takes long extends it: at least 10 × the longest step so far is waited."""
    start_seconds: float = 300.0
    """Starting, opening the data set, building, compiling and waiting for storage take as long as they take; a rank in which
    nothing at all goes on for so long meanwhile (no thread runs, no disk is waited for, nothing is read) is taken for hung."""
    memory_limit_bytes: int | None = None
    """Training memory a rank may use. None: the accelerator's; without accelerators the host's free memory divided by the
    ranks. A batch whose modelled need lies above it is treated as out of memory."""
    ceiling_share: float = 0.9
    """Share of the memory that the largest batch may fill."""
    keep_checkpoints_seconds: float = 30.0
    """A checkpoint outlives its successor by so long: a driver that was killed may not have heard of the successor."""

    def __post_init__(self) -> None:
        _one_of("collective", self.collective, ("auto", *COLLECTIVES, "none"))
        _one_of("precision", self.precision, get_args(PrecisionChoice))
        _one_of("compile", self.compile, get_args(LaunchChoice))
        _one_of("cuda_graphs", self.cuda_graphs, get_args(LaunchChoice))
        _one_of("fused", self.fused, get_args(FusedChoice))
        if self.fused != "off" and not self.channels_last:
            raise BadConfiguration(
                f"trainer.fused={self.fused!r} is written for channels_last; found trainer.channels_last=False: take fused=off"
            )
        for option in ("ranks", "threads", "memory_limit_bytes", "decay_epochs", "reference_batch"):
            value = getattr(self, option)
            _must(value is None or value >= 1, option, "is at least 1", value)
        for option in ("hang_seconds", "start_seconds", "learning_rate"):
            _must(getattr(self, option) > 0, option, "is above 0", getattr(self, option))
        for option in ("hang_seconds", "start_seconds"):
            value = getattr(self, option)
            _must(value <= PEER_SECONDS / 10, option, f"is at most {PEER_SECONDS / 10:.0f}", value)
        for option in ("weight_decay", "keep_checkpoints_seconds"):
            _must(getattr(self, option) >= 0, option, "is at least 0", getattr(self, option))
        _must(self.warmup_epochs >= 0, "warmup_epochs", "is at least 0", self.warmup_epochs)
        for option in ("momentum", "label_smoothing"):
            _must(0 <= getattr(self, option) < 1, option, "is at least 0 and below 1", getattr(self, option))
        _must(0 < self.ceiling_share <= 1, "ceiling_share", "is above 0 and at most 1", self.ceiling_share)
        _must(0 <= self.nice <= 19, "nice", "is 0 to 19", self.nice)
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


def _one_of(option: str, value: str, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise BadConfiguration(f"trainer.{option} is one of {', '.join(map(repr, legal))}; found {value!r}")


def _must(holds: bool, option: str, law: str, value: object) -> None:
    if not holds:
        raise BadConfiguration(f"trainer.{option} {law}; found {value!r}")
