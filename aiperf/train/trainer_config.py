"""Options of training, and the rules that follow from them, also for the batch sizes of a rank. No torch here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from aiperf.errors import BadConfiguration, conflict
from aiperf.option_limits import LONGEST_SECONDS, MOST_MEMORY, hold
from searchers.batch_sizes import LEAST

if TYPE_CHECKING:
    from morphism import Architecture

PrecisionChoice = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
LaunchChoice = Literal["auto", "on", "off"]
CompileChoice = Literal["auto", "on", "off", "regions"]
RateDecay = Literal["linear", "cosine"]
LossScaling = Literal["auto", "off"]

COLLECTIVES = {
    "horovod": "aiperf.train.collectives.horovod_collective",
    "torch": "aiperf.train.collectives.torch_collective",
}
"""Modules of collectives by name (`collective.CollectiveModule`), imported when needed. `auto` uses the first available."""

ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Bytes of one activation value in each precision."""

OPTIMISERS: dict[str, dict[str, float]] = {
    "sgd": {"learning_rate": 0.1, "weight_decay": 5e-5, "warmup_epochs": 5, "gradient_clipping": 0.0},
    "adamw": {"learning_rate": 3e-3, "weight_decay": 0.1, "warmup_epochs": 1, "gradient_clipping": 1.0},
}
"""Optimisers, each with its own defaults of options."""
LEARNING_RATES = {"llama_162m": 6e-4}
"""Default learning rates of AdamW by starting network, where it is another one."""
_LEAST_SHARE = 0.1

COLLECTIVES_IN_WORDS = " or ".join(f"trainer.collective={name}" for name in COLLECTIVES)

PEER_SECONDS = 7 * 86400.0
"""Time that Horovod, Gloo or NCCL may wait for a rank. Far above the group's limits: only it can find the rank that hangs."""


@dataclass
class TrainerConf:
    """Options of a worker's training."""

    collective: str = field(default="auto", metadata={"among": lambda: ("auto", *COLLECTIVES, "none")})
    """Library that exchanges gradients between the ranks of a worker: horovod, torch (DistributedDataParallel), none
    (one rank) or auto. Default: auto, which is none for one rank, else horovod if it is built, else torch. The run
    records the choice.
    """
    ranks: int | None = field(default=None, metadata={"least": 1, "most": 65536})
    """Data-parallel processes of a worker. Default: one per accelerator, and without accelerators 2 on 2 or more cores."""
    threads: int | None = field(default=None, metadata={"least": 1, "most": 65536})
    """Compute threads of one rank. Default: the cores that this process may use, divided by the ranks."""
    nice: int = field(default=0, metadata={"least": 0, "most": 19})
    """Added to the niceness of the ranks, 0..19."""
    precision: str = field(default="auto", metadata={"among": get_args(PrecisionChoice)})
    """Precision of convolutions and matrix products: fp32, tf32, bf16, fp16 or auto.

    Weights, gradient sums and the optimiser stay FP32. Default: auto, which is bf16 if the device has native bf16, else
    fp16 on an accelerator with FP16 tensor cores (V100, T4), else fp32.
    """
    loss_scaling: str = field(default="auto", metadata={"among": get_args(LossScaling)})
    """Multiply the loss so that small gradients stay above the smallest number of FP16, and divide the gradients again: auto
    or off. Default: auto, which scales in fp16 only.
    """
    channels_last: bool = True
    """Store images and convolution weights with the channel as the fastest axis."""
    compile: str = field(default="auto", metadata={"among": get_args(CompileChoice)})
    """Use torch.compile: on, off, regions or auto.

    `regions` compiles normalisation with addition and ReLU, once for all networks of a run, and no convolutions. Default: auto,
    which measures before a long trial whether compiling saves time.
    """
    cuda_graphs: str = field(default="off", metadata={"among": get_args(LaunchChoice)})
    """Launch all kernels of a pass by one call, with or without `compile`: on, off or auto (measured, as for
    `compile`). Default: off, until it has been run on a GPU.
    """
    optimiser: str = field(default="auto", metadata={"among": ("auto", *OPTIMISERS)})
    """Optimiser: sgd (with momentum), adamw or auto. Default: auto, which is adamw for tokens, else sgd."""
    learning_rate: float | None = field(default=None, metadata={"least": 1e-12, "most": 1000})
    """Learning rate at the beginning of a trial. Default: 0.1 for sgd; for adamw 3e-3, and 6e-4 for start=llama_162m.

    It falls by `rate`. Below the limits no FP32 weight changes, and above them the first step overwrites all weights.
    The largest published rates, of LARS, are below 100.
    """
    rate: str = field(default="linear", metadata={"among": get_args(RateDecay)})
    """Fall of the learning rate from epoch to epoch: linear, or cosine (half a cosine after the warm-up)."""
    decay_epochs: int | None = field(default=60, metadata={"least": 1, "most": 1_000_000_000})
    """Epochs after which the learning rate would reach zero.

    Shorter rounds keep the slope. None: the epochs of the schedule's last round (schedule=quick).
    """
    momentum: float = field(default=0.9, metadata={"least": 0, "most": 0.9999})
    """Momentum of SGD, and the first beta of AdamW."""
    second_momentum: float = field(default=0.95, metadata={"least": 0, "most": 0.9999999})
    """Second beta of AdamW."""
    weight_decay: float | None = field(default=None, metadata={"least": 0, "most": 1})
    """Weight decay. Limited to 1, at which weights shrink by the learning rate in each step.

    AdamW does not apply it to gains and embeddings. Default: 5e-5 for sgd, 0.1 for adamw.
    """
    gradient_clipping: float | None = field(default=None, metadata={"least": 0, "most": 1e9})
    """Largest norm of all gradients together, after the exchange. Larger gradients are scaled down to it. 0: never.

    Default: 0 for sgd, 1.0 for adamw.
    """
    label_smoothing: float | None = field(default=None, metadata={"least": 0, "below": 1})
    """Share of a training target that is spread over all classes. Default: 0.1 for images, 0 for tokens."""
    inherit: bool = True
    """Children begin with the trained weights of their parents. False: with fresh weights, for a study of what that gains."""
    scale_learning_rate: bool = False
    """Multiply the learning rate by global batch / reference batch (Goyal et al., arXiv:1706.02677)."""
    reference_batch: int = field(default=256, metadata={"least": 1, "most": 2**31, "unit": "images"})
    """Global batch for which `learning_rate` is meant if it is scaled."""
    warmup_epochs: int | None = field(default=None, metadata={"least": 0, "most": 1_000_000_000})
    """Epochs at the start of each trial in which the learning rate rises step by step. 0 for no warm-up.

    A scaled rate rises from `learning_rate` to its full value, that of AdamW from a tenth. Default: 5 for sgd, 1 for adamw.
    """
    fp16_compression: bool = False
    """Send gradients between ranks as 16-bit floats. (Horovod does not support bfloat16 tensors.)"""
    profile_steps: int = field(default=0, metadata={"least": 0, "most": 1000})
    """Steps of each trial's first epoch that rank 0 traces after step 20 (docs/hpc-ai500.md).

    As many steps after them are examined for numbers that 16-bit types lose. In a short epoch at most a third of the steps is
    traced, after the first third. Default: 0, no trace.
    """
    hang_seconds: float = field(default=60.0, metadata={"above": 0, "most": PEER_SECONDS / 10})
    """A rank without a heartbeat for this many seconds is considered hung, and its group is restarted.

    Long steps extend the limit to 10 × the longest step so far.
    """
    start_seconds: float = field(default=300.0, metadata={"above": 0, "most": PEER_SECONDS / 10})
    """Longest time without any activity of a rank (no running thread, no disk access) while it starts, opens the data
    set, builds, compiles or waits for storage. After it the rank is considered hung. The total time of these stages
    is not limited.
    """
    memory_limit_bytes: int | None = field(default=None, metadata={"least": 1, "most": MOST_MEMORY})
    """Training memory that a rank may use.

    Default: the accelerator's, and without accelerators the host's free memory divided by the ranks. A batch whose
    modelled memory is larger is treated as out of memory.
    """
    ceiling_share: float = field(default=0.9, metadata={"above": 0, "most": 1})
    """Share of the memory that the largest batch may fill."""
    keep_checkpoints_seconds: float = field(default=30.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """A checkpoint is kept for this many seconds after its successor, because a killed driver may not know of the
    successor.
    """

    def __post_init__(self) -> None:
        hold(self, "trainer")
        if self.optimiser == "auto":
            self.optimiser = "sgd"
        for name, value in (*OPTIMISERS[self.optimiser].items(), ("label_smoothing", 0.1)):
            if getattr(self, name) is None:
                setattr(self, name, value)
        if self.collective == "none" and self.ranks is not None and self.ranks > 1:
            fix = f"Leave trainer.ranks out, or take {COLLECTIVES_IN_WORDS}"
            raise conflict("trainer.collective='none'", f"trainer.ranks={self.ranks!r}", fix)
        if self.compile == "regions" and not self.channels_last:
            raise conflict("trainer.compile='regions'", "trainer.channels_last=False", "Leave one of them out")
        if self.compile == "regions" and self.cuda_graphs == "on":
            raise conflict("trainer.compile='regions'", "trainer.cuda_graphs='on'", "Leave one of them out")
        if self.profile_steps and self.optimiser == "adamw":  # the updates that 16 bits lose are those of SGD
            fix = "Leave trainer.profile_steps out"
            raise conflict(f"trainer.profile_steps={self.profile_steps}", "trainer.optimiser='adamw'", fix)


def complete(options: dict[str, Any], start: str, *, is_tokens: bool) -> None:
    """Set, in the values by option of a command line, the defaults that depend on the data set or the starting network."""
    if options["optimiser"] == "auto":
        options["optimiser"] = "adamw" if is_tokens else "sgd"
    if options["learning_rate"] is None and options["optimiser"] == "adamw":
        options["learning_rate"] = LEARNING_RATES.get(start)
    if options["label_smoothing"] is None and is_tokens:
        options["label_smoothing"] = 0.0


def ranks_of_worker(conf: TrainerConf, accelerators: int, cores: int) -> int:
    """Number of ranks of a worker on one host.

    >>> ranks_of_worker(TrainerConf(), accelerators=8, cores=64), ranks_of_worker(TrainerConf(), accelerators=0, cores=2)
    (8, 2)
    """
    if conf.ranks is not None:
        return conf.ranks
    if conf.collective == "none":
        return 1
    return accelerators or min(2, cores)


def ranks_of_hosts(conf: TrainerConf, hosts: Sequence[tuple[int, int]]) -> list[int]:
    """Number of ranks on each host. `hosts`: (accelerators, cores) of the worker on each.

    Raise BadConfiguration if `conf.ranks` cannot be divided among them, or for trainer.collective=none with several.

    >>> ranks_of_hosts(TrainerConf(), [(8, 64), (4, 64)]), ranks_of_hosts(TrainerConf(ranks=6), [(0, 2), (0, 2)])
    ([8, 4], [3, 3])
    """
    if conf.ranks is not None and conf.ranks % len(hosts):
        raise BadConfiguration(
            f"the ranks of a worker are equally many on each of its hosts, but found trainer.ranks={conf.ranks} for "
            f"{len(hosts)} hosts: use a multiple, or leave it out"
        )
    if conf.collective == "none" and len(hosts) > 1:
        fix = f"Take {COLLECTIVES_IN_WORDS}, or lower accelerators_per_worker"
        raise conflict("trainer.collective='none'", f"a worker of {len(hosts)} hosts", fix)
    own = conf if conf.ranks is None else replace(conf, ranks=conf.ranks // len(hosts))
    ranks = [ranks_of_worker(own, accelerators, cores) for accelerators, cores in hosts]
    for count, (accelerators, _) in zip(ranks, hosts, strict=True):
        if accelerators and count > accelerators:
            raise BadConfiguration(
                f"a rank needs an accelerator of its own, but found trainer.ranks={sum(ranks)} for a worker with "
                f"{sum(has for has, _ in hosts)} accelerators: lower trainer.ranks"
            )
    return ranks


def learning_rate(conf: TrainerConf, epoch: int, global_batch: int, done: float = 0.0) -> float:
    """Return the learning rate of a training step. `done`: share of the epoch's steps before this one, 0..1.

    It falls by epoch towards zero at `decay_epochs`, in each trial: linearly, or by half a cosine that begins after the
    warm-up. Later epochs keep the last rate above zero. If it is scaled by k = global batch / reference batch > 1, the factor
    rises from 1 to k, by the same amount at each step, in the first `warmup_epochs` (Goyal et al. 2017, arXiv:1706.02677,
    section 2.2). That of AdamW rises from a tenth in the first `warmup_epochs` of each trial, for moments that begin at zero.

    >>> [round(learning_rate(TrainerConf(), epoch, 256), 4) for epoch in (1, 31, 60)]
    [0.1, 0.05, 0.0017]
    >>> [round(learning_rate(TrainerConf(rate="cosine"), epoch, 256), 4) for epoch in (1, 31, 60)]
    [0.1, 0.05, 0.0001]
    """
    assert conf.decay_epochs is not None, "a run's configuration says how many: aiperf/config.py"
    assert conf.learning_rate is not None and conf.warmup_epochs is not None, "as the optimiser's"
    warms_up = conf.scale_learning_rate or conf.optimiser == "adamw"
    past = min(epoch, conf.decay_epochs) - 1
    if conf.rate == "linear":
        left = (conf.decay_epochs - past) / conf.decay_epochs
    else:
        flat = min(conf.warmup_epochs if warms_up else 0, conf.decay_epochs - 1)
        left = (1 + math.cos(math.pi * max(0, past - flat) / (conf.decay_epochs - flat))) / 2
    whole = global_batch / conf.reference_batch if conf.scale_learning_rate else 1.0
    least = _LEAST_SHARE * whole if conf.optimiser == "adamw" else min(1.0, whole)
    epochs = epoch - 1 + done
    share = whole if epochs >= conf.warmup_epochs else least + (whole - least) * epochs / conf.warmup_epochs
    return conf.learning_rate * share * left


def least_batch(network: Architecture) -> int:
    """8 images. 1 for a detector, which is trained at its default batch."""
    from morphism import Graph  # late: the configuration is read for `--help`, too

    return LEAST if isinstance(network, Graph) else 1


def nothing_fits(network: Architecture, bytes_per_element: int, allowed: int) -> str:
    from morphism import cost_of

    least = least_batch(network)
    needed = cost_of(network).training_memory(least, bytes_per_element)
    return (
        f"a starting network must fit into an accelerator's memory at batch {least}; this one needs {needed} bytes or more by "
        f"the model, and {allowed} may be used (memory × trainer.ceiling_share). Take a smaller one (start=…), or more memory"
    )
