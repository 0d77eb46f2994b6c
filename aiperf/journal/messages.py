"""Messages between driver and executor.

The driver sends orders, the executor sends messages with results. The latter contain no clock reading. Work is reported as
sums, so that a lost, late, repeated or reordered message loses no work.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aiperf.journal.events import Cause, TunedBy


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Base class of all messages."""


# --- orders, driver to executor


class Propose(_Message, frozen=True, kw_only=True):
    """Make a proposal, on a processor of the worker it is for."""

    number: int
    worker: int
    round: int
    seed: int
    starting_network: bool = False
    """True if the starting network itself is requested."""


class Train(_Message, frozen=True, kw_only=True):
    """Train a trial, starting with `first_epoch`."""

    trial: int
    attempt: int
    worker: int
    lineage: tuple[dict[str, Any], ...]
    """All morphs from the starting graph to the parent's graph. Empty if the parent is the starting graph."""
    morphs: tuple[dict[str, Any], ...]
    """Morphs from the parent's graph to this trial's graph."""
    parent: int | None
    """Trial whose weights are inherited. None for fresh weights."""
    first_epoch: int
    """First epoch, from 1. Above 1 the attempt resumes from the trial's own checkpoint of the previous epoch."""
    last_epoch: int
    """Last epoch allowed in the round."""
    patience: int
    """Epochs without improvement after which the trial ends."""
    improvement: float
    """Minimum decrease of the validation cross-entropy that counts as an improvement."""
    losses: tuple[float, ...]
    """Validation losses of the epochs before first_epoch."""
    batch_size: int
    """Images per accelerator."""
    seed: int
    progress_seconds: float
    """Approximate length of an interval: see `procedure.ends_interval`."""
    edges: tuple[float, ...]
    """Bounds of the window, in seconds after the start of this order. Intervals end there."""


class Drop(_Message, frozen=True, kw_only=True):
    """Remove a trial's checkpoint. No trial will inherit from it."""

    trial: int


class Release(_Message, frozen=True, kw_only=True):
    """End a worker that the driver treats as lost, and start another in its place if possible."""

    worker: int
    reason: str


class Sum(_Message, frozen=True, kw_only=True):
    """Report the sums of the current trial now, because the run is about to end before its declared time."""

    worker: int


Order = Propose | Train | Drop | Release | Sum


# --- messages, executor to driver


class WorkerUp(_Message, frozen=True, kw_only=True):
    """A worker is ready. The executor numbers it. A worker that returns after a loss has a new number."""

    worker: int
    host: str
    ranks: int
    device: str
    device_memory_bytes: int
    collective: str
    machine: dict[str, Any]
    hosts: tuple[str, ...] = ()
    """All hosts of a worker that spans several. `host` is the first."""


class WorkerDown(_Message, frozen=True, kw_only=True):
    """Loss of a worker."""

    worker: int
    reason: str
    released: bool = False
    """True if the executor moved the worker's accelerators to a better place. This does not count as a loss of its trial."""


class NotStarted(_Message, frozen=True, kw_only=True):
    """Failed start of a worker. The executor may try the place again."""

    host: str
    failures: int
    reason: str


class Inspected(_Message, frozen=True, kw_only=True):
    """Preflight result of a node that joined."""

    address: str
    host: str
    readings: dict[str, Any]
    faults: list[str]
    notes: list[str]
    excluded: bool
    clock_offset_seconds: float | None
    clock_error_seconds: float | None


class HelperDown(_Message, frozen=True, kw_only=True):
    """Death and replacement of a worker's helper process: its recorder or its generator."""

    worker: int
    helper: str
    reason: str


class Ceiling(_Message, frozen=True, kw_only=True):
    """Measured largest batch per accelerator."""

    worker: int
    family: str
    batch_size: int


class ProposalReturned(_Message, frozen=True, kw_only=True):
    """Answer to Propose. The driver rebuilds and checks it."""

    number: int
    searcher: str
    parent: int | None
    morphs: tuple[dict[str, Any], ...]
    batch_size: int
    kernel_size: int | None
    pruned: tuple[dict[str, Any], ...]
    seconds: float
    tuned_by: TunedBy = ""


class ProposalFailed(_Message, frozen=True, kw_only=True):
    """Failure to make a proposal."""

    number: int
    reason: str
    was_made: bool = True
    """True if the searcher itself had nothing to propose. False if its process died."""


class Prepared(_Message, frozen=True, kw_only=True):
    """The module and its weights are on the accelerators."""

    trial: int
    attempt: int
    precision: str
    ranks: int
    compiled: bool
    cuda_graphs: bool
    build_seconds: float
    weights_seconds: float
    compile_seconds: float


class Heartbeat(_Message, frozen=True, kw_only=True):
    """Sign of life of a trial without other reports. It distinguishes a slow worker from a silent one."""

    trial: int
    attempt: int
    doing: str
    """Slowest rank and its activity: 'rank 1 of 2 on node7 waits for images since 130 s'."""


class Advanced(_Message, frozen=True, kw_only=True):
    """Sums of images of all ranks since the start of the epoch, and of seconds of rank 0 since the start of the order."""

    trial: int
    attempt: int
    epoch: int
    batch_size: int
    """Images per accelerator in this pass. After an epoch ran out of memory it restarts with a smaller batch. A late message
    of the former pass is recognized by this value."""
    training_images: int
    validation_images: int
    busy_seconds: float
    communication_seconds: float
    validation_seconds: float
    input_seconds: float
    checkpoint_seconds: float


class EpochDone(_Message, frozen=True, kw_only=True):
    """End of an epoch. `advanced` holds its final sums."""

    advanced: Advanced
    accuracy: float
    validation_loss: float
    training_loss: float
    learning_rate: float
    checkpoint: bool


class CheckpointSaved(_Message, frozen=True, kw_only=True):
    """Completion of the checkpoint of an epoch that was reported before."""

    trial: int
    attempt: int
    epoch: int


class CheckpointFailed(_Message, frozen=True, kw_only=True):
    """Failed write of the checkpoint of an epoch that was reported before. Training continues."""

    trial: int
    attempt: int
    epoch: int
    reason: str


class CorruptImagesFound(_Message, frozen=True, kw_only=True):
    """All corrupt images that one rank of the worker has found since its start."""

    worker: int
    files: tuple[tuple[str, str], ...]
    """Pairs of name and decoder error."""


class OutOfMemory(_Message, frozen=True, kw_only=True):
    """The batch did not fit. The worker restarts the epoch with a smaller batch."""

    trial: int
    attempt: int
    from_batch_size: int
    to_batch_size: int


class TrialDone(_Message, frozen=True, kw_only=True):
    """End of a trial. All its epochs were reported before."""

    trial: int
    attempt: int
    reason: str
    """'epochs' or 'early stop'."""


class Crashed(_Message, frozen=True, kw_only=True):
    """End of an attempt without a result."""

    trial: int
    attempt: int
    reason: str
    retry: bool
    """False if another attempt would fail the same way, such as a network that fits at no batch size."""
    cause: Cause = "machine"
    """Origin of the failure."""


class CheckpointGone(_Message, frozen=True, kw_only=True):
    """A required checkpoint is missing or damaged. The attempt did not begin."""

    trial: int
    attempt: int
    missing: int
    """Trial whose checkpoint is missing: the parent or the trial itself."""
    reason: str


Word = (
    WorkerUp
    | WorkerDown
    | NotStarted
    | Inspected
    | HelperDown
    | Ceiling
    | ProposalReturned
    | ProposalFailed
    | Prepared
    | Heartbeat
    | Advanced
    | EpochDone
    | CheckpointSaved
    | CheckpointFailed
    | CorruptImagesFound
    | OutOfMemory
    | TrialDone
    | Crashed
    | CheckpointGone
)
