"""Events of a run: the typed lines of journal.jsonl.

State, score, report, resume and verification are folds over these events. An event therefore holds facts, never conclusions.
Times are seconds since the start of the run, on the driver's clock. This clock continues while a killed run is down.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec

SCHEMA = 1
"""Version of the journal's lines. A reader refuses every other version."""


Cause = Literal["", "machine", "divergence", "memory", "network"]
"""Origin of a failure. 'divergence': a loss that is not finite. 'memory': no batch fits. Both are caused by the
hyperparameters, and tuning learns from them. 'network': the network could not be built or launched. 'machine': any other
loss or crash."""
Metric = Literal["top1", "map50", "next_token"]
"""Metric of a trial's quality. 'top1': share of the images that are classified correctly. 'map50': mean average precision at
an intersection over union of 0.5."""
LossCause = Literal["reported", "silence", "released"]
"""`WorkerLost.cause`."""
RejectedBy = Literal["searcher", "check", "generator", "silence"]
"""`TrialRejected.by`."""
DropCause = Literal["not best", "not written", "gone"]
"""`CheckpointDropped.cause`."""
TunedBy = Literal["", "default", "startup", "tpe"]
"""Origin of batch size and kernel size. 'default': not tuned. 'startup': drawn at random before TPE has enough observations.
'tpe': drawn by TPE's model."""
COUNTS = (
    "forward_flops",
    "backward_flops",
    "validation_flops",
    "tensor_forward_flops",
    "tensor_backward_flops",
    "parameters",
    "region_flops",
)
"""Fields of a proposal that are counted on its network."""


LARGEST = 2**31
"""Upper bound of every number of workers, trials, attempts, epochs and images in a batch."""
LARGEST_COUNT = 2**53
"""Upper bound of every count of images, bytes and operations of one image. Exact in floating point."""
LARGEST_SECONDS = 1e12

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
Index = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Number = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=LARGEST_SECONDS)]
Offset = Annotated[float, msgspec.Meta(ge=-LARGEST_SECONDS, le=LARGEST_SECONDS)]
"""Difference of two clocks in seconds."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
RANGED = {"Count": "int", "Index": "int", "Number": "int", "Seconds": "float", "Offset": "float", "Share": "float"}
"""Types with a range, by name. The decoder checks a range while reading, and `legality.check_ranges` before writing."""


NOT_RECEIVED = -1.0
"""Time of an event that an executor sends and that the driver has not received. A journal with it is refused."""


class Event(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True, forbid_unknown_fields=True, gc=False
):
    """Base class of all events."""

    at: float = NOT_RECEIVED
    """Seconds since the start of the run, on the driver's clock."""


class WorkerShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Resources of a worker in the plan of a run. Ranks, batch bounds and the memory budget follow from them."""

    source: str
    """Machines that the shape describes, and the source of the description."""
    device: str
    """Model of the accelerator, or of the processor if there is no accelerator. Several models if nodes differ."""
    accelerators: int
    """Number of accelerators. 0: the worker trains on processors."""
    ranks: int
    """Data-parallel processes. The maximum if nodes differ."""
    cores: int
    """Cores of the host available to the worker. The minimum if nodes differ."""
    memory_bytes: int
    """Memory of one rank: that of the smallest accelerator, or the rank's share of usable host memory. The minimum if nodes
    differ."""


class FollowedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """List of trials that a run trains in their order, instead of searching (docs/using.md)."""

    run: str
    """Name of the list in the package, or of the run whose trials it lists."""
    path: str
    """The same name, or the folder of that run, as given by the user."""
    trials: int
    """Number of trials in the list."""
    left_out: dict[str, int]
    """Number of proposals of that run that are not in the list, by reason: 'failed', 'never started', 'rejected', 'without an
    epoch'."""
    sequence: str = ""
    """SHA-256 of the list. '' in earlier journals, whose trials inherited weights and had the ranks of the followed run."""
    lines: int = 0
    """Number of lines that were read from the journal of that run. 0 for a list in the package."""
    last_hash: str = ""
    """Earlier journals: hash of the last of these lines."""
    ranks: int = 0
    """Earlier journals: ranks of its workers."""

    @property
    def identity(self) -> str:
        """Beginning of the hash that names the list."""
        return (self.sequence or self.last_hash)[:12]


class FollowedValues(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Values that a trial takes from a trial of the list, in addition to architecture and batch size."""

    trial: int
    """Place of the trial in the list, from 0. In earlier journals its number in the followed run."""
    epochs: int
    """Exact number of epochs to train."""
    seed: int
    """Seed of its weights, image order and augmentation."""
    was_cut_off: bool = False
    """Earlier journals: True if the followed trial was still being trained when its run ended."""
    heirs: int = 0
    """Earlier journals: number of trials that will inherit its weights."""


class RunStarted(Event, frozen=True, kw_only=True):
    """First line: all decisions made before the start of the run."""

    schema: int
    run: str
    """Name of the run and of its folder."""
    started_unix: float
    """Host's wall clock at the start of the run, in seconds since 1970 (UTC)."""
    seed: int
    config: dict[str, Any]
    """Complete composed configuration."""
    config_hash: str
    """SHA-256 of the configuration in canonical JSON: sorted keys, no spaces, shortest form of numbers."""
    start_graph: dict[str, Any]
    """Starting graph in the format of docs/graph-format.md. A detector has `kind` 'detector', its name in `network`, and the
    sizes of its images."""
    dataset: dict[str, Any]
    """Description of the data set: name, training_images, validation_images, classes, image, channels, is_full_imagenet,
    noise and fingerprint. `noise`: standard deviation of the noise added to real images, as a share of a pixel's range
    (missing: 0). `fingerprint`: SHA-256 of the paths, labels and sizes of its files, or of the options that generate it.
    It is null if no files were read. Each worker's data set must have the same fingerprint. `contents`: SHA-256 of the
    contents (missing: not shown). `archives`: MD5 and SHA-256 by name of the archives with the published sums from which the
    set was made (missing: not shown). Sets with boxes also have targets ('boxes') and width, weather images in files have
    validation_years, and samples that are no images have their noun (sample, samples). Sets of token sequences have targets
    ('tokens'), their length as `image`, their vocabulary as `classes`, and the `source` of a library's text (missing: the
    user named the files)."""
    duration_seconds: float
    """Declared length of the run."""
    warmup_seconds: float
    """Start of the valid window."""
    versions: dict[str, str]
    machine: dict[str, Any]
    """System description of the driver's host."""
    simulated: bool = False
    """True for a run with a virtual clock and invented learning curves. Such a run is never ranked."""
    boot_id: str | None = None
    """Identifier of the boot of the driver's host. None if its kernel provides none."""
    boot_seconds: float | None = None
    """Seconds from the boot of the host to the start of the run, suspended time included. A resume on the same boot computes
    the elapsed time from it."""
    proposal_rules: int
    """Version of the rules that derive proposals from the history (docs/searchers.md)."""
    shape: WorkerShape | None = None
    """Worker shape that the plan was made for, as declared or as measured on the nodes at the start."""
    metric: Metric = "top1"
    """Metric of the trials' quality."""
    follows: FollowedRun | None = None
    """List of trials to train instead of searching. None if the run searches."""
    nonce: str | None = None
    """Signature of another principal over the id of the run's announcement, from which the seed follows (docs/ranking.md). None
    for a run that was not announced, and for announcements without a nonce."""


class RunResumed(Event, frozen=True, kw_only=True):
    """Start of another driver that continues the run. Attempts of the former driver are lost."""

    down_seconds: Seconds
    """Wall time between the last line and this one. It counts in the score's denominator."""
    clock_stepped_back_seconds: Seconds
    """Seconds by which the wall clock was behind the last line. Default: 0."""
    versions: dict[str, str]
    machine: dict[str, Any]
    schema: int
    """Schema version of the lines from this one on."""
    boot_id: str | None = None
    """Identifier of the boot of the driver's host. None if its kernel provides none."""
    boot_seconds: float | None = None
    """Seconds since the boot of the host, suspended time included. Changes of the wall clock do not affect it."""
    clock_stepped_forward_seconds: Seconds = 0.0
    """Seconds by which the wall clock was ahead of the time since boot. 0 if the boot differs or is unknown."""
    rolled_back_lines: Count = 0
    """Whole lines that were removed from the journal's end, as requested by resume_until."""
    cut_sha256: str | None = None
    """SHA-256 of all removed bytes, including a torn last line. They are kept in a file next to the journal. None if nothing
    was removed."""


class WorkerJoined(Event, frozen=True, kw_only=True):
    """A placement of accelerators is ready to train."""

    worker: Index
    host: str
    ranks: Number
    """Data-parallel processes, one per accelerator."""
    device: str
    """Model of the accelerator, or of the processor if there is no accelerator."""
    device_memory_bytes: Count
    """Memory of one accelerator. Without accelerators: host memory divided by the number of ranks."""
    collective: str
    """Library that exchanges gradients, with its version: 'horovod 0.28.1 (gloo)', 'torch 2.13.0 (gloo)', 'none'."""
    machine: dict[str, Any]
    """System description of `host`."""
    hosts: tuple[str, ...] = ()
    """All hosts of a worker that spans several hosts. The first is `host`, the leading one."""


class WorkerLost(Event, frozen=True, kw_only=True):
    """Loss of a worker, together with its current trial."""

    worker: int
    cause: LossCause = "reported"
    """'reported': by the executor. 'silence': by the driver's rules after limits.silence_seconds without a message.
    'released': its node is drained or excluded, which does not count as a loss of its trial."""
    reason: str


class WorkerNotStarted(Event, frozen=True, kw_only=True):
    """Failed start of a worker. The driver may try the place again."""

    host: str
    """Address of the host."""
    failures: Index
    """Consecutive failed starts at this place, this one included. 0: no start was tried, because the place holds no worker of
    the run."""
    reason: str


class NodeChecked(Event, frozen=True, kw_only=True):
    """Result of a node's preflight (docs/preflight.md).

    It follows the first line of a driver. For a node that joins later it precedes the line of its worker.
    """

    address: str
    """Address of the node in the cluster."""
    host: str
    readings: dict[str, Any]
    """Raw measurements, by probe."""
    faults: list[str]
    """Faults of the node. Each begins with the name of the probe."""
    notes: list[str]
    """Checks that were not made, with reasons."""
    excluded: bool
    """True if no worker is placed on the node until the end of the driver."""
    clock_offset_seconds: Offset | None = None
    """Offset of the node's wall clock from that of the driver's host. Positive if the node is ahead. None if not measured."""
    clock_error_seconds: Offset | None = None
    """Maximum error of the offset."""
    kind: str | None = None
    """Hardware of the node. Speeds of nodes of one kind are compared. None in journals of earlier versions."""
    is_head: bool = False
    """True for the node of the cluster's head. Versions and data set of the other nodes are compared with its own."""
    boot_id: str | None = None
    """Identifier of the boot of the node's kernel. Nodes with one identifier are on one host. None if unknown."""


class ScorePredicted(Event, frozen=True, kw_only=True):
    """Score that was predicted before the run (docs/prediction.md).

    It follows the first line and the checks of the nodes. No proposal is requested before it, and a run has at most one.
    """

    prediction: dict[str, Any]
    """Content of the prediction's file: score in FLOPS, its interval, shares of the time breakdown, and the input that
    reproduces them."""


class HelperLost(Event, frozen=True, kw_only=True):
    """Death and replacement of a helper process of a worker. The worker and its trial continue."""

    worker: int
    helper: str
    """'recorder' (samples of telemetry are missing) or 'generator' (its unfinished proposals are lost)."""
    reason: str


class CeilingMeasured(Event, frozen=True, kw_only=True):
    """Largest batch that an accelerator of this worker can hold."""

    worker: int
    family: str
    """Architecture family that was measured: the fingerprint of the starting graph."""
    batch_size: Number
    """Images per accelerator."""


class ProposalRequested(Event, frozen=True, kw_only=True):
    """Request for a proposal for a worker. Its history ends with the line before this one."""

    number: int
    """Number of the proposal and of its trial."""
    worker: int
    round: Number
    """Round of the worker that the proposal is made for, from 1: the round after the current one. A spare may be trained in a
    later round (TrialStarted.round)."""
    seed: int
    position: int
    """Number of journal lines in the searcher's history: all lines before this one."""
    starting_network: bool = False
    """True if the starting network itself is requested. There is one such request at a time, until a trial of it has
    finished."""
    spare: bool = False
    """True if the proposal is requested in advance, for a trial that ends without warning. False if it is for the worker's
    next trial."""
    follows: int | None = None
    """Place of the requested trial in the list. The driver answers this request itself. None if a searcher answers."""


class TrialProposed(Event, frozen=True, kw_only=True):
    """Architecture with hyperparameters, rebuilt from its lineage and checked."""

    number: int
    position: int
    """Number of journal lines in the searcher's history. With the number and the seed it determines the proposal."""
    seed: int
    searcher: str
    parent: int | None
    """Trial whose trained weights are inherited, or with `trainer.inherit=false` its graph alone. None for the starting
    graph with fresh weights."""
    morphs: list[dict[str, Any]]
    """Morphs from the parent's graph to this graph."""
    batch_size: Number
    """Images per accelerator and step."""
    kernel_size: Number | None
    """Tuned kernel size. None if it was not tuned."""
    own_kernel: Number | None = None
    """Kernel size of the network, tuned or not, as reported to tuning. None if no convolution is tunable."""
    tuned_by: TunedBy = ""
    """Origin of batch size and kernel size."""
    can_grow: bool = True
    """True if a morph of its network is legal within the budget. Otherwise the trial is never a parent."""
    pruned: list[dict[str, Any]]
    """Points that tuning tried and that exceeded the budget: batch_size, kernel_size, reason."""
    fingerprint: str
    forward_flops: Count
    """Operations of one image in training, forward."""
    backward_flops: Count
    validation_flops: Count
    """Operations of one image in validation."""
    tensor_forward_flops: Count
    """Operations of convolutions and matrix products alone. Utilization is computed from them."""
    tensor_backward_flops: Count
    region_flops: Count = 0
    """Operations of one region that a detector evaluates in validation. 0 for other networks."""
    parameters: Count
    seconds: Seconds
    """Processor time that the proposal took."""
    follows: FollowedValues | None = None
    """Values taken from a trial of the list. `searcher` is then 'follow'. None if a searcher made the proposal."""


class TrialRejected(Event, frozen=True, kw_only=True):
    """Failed request for a proposal."""

    number: int
    by: RejectedBy
    """'searcher': it had nothing to propose. 'check': the driver's check refused the proposal. 'generator': its process died.
    'silence': no answer arrived within limits.silence_seconds."""
    reason: str


class TrialStarted(Event, frozen=True, kw_only=True):
    """Order to a worker to train a trial."""

    trial: int
    attempt: int
    """From 1. A trial lost with its worker is retried under the next number."""
    worker: int
    epoch: int
    """First epoch to train, from 1."""
    batch_size: int
    round: Number
    """Round of the worker: the number of trials that it has started, this one included. All attempts at a trial have the
    round of the first attempt."""


class TrialPrepared(Event, frozen=True, kw_only=True):
    """The worker has built the module, loaded its weights and is about to train."""

    trial: int
    attempt: int
    precision: str
    ranks: Number
    compiled: bool
    build_seconds: Seconds
    weights_seconds: Seconds
    compile_seconds: Seconds
    cuda_graphs: bool = False
    """True if all kernels of a pass were launched by one call."""
    regions: bool = False
    """True if normalisation, addition and ReLU were compiled as one function, and convolutions were not."""


class GradientCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Numbers of one kind of layer that 16-bit types would lose, summed over steps.

    Gradients are means over all ranks, without loss scaling.
    """

    gradients: int
    """Elements of gradients that are finite and not 0 in FP32."""
    fp16_zero: int
    """Gradient elements that are 0 in FP16."""
    fp16_subnormal: int
    """Gradient elements that are subnormal in FP16, with fewer digits."""
    fp16_infinite: int
    """Gradient elements that are infinite in FP16."""
    bf16_zero: int
    """Gradient elements that are 0 in BF16."""
    bf16_subnormal: int
    """Gradient elements that are subnormal in BF16, with fewer digits."""
    bf16_infinite: int
    """Gradient elements that are infinite in BF16."""
    updates: int
    """Updates that are not 0, of weights that are not 0."""
    lost_updates: int
    """Updates below half a last place of the weight in BF16."""


class StepsProfiled(Event, frozen=True, kw_only=True):
    """Time breakdown of training steps that rank 0 traced in a trial's first epoch (`trainer.profile_steps`).

    All numbers are sums over these steps.
    """

    trial: int
    attempt: int
    first_step: Number
    """Number of the first traced step in the epoch, from 1."""
    steps: Number
    """Traced steps. As many steps after them are examined for `numbers`."""
    seconds: Seconds
    """Time of the traced steps, including waits for input."""
    reference_steps: Count
    """Steps immediately before the traced ones that were timed for comparison. 0: there were none."""
    reference_seconds: Seconds
    """Time of these steps."""
    profiler_seconds: Seconds
    """Time to start and stop the trace and to read it. Nothing was trained meanwhile."""
    device: str
    """'cuda': `kernels` are those of the accelerator. 'cpu': operators on the processor."""
    kernels: dict[str, Seconds]
    """Seconds of kernels by class (docs/hpc-ai500.md). 'other': kernels without a known name."""
    ranks: Number
    exchange_source: str
    """'Horovod timeline', 'DDP logging data', or empty if nothing is exchanged or no record of the exchange exists."""
    exchange: dict[str, Seconds]
    """Seconds of the gradient exchange by phase. Horovod: the union of all tensors' intervals. A missing phase was not
    measured."""
    exchange_bytes: Count
    """Bytes of a rank's gradients in one step, as sent. 0 for one rank."""
    numbers: dict[str, GradientCounts]
    """By kind of layer."""


class Interval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Work between two messages of an attempt, in one epoch. The intervals of an attempt tile its time without overlap."""

    worker: int
    start: float
    end: float
    training_images: int
    """Over all ranks, without padding."""
    validation_images: int
    busy_seconds: float
    """Time of one rank in training and validation steps, including gradient exchange and excluding waits for input."""
    communication_seconds: float
    """Part of the busy seconds: gradient exchange that did not overlap with the backward pass."""
    validation_seconds: float
    """Part of the busy seconds: validation steps."""
    input_seconds: float
    """Time spent waiting for images."""
    checkpoint_seconds: float
    """Time during which training was stopped by a checkpoint."""


class Progress(Event, frozen=True, kw_only=True):
    """Interval of work within an epoch. `Interval` documents the fields."""

    # Fields are written out, because a Struct can have only one base with fields and existing journals use this order.
    worker: int
    trial: int
    attempt: int
    epoch: int
    start: float
    end: float
    training_images: int
    validation_images: int
    busy_seconds: float
    communication_seconds: float
    validation_seconds: float
    input_seconds: float
    checkpoint_seconds: float

    @property
    def interval(self) -> Progress:
        """The event itself. EpochFinished has an interval of work under this name, and Progress is one."""
        return self


Work = Progress | Interval
"""Interval of work, stored in its own event or within another."""
CLOCKS = {
    "busy_seconds": "",
    "communication_seconds": "busy_seconds",
    "validation_seconds": "busy_seconds",
    "input_seconds": "",
    "checkpoint_seconds": "",
}
"""Fields of an interval that are parts of its length (''), or of another field. Parts of one whole do not overlap. Limits,
columns, time breakdown and checks follow from this table. A worker sends sums of equal names (`messages.Sums`)."""
clocks: Callable[[Any], tuple[float, ...]] = attrgetter(*CLOCKS)
"""Return the values of `CLOCKS` of an interval, or of the sums in a message."""
CLOCKS_OF_LENGTH, CLOCKS_OF_BUSY = (
    tuple(name for name, whole in CLOCKS.items() if whole == of) for of in ("", "busy_seconds")
)


class Halves(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Correctly classified samples in the two fixed halves of the validation set.

    A sample belongs to the half `even` or `odd` by its index in the validation set, from 0, whatever batch and ranks are.
    Corrupt samples are in neither.
    """

    even_correct: Count
    """Correct samples of the half with index 0, 2, 4, …"""
    even_samples: Number
    """Evaluated samples of this half."""
    odd_correct: Count
    """Correct samples of the half with index 1, 3, 5, …"""
    odd_samples: Number
    """Evaluated samples of this half."""

    @property
    def accuracies(self) -> tuple[float, float]:
        """Accuracy on the half `even`, and on the half `odd`."""
        return self.even_correct / self.even_samples, self.odd_correct / self.odd_samples


class EpochFinished(Event, frozen=True, kw_only=True):
    """Pass over the training set and the validation set."""

    trial: int
    attempt: int
    epoch: int
    accuracy: Share
    """Quality on the validation images in the run's metric, 0..1."""
    validation_loss: float | None
    """Cross-entropy without label smoothing, of a language model per token and in nats. None for a detector, whose losses need
    the sampling of training."""
    training_loss: float
    regions: Count = 0
    """Regions that a detector evaluated on the validation images. Their operations belong to `interval`."""
    missing_regions: Count = 0
    """Regions of training that a detector counts but could not sample."""
    learning_rate: float
    checkpoint: bool
    """True if the attempt can be resumed after this epoch. A real run reports this by CheckpointWritten and has False here,
    except in journals of earlier releases."""
    interval: Interval | None = None
    """Work of the epoch since its last Progress line. None if there was none."""
    halves: Halves | None = None
    """Parts of the accuracy, by which one half of the samples chooses a network and the other half shows its error. None for
    another metric, for a single validation sample, and in journals of earlier releases."""


class BatchReduced(Event, frozen=True, kw_only=True):
    """Out of memory. The trial continues with a smaller batch, and tuning learns a pruned point."""

    trial: int
    attempt: int
    from_batch_size: int
    to_batch_size: Number


class TrialFinished(Event, frozen=True, kw_only=True):
    """End of a trial: after the epochs of its round, or when it no longer improves."""

    trial: int
    attempt: int
    reason: str
    """'epochs', 'early stop' or 'followed' (it had as many epochs as the trial in the list)."""
    accuracy: Share
    """Best measured validation accuracy."""
    reported_accuracy: Share
    """Accuracy reported to the search: a curve fitted to the first epochs, as many as round 1 has, at the last of them."""


class TrialLost(Event, frozen=True, kw_only=True):
    """Premature end of an attempt."""

    trial: int
    attempt: int
    reason: str
    """Includes the rank and the host if they are known."""


class TrialFailed(Event, frozen=True, kw_only=True):
    """Final failure of a trial. The search is informed."""

    trial: int
    reason: str
    cause: Cause = ""
    """Origin of the failure."""


class CheckpointDropped(Event, frozen=True, kw_only=True):
    """The weights of a trial can no longer be inherited."""

    trial: int
    cause: DropCause
    """'not best': no other trial can inherit from this trial by the driver's rules. 'not written': the trial ended before a
    checkpoint was written. 'gone': a worker found it missing or damaged."""
    reason: str


class CheckpointWritten(Event, frozen=True, kw_only=True):
    """Completion of a checkpoint. An epoch without this line, after a newer one was saved first, has no file."""

    trial: int
    attempt: int
    epoch: Number
    """Epoch after which the attempt can be resumed."""
    sha256: str | None = None
    """SHA-256 of the file. It seals the weights of the epoch. None in simulated runs and journals of earlier releases."""


class CheckpointNotWritten(Event, frozen=True, kw_only=True):
    """Failed write of a checkpoint.

    The trial continues, and the next epoch's checkpoint is tried again. A checkpoint skipped because epochs are shorter
    than writing has no such line.
    """

    trial: int
    attempt: int
    epoch: Number
    """Epoch whose checkpoint is missing."""
    reason: str


class TrialHeartbeat(Event, frozen=True, kw_only=True):
    """Sign of life of a trial without other reports. It distinguishes a slow worker from a silent one."""

    trial: int
    attempt: int
    doing: str
    """Slowest rank and its activity, including waits for storage."""


class ImagesSkipped(Event, frozen=True, kw_only=True):
    """Corrupt images found for the first time since the start or the last resume. They are skipped and never counted."""

    worker: int
    """Worker that found them first."""
    images: int
    """Total of the run so far, these included."""
    files: dict[str, str]
    """Their names, each with the error of its decoder. At most 100 per line."""


class RunEnded(Event, frozen=True, kw_only=True):
    """End of the run."""

    reason: str
    """'duration', 'interrupted', 'no workers', 'trials', 'no proposals', 'corrupt images' (more than dataset.corrupt_limit)
    or 'followed' (no trial of the list is left)."""


AnyEvent = (
    RunStarted
    | RunResumed
    | WorkerJoined
    | WorkerLost
    | WorkerNotStarted
    | NodeChecked
    | ScorePredicted
    | HelperLost
    | CeilingMeasured
    | ProposalRequested
    | TrialProposed
    | TrialRejected
    | TrialStarted
    | TrialPrepared
    | StepsProfiled
    | Progress
    | EpochFinished
    | BatchReduced
    | TrialFinished
    | TrialLost
    | TrialFailed
    | CheckpointDropped
    | CheckpointWritten
    | CheckpointNotWritten
    | ImagesSkipped
    | TrialHeartbeat
    | RunEnded
)
