"""Messages between the driver (main process of a run) and the executor, which starts the workers and forwards their results.

The driver sends orders, the executor sends messages with results. The latter contain no clock reading. Work is reported as
sums: a lost, late, repeated or reordered message therefore loses no work.

A message or an order that the driver records unchanged is its event. The driver sets the time of a message when it arrives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from aiperf.journal import events
from aiperf.journal.events import Cause, TunedBy

_E = TypeVar("_E", bound=events.Event)


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """Base class of all messages."""


# --- orders, driver to executor


class Train(_Message, frozen=True, kw_only=True):
    """Order to train a trial (a proposed network), starting with epoch `first_epoch`."""

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
    """Order to remove the checkpoint of a trial, because no trial will inherit from it."""

    trial: int


class Release(_Message, frozen=True, kw_only=True):
    """Order to end a worker that the driver treats as lost, and to start another in its place if possible."""

    worker: int
    reason: str


class Sum(_Message, frozen=True, kw_only=True):
    """Order to report the sums of the current trial now, because the run is about to end before its declared time."""

    worker: int


Order = events.ProposalRequested | Train | Drop | Release | Sum


# --- messages, executor to driver


class ProposalReturned(_Message, frozen=True, kw_only=True):
    """Answer to a request for a proposal (ProposalRequested). The driver rebuilds and checks the proposed network."""

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
    """Answer to a request for a proposal if none could be made."""

    number: int
    reason: str
    was_made: bool = True
    """True if the searcher itself had nothing to propose. False if its process died."""


class Sums(msgspec.Struct, kw_only=True):
    """Images of all ranks since the start of the epoch, seconds of rank 0 since that of the order."""

    training_images: int = 0
    validation_images: int = 0
    busy_seconds: float = 0.0
    communication_seconds: float = 0.0
    validation_seconds: float = 0.0
    input_seconds: float = 0.0
    checkpoint_seconds: float = 0.0


class Advanced(Sums, frozen=True, kw_only=True, tag_field="event", tag=True):  # type: ignore[misc]  # msgspec allows it
    """Progress of an attempt."""

    trial: int
    attempt: int
    epoch: int
    batch_size: int
    """Images per accelerator in this pass. After an epoch ran out of memory it restarts with a smaller batch. A late message
    of the former pass is recognized by this value."""


class EpochDone(events.EpochFinished, frozen=True, kw_only=True):
    """End of an epoch: its event, for which the driver computes the interval from the sums."""

    advanced: Advanced
    """Final sums of the epoch."""


class CorruptImagesFound(_Message, frozen=True, kw_only=True):
    """All corrupt images that one rank of the worker has found since its start."""

    worker: int
    files: tuple[tuple[str, str], ...]
    """Pairs of name and decoder error."""


class TrialDone(_Message, frozen=True, kw_only=True):
    """End of a trial. All its epochs were reported before."""

    trial: int
    attempt: int
    reason: str
    """'epochs' or 'early stop'."""


class Crashed(_Message, frozen=True, kw_only=True):
    """End of an attempt (one try to train a trial) without a result."""

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


Message = (
    events.WorkerJoined
    | events.WorkerLost
    | events.WorkerNotStarted
    | events.NodeChecked
    | events.HelperLost
    | events.CeilingMeasured
    | ProposalReturned
    | ProposalFailed
    | events.TrialPrepared
    | events.StepsProfiled
    | events.TrialHeartbeat
    | Advanced
    | EpochDone
    | events.CheckpointWritten
    | events.CheckpointNotWritten
    | CorruptImagesFound
    | events.BatchReduced
    | TrialDone
    | Crashed
    | CheckpointGone
)
"""Messages from the executor to the driver."""


def recorded(kind: type[_E], message: msgspec.Struct, now: float, **computed: Any) -> _E:
    """Return a journal event of type `kind` made from a message that arrived at `now`.

    The event has the message's fields of equal name, the fields in `computed` (which replace those of the message), and
    `now`, in seconds since the start of the run, as its time.
    """
    for name in _common_fields(kind, type(message)):
        if name not in computed:
            computed[name] = getattr(message, name)
    computed["at"] = now
    return kind(**computed)


@lru_cache(maxsize=256)
def _common_fields(kind: type[msgspec.Struct], message: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple([name for name in message.__struct_fields__ if name in kind.__struct_fields__])
