"""Messages between driver and executor.

The driver sends orders, the executor sends messages with results. The latter contain no clock reading. Work is reported as
sums, so that a lost, late, repeated or reordered message loses no work.

A message whose fields the driver records unchanged is a subclass of its event. The driver adds the time (`recorded`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from aiperf.journal import events
from aiperf.journal.events import Cause, TunedBy

NOT_RECEIVED = -1.0
"""Time of a message that the driver has not yet received. The validator refuses it in a journal."""


_E = TypeVar("_E", bound=events.Event)


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


class WorkerUp(events.WorkerJoined, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """A worker is ready. The executor numbers it. A worker that returns after a loss has a new number."""

    at: float = NOT_RECEIVED


class WorkerDown(_Message, frozen=True, kw_only=True):
    """Loss of a worker."""

    worker: int
    reason: str
    released: bool = False
    """True if the executor moved the worker's accelerators to a better place. This does not count as a loss of its trial."""


class NotStarted(events.WorkerNotStarted, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Failed start of a worker. The executor may try the place again."""

    at: float = NOT_RECEIVED


class Inspected(events.NodeChecked, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Preflight result of a node that joined."""

    at: float = NOT_RECEIVED


class HelperDown(events.HelperLost, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Death and replacement of a worker's helper process: its recorder or its generator."""

    at: float = NOT_RECEIVED


class Ceiling(events.CeilingMeasured, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Measured largest batch per accelerator."""

    at: float = NOT_RECEIVED


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


class Prepared(events.TrialPrepared, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The module and its weights are on the accelerators."""

    at: float = NOT_RECEIVED


class Heartbeat(events.TrialHeartbeat, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Sign of life of a trial without other reports. It distinguishes a slow worker from a silent one."""

    at: float = NOT_RECEIVED


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
    validation_loss: float | None
    training_loss: float
    regions: int = 0
    missing_regions: int = 0
    learning_rate: float
    checkpoint: bool


class CheckpointSaved(events.CheckpointWritten, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Completion of the checkpoint of an epoch that was reported before."""

    at: float = NOT_RECEIVED


class CheckpointFailed(events.CheckpointNotWritten, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Failed write of the checkpoint of an epoch that was reported before. Training continues."""

    at: float = NOT_RECEIVED


class CorruptImagesFound(_Message, frozen=True, kw_only=True):
    """All corrupt images that one rank of the worker has found since its start."""

    worker: int
    files: tuple[tuple[str, str], ...]
    """Pairs of name and decoder error."""


class OutOfMemory(events.BatchReduced, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The batch did not fit. The worker restarts the epoch with a smaller batch."""

    at: float = NOT_RECEIVED


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


def recorded(kind: type[_E], message: msgspec.Struct, now: float, **computed: Any) -> _E:
    """Return the event of a message: fields of equal name, and the computed ones."""
    passed_on = {name: getattr(message, name) for name in message.__struct_fields__ if name in kind.__struct_fields__}
    return kind(**(passed_on | computed | {"at": now}))
