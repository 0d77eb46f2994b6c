"""What can happen in a run: the lines of journal.jsonl, typed.

The journal is the run. State, score, report, resume and verification are folds over these events, so an event holds facts,
never conclusions. Times are seconds since the run began, on the driver's clock, which goes on while a killed run is down.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA = 4
"""Version of the journal's lines, as they are written; docs/events.md holds its history, tools/events_history.txt its lines."""
SCHEMAS_READ = range(1, SCHEMA + 1)
"""Versions that are read: what an older one does not have is its default."""


Cause = Literal["", "machine", "divergence", "memory", "network"]
"""Whose failure it was. 'divergence' (a loss that is not finite) and 'memory' (no batch fits) are the hyperparameters' own, and
tuning learns of them; 'network': it could not be built or launched; 'machine': anything else that was lost or crashed."""
TunedBy = Literal["", "default", "startup", "tpe"]
"""How batch size and kernel size came about. 'default': not tuned; 'startup': drawn at random, since TPE knew of too little;
'tpe': by its model."""
COUNTS = (
    "forward_flops",
    "backward_flops",
    "validation_flops",
    "tensor_forward_flops",
    "tensor_backward_flops",
    "parameters",
)
"""Fields of a proposal that are counted on its network."""


class Event(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True, forbid_unknown_fields=True, gc=False
):
    """The base of all events."""

    at: float
    """Seconds since the run began, on the driver's clock."""


class WorkerShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What a worker has, as the plan of a run takes it: ranks, batch bounds and the budget's memory are made of it."""

    source: str
    """Of which machines it is, and how that is known."""
    device: str
    """Model of the accelerator, or of the processor where there is none; several, where nodes differ."""
    accelerators: int
    """0: it trains on processors."""
    ranks: int
    """Data-parallel processes; the most, where nodes differ."""
    cores: int
    """Of its host, for it; the fewest, where nodes differ."""
    memory_bytes: int
    """Of one rank: the smallest accelerator's, or its part of what its host may use; the least, where nodes differ."""


class FollowedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The earlier run whose proposals a run trains in their order, instead of searching (docs/follow.md)."""

    run: str
    """Its name."""
    path: str
    """Its folder, as it was given."""
    lines: int
    """Of its journal, as it was read."""
    last_hash: str
    """The last of these lines' hash: it stands for all of them."""
    trials: int
    """How many are to be trained."""
    left_out: dict[str, int]
    """Proposals of it that are not, counted by the reason: 'failed', 'never started', 'rejected'."""
    ranks: int
    """Of its workers."""


class Follows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What a trial has of the trial of an earlier run that it follows, besides architecture, parent, batch and kernel size."""

    trial: int
    """Its number there."""
    epochs: int
    """To be trained, exactly: as many as were there, an early stop included. Of a trial that the end of its run cut off: the
    most that its round allowed."""
    was_cut_off: bool
    """Whether it was still being trained when its run ended."""
    seed: int
    """Of its weights, the order of its images and their augmentation."""
    heirs: int
    """Trials that are to inherit its weights."""


class RunStarted(Event, frozen=True, kw_only=True):
    """The first line: everything that was decided before the run began."""

    schema: int
    run: str
    """Name of the run, that of its folder."""
    started_unix: float
    """The host's wall clock at the run's beginning, seconds since 1970 (UTC)."""
    seed: int
    config: dict[str, Any]
    """The whole configuration as it was composed."""
    config_hash: str
    """SHA-256 of the configuration in canonical JSON: names in order, no spaces, numbers by the fewest digits."""
    start_graph: dict[str, Any]
    """The starting graph in the format of docs/graph-format.md."""
    dataset: dict[str, Any]
    """Name, training_images, validation_images, classes, image, channels, is_full_imagenet, and noise: the deviation of
    what was added to real images, as a share of a pixel's range (not recorded: 0). And fingerprint: SHA-256 of the paths,
    labels and sizes of its files, or of the options that make it; each worker is held to it (null: nobody looked at files)."""
    duration_seconds: float
    """Declared length of the run."""
    warmup_seconds: float
    """Where the valid window begins."""
    versions: dict[str, str]
    machine: dict[str, Any]
    """System description of the driver's host."""
    simulated: bool = False
    """Under a virtual clock with invented learning curves: never ranked."""
    boot_id: str | None = None
    """Of the host's kernel since it booted. None: it tells none, or the journal is from before this was recorded."""
    boot_seconds: float | None = None
    """Since the host booted, suspended time included, when the run began: by it a resume on the same boot knows the time."""
    proposal_rules: int = 1
    """Version of the rules by which proposals follow from the history (docs/searchers.md). Not recorded: 1."""
    shape: WorkerShape | None = None
    """What the plan was made of: a worker as it was declared, or learnt from the nodes that stood at the start. Journals from
    before this was recorded: none."""
    follows: FollowedRun | None = None
    """The earlier run whose trials are trained instead of searching. None: it searches."""


class RunResumed(Event, frozen=True, kw_only=True):
    """A driver took the run up again; what was running is lost with the former one."""

    down_seconds: float
    """Wall time between the last line and this one; it counts in the score's denominator."""
    clock_stepped_back_seconds: float
    """By how much the wall clock lay before the last line; 0 when it did not."""
    versions: dict[str, str]
    machine: dict[str, Any]
    schema: int = 1
    """That of the lines from this one on. Journals from before this was recorded: 1."""
    boot_id: str | None = None
    """Of the host's kernel since it booted. None: it tells none, or the journal is from before this was recorded."""
    boot_seconds: float | None = None
    """Since the host booted, suspended time included: no wall clock that is set moves it."""
    clock_stepped_forward_seconds: float = 0.0
    """By how much the wall clock lay ahead of the time since the host booted; 0 where the boot is another or not known."""
    rolled_back_lines: int = 0
    """Whole lines of the journal that were cut off before this one, as resume_until asked."""
    cut_sha256: str | None = None
    """SHA-256 of all bytes that were cut off, those of a torn last line too; they are kept beside it. None: none were."""


class WorkerJoined(Event, frozen=True, kw_only=True):
    """A placement of accelerators is ready to train."""

    worker: int
    host: str
    ranks: int
    """Data-parallel processes, one an accelerator."""
    device: str
    """The accelerator's model, or the processor's where there is no accelerator."""
    device_memory_bytes: int
    """Memory of one accelerator; the host's memory divided by the ranks on a machine without."""
    collective: str
    """What exchanges gradients, with its version: 'horovod 0.28.1 (gloo)', 'torch 2.13.0 (gloo)', 'none'."""
    machine: dict[str, Any]
    """Of `host`."""
    hosts: tuple[str, ...] = ()
    """All of the worker's hosts, where it has several; `host`, which leads, is the first."""


class WorkerLost(Event, frozen=True, kw_only=True):
    """A worker is gone, with the trial it held."""

    worker: int
    reason: str
    released: bool = False
    """It was let go, since workers had better places: not held against its trial, and no loss."""


class WorkerNotStarted(Event, frozen=True, kw_only=True):
    """No worker came up at a place that could hold one; the place may be tried again."""

    host: str
    """The host's address."""
    failures: int
    """Starts in a row that failed there, this one included; 0: none was tried, since the place holds no worker of the run's."""
    reason: str


class NodeChecked(Event, frozen=True, kw_only=True):
    """A node went through preflight (docs/preflight.md). The line stands right after the one that a driver began with; that of
    a node that joined later stands before its worker's."""

    address: str
    """As the cluster reaches it."""
    host: str
    readings: dict[str, Any]
    """By probe: all that was measured, raw."""
    faults: list[str]
    """What is wrong with it, each beginning with the probe's name."""
    notes: list[str]
    """What was not judged, and why."""
    excluded: bool
    """No worker is placed on it until the driver's end."""
    clock_offset_seconds: float | None = None
    """Of its wall clock against that of the driver's host; above 0 it is ahead. None: not measured."""
    clock_error_seconds: float | None = None
    """The offset may be wrong by so much."""


class HelperLost(Event, frozen=True, kw_only=True):
    """A process beside a worker died, and another was started in its place; the worker and its trial went on."""

    worker: int
    helper: str
    """'recorder' (samples of telemetry are missing) or 'generator' (proposals under way were lost with it)."""
    reason: str


class CeilingMeasured(Event, frozen=True, kw_only=True):
    """The largest batch an accelerator of this worker could hold."""

    worker: int
    family: str
    """The architecture family that was measured: the starting graph's fingerprint."""
    batch_size: int
    """Images per accelerator."""


class ProposalRequested(Event, frozen=True, kw_only=True):
    """A proposal is wanted for a worker. It sees the history up to the line before this one."""

    number: int
    """The proposal's number, and its trial's."""
    worker: int
    round: int
    """The worker's round that the proposal is made for, from 1: that after the one it is in. A spare may be trained in a later
    one (TrialStarted.round)."""
    seed: int
    position: int
    """Lines of the journal that the searcher's history holds: all those before this one."""
    starting_network: bool = False
    """Whether the starting network itself is wanted: until a trial of it has finished, one request at a time asks for it.
    Journals from before this was recorded: number 0 does."""
    spare: bool = False
    """Whether it is asked for ahead of need, for a trial that ends without warning; else for the worker's next trial."""
    follows: int | None = None
    """The trial of the followed run that is wanted; the driver answers by itself. None: a searcher is asked."""

    @property
    def wants_start(self) -> bool:
        """Whether the starting network itself is wanted, in a journal of any schema."""
        return self.starting_network or self.number == 0


class TrialProposed(Event, frozen=True, kw_only=True):
    """An architecture with hyperparameters, rebuilt from its lineage and checked."""

    number: int
    position: int
    """Lines of the journal that the searcher's history held; with the number and the seed it re-derives the proposal."""
    seed: int
    searcher: str
    parent: int | None
    """The trial whose trained weights it inherits; None: the starting graph, freshly initialised."""
    morphs: list[dict[str, Any]]
    """From the parent's graph to this one."""
    batch_size: int
    """Images per accelerator and step."""
    kernel_size: int | None
    """Tuned kernel size, None where it was not tuned."""
    own_kernel: int | None = None
    """The kernel size that its network has, tuned or not: what tuning is told. None: no convolution of it is tunable, or the
    journal is from before this was recorded."""
    tuned_by: TunedBy = ""
    """How its batch size and kernel size came about. Journals from before this was recorded: empty."""
    can_grow: bool = True
    """Whether a morph is legal on its network within the budget: else it is nobody's parent. Journals from before this was
    recorded: yes."""
    pruned: list[dict[str, Any]]
    """Points that tuning tried and that lay over the budget: batch_size, kernel_size, reason. From rules 4 on: none."""
    fingerprint: str
    forward_flops: int
    """Operations of one image in training, forward."""
    backward_flops: int
    validation_flops: int
    """Operations of one image in validation."""
    tensor_forward_flops: int
    """Convolutions and matrix products alone, for utilisation."""
    tensor_backward_flops: int
    parameters: int
    seconds: float
    """What the proposal cost on its processor."""
    follows: Follows | None = None
    """What it has of a trial of the followed run; `searcher` is then 'follow'. None: a searcher made it."""


class TrialRejected(Event, frozen=True, kw_only=True):
    """Nothing came of a request: there was nothing to propose, no answer came, or what was proposed cannot be a trial."""

    number: int
    reason: str
    by: str = ""
    """'searcher': it found nothing to propose; 'check': the driver's, of what was proposed; 'nobody': no answer came.
    Journals from before this was recorded: empty."""


class TrialStarted(Event, frozen=True, kw_only=True):
    """A worker was told to train."""

    trial: int
    attempt: int
    """From 1; a trial lost with its worker is tried again under the next number."""
    worker: int
    epoch: int
    """The first epoch to be done, from 1."""
    batch_size: int
    round: int | None = None
    """The worker's round that the trial is trained as: how many trials the worker has started, this one with them; every
    attempt at a trial has that of the first. None in journals from before this was recorded: that of its ProposalRequested."""


class TrialPrepared(Event, frozen=True, kw_only=True):
    """The worker holds the module with its weights and is about to train."""

    trial: int
    attempt: int
    precision: str
    ranks: int
    compiled: bool
    build_seconds: float
    weights_seconds: float
    compile_seconds: float
    cuda_graphs: bool = False
    """Whether all kernels of a pass were launched by one call. Journals from before this was recorded: no."""
    fused: str = "no"
    """Which kernels of our own the training steps had: no; norm: batch normalisation with addition and ReLU; conv: these, and
    1×1 convolutions with statistics."""


class Interval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Work done between two words of an attempt, in one epoch. Intervals of an attempt tile its time without overlap."""

    worker: int
    start: float
    end: float
    training_images: int
    """Over all ranks; padding never counts."""
    validation_images: int
    busy_seconds: float
    """Spent in training or validation steps, gradient exchange included, waiting for input excluded; of one rank."""
    communication_seconds: float
    """Of the busy seconds: exchange of gradients that the backward pass did not hide."""
    validation_seconds: float
    """Of the busy seconds: validation steps."""
    input_seconds: float
    """Waited for images."""
    checkpoint_seconds: float
    """Training stood still for a checkpoint."""


class Progress(Event, frozen=True, kw_only=True):
    """An interval of work after which its epoch goes on; what its fields mean stands at Interval."""

    # Written out, since a Struct has one base with fields, and these stand in another order in journals that are there.
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
        """Itself: the intervals of both events that have one go by this name."""
        return self


Work = Progress | Interval
"""An interval of work, as those take it who need not know where it stands."""


class EpochFinished(Event, frozen=True, kw_only=True):
    """One pass over the training set, then over the validation set."""

    trial: int
    attempt: int
    epoch: int
    accuracy: float
    """Top-1 on the validation images, 0..1."""
    validation_loss: float
    """Plain cross-entropy, without label smoothing."""
    training_loss: float
    learning_rate: float
    checkpoint: bool
    """Whether the attempt can be taken up after this epoch."""
    interval: Interval | None = None
    """The epoch's work since its last Progress line. None: there was none, or the journal is from before this was recorded
    here, and it stands in that line."""


class BatchReduced(Event, frozen=True, kw_only=True):
    """Out of memory: the trial goes on with a smaller batch, and tuning learns of a pruned point."""

    trial: int
    attempt: int
    from_batch_size: int
    to_batch_size: int


class TrialFinished(Event, frozen=True, kw_only=True):
    """A trial came to its end: its round's epochs, or no more improvement."""

    trial: int
    attempt: int
    reason: str
    """'epochs' or 'early stop'; 'followed': it had as many epochs as the trial that it follows."""
    accuracy: float
    """Best measured validation accuracy."""
    told_accuracy: float
    """What the search is told: the curve of the first epochs, as many as round 1 has, fitted and read at the last of them.
    Before rules 4: predicted for the last round's epochs in the warm-up rounds, else the best measured."""


class TrialLost(Event, frozen=True, kw_only=True):
    """An attempt ended before its time."""

    trial: int
    attempt: int
    reason: str
    """Names the rank and the host where they are known."""


class TrialFailed(Event, frozen=True, kw_only=True):
    """A trial is given up; the search learns that it failed."""

    trial: int
    reason: str
    cause: Cause = ""
    """Whose failure it was. Journals from before this was recorded: empty."""


class CheckpointDropped(Event, frozen=True, kw_only=True):
    """The weights of a trial can no longer be inherited."""

    trial: int
    reason: str


class CheckpointWritten(Event, frozen=True, kw_only=True):
    """A checkpoint stands that was still being written when its epoch finished."""

    trial: int
    attempt: int
    epoch: int
    """After which the attempt can now be taken up."""


class CheckpointNotWritten(Event, frozen=True, kw_only=True):
    """The disk would not take a checkpoint; the trial goes on, and the next epoch's is tried again. Those that are left out
    because epochs are shorter than writing have no such line."""

    trial: int
    attempt: int
    epoch: int
    """After which there is none."""
    reason: str


class TrialHeartbeat(Event, frozen=True, kw_only=True):
    """Nothing else was to be reported of a trial for a while, and its ranks were at work: a slow worker is no silent one."""

    trial: int
    attempt: int
    doing: str
    """Which rank was furthest behind and what it was at, storage that it waited for included."""


class ImagesSkipped(Event, frozen=True, kw_only=True):
    """Corrupt images met for the first time since the run began or was resumed: they are left out, and count nowhere."""

    worker: int
    """That met them first."""
    images: int
    """Of the run so far, these included."""
    files: dict[str, str]
    """These, each with what its decoder said; at most 100 to a line."""


class RunEnded(Event, frozen=True, kw_only=True):
    """The run is over: its time is up, or someone ended it."""

    reason: str
    """'duration', 'interrupted', 'no workers', 'trials', 'no proposals', 'corrupt images' (more than dataset.corrupt_limit),
    'followed' (nothing is left of the followed run) or 'converged' (schedule.stop)."""
    measured_matmul_flops: dict[str, float] = {}
    """By worker, FLOPS of one rank: the matrix product of those without accelerators, measured once more after the window, when
    nothing trained. WorkerJoined.machine has it from when each came up. Empty: not measured."""


AnyEvent = (
    RunStarted
    | RunResumed
    | WorkerJoined
    | WorkerLost
    | WorkerNotStarted
    | NodeChecked
    | HelperLost
    | CeilingMeasured
    | ProposalRequested
    | TrialProposed
    | TrialRejected
    | TrialStarted
    | TrialPrepared
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
"""Every event there is."""
