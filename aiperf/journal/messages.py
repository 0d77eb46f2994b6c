"""What driver and executor say to each other.

Orders go down, words come back. Words carry no clock reading: a worker speaks in sums, so that a word that is lost,
late, doubled or out of order takes nothing away.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aiperf.journal.events import Cause, TunedBy


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The base of all messages."""


# --- orders, driver to executor


class Propose(_Message, frozen=True, kw_only=True):
    """Make a proposal, on a processor of the worker it is for."""

    number: int
    worker: int
    round: int
    seed: int
    starting_network: bool = False
    """The starting network itself is wanted, whatever a searcher would choose."""


class Train(_Message, frozen=True, kw_only=True):
    """Train a trial, from an epoch on."""

    trial: int
    attempt: int
    worker: int
    lineage: tuple[dict[str, Any], ...]
    """All morphs from the starting graph to the parent's graph (to the starting graph itself: none)."""
    morphs: tuple[dict[str, Any], ...]
    """From the parent's graph to this trial's."""
    parent: int | None
    """The trial whose weights are inherited; None: fresh weights."""
    first_epoch: int
    """From 1. Above 1 the trial's own checkpoint of the epoch before is taken up."""
    last_epoch: int
    """The round's limit."""
    patience: int
    """Epochs without improvement after which the trial ends."""
    improvement: float
    """By how much plain validation cross-entropy must fall to count as improved."""
    losses: tuple[float, ...]
    """Validation losses of the epochs before first_epoch."""
    batch_size: int
    """Per accelerator."""
    seed: int
    progress_seconds: float
    """How long an interval is to be, about: see `procedure.ends_interval`."""
    edges: tuple[float, ...]
    """Edges of the window, in seconds after this order was taken: intervals end there."""


class Drop(_Message, frozen=True, kw_only=True):
    """Remove a trial's checkpoint: nobody will inherit from it."""

    trial: int


class Release(_Message, frozen=True, kw_only=True):
    """The driver regards this worker as gone: end it, and bring another up in its place if one can be had."""

    worker: int
    reason: str


class Sum(_Message, frozen=True, kw_only=True):
    """Say the sums of what is trained, now: the run is about to end before its declared time."""

    worker: int


Order = Propose | Train | Drop | Release | Sum


# --- words, executor to driver


class WorkerUp(_Message, frozen=True, kw_only=True):
    """A worker is ready. The executor names it; a worker that comes back after a loss has a new number."""

    worker: int
    host: str
    ranks: int
    device: str
    device_memory_bytes: int
    collective: str
    machine: dict[str, Any]
    hosts: tuple[str, ...] = ()
    """All of its hosts, `host` first, where it has several."""


class WorkerDown(_Message, frozen=True, kw_only=True):
    """A worker is gone."""

    worker: int
    reason: str
    released: bool = False
    """The executor let it go for a better place: not held against its trial."""


class NotStarted(_Message, frozen=True, kw_only=True):
    """No worker came up at a place; it may be tried again."""

    host: str
    failures: int
    reason: str


class Inspected(_Message, frozen=True, kw_only=True):
    """A node that joined has gone through preflight."""

    address: str
    host: str
    readings: dict[str, Any]
    faults: list[str]
    notes: list[str]
    excluded: bool
    clock_offset_seconds: float | None
    clock_error_seconds: float | None


class HelperDown(_Message, frozen=True, kw_only=True):
    """A process beside a worker, its recorder or its generator, died; another takes its place."""

    worker: int
    helper: str
    reason: str


class Ceiling(_Message, frozen=True, kw_only=True):
    """The measured largest batch per accelerator."""

    worker: int
    family: str
    batch_size: int


class Proposed(_Message, frozen=True, kw_only=True):
    """The answer to Propose; the driver rebuilds and checks it."""

    number: int
    searcher: str
    parent: int | None
    morphs: tuple[dict[str, Any], ...]
    batch_size: int
    kernel_size: int | None
    pruned: tuple[dict[str, Any], ...]
    seconds: float
    tuned_by: TunedBy = ""


class Unproposed(_Message, frozen=True, kw_only=True):
    """No proposal could be made."""

    number: int
    reason: str
    was_made: bool = True
    """Whether the searcher itself said so. False: its process died over it, and nobody knows what it would have said."""


class Prepared(_Message, frozen=True, kw_only=True):
    """The module stands on the accelerators with its weights."""

    trial: int
    attempt: int
    precision: str
    ranks: int
    compiled: bool
    cuda_graphs: bool
    fused: str = "no"
    build_seconds: float
    weights_seconds: float
    compile_seconds: float


class Heartbeat(_Message, frozen=True, kw_only=True):
    """Nothing to report of the trial for a while, but its ranks are at work: said so that a slow worker is not a silent one."""

    trial: int
    attempt: int
    doing: str
    """Which rank is furthest behind and what it is at: 'rank 1 of 2 on node7 waits for images since 130 s'."""


class Advanced(_Message, frozen=True, kw_only=True):
    """Sums: images of all ranks since the epoch began, seconds of rank 0 since the order was taken."""

    trial: int
    attempt: int
    epoch: int
    batch_size: int
    """Per accelerator, of this pass: an epoch that ran out of memory is begun again with a smaller one, and a word from before
    that may come late."""
    training_images: int
    validation_images: int
    busy_seconds: float
    communication_seconds: float
    validation_seconds: float
    input_seconds: float
    checkpoint_seconds: float


class EpochDone(_Message, frozen=True, kw_only=True):
    """An epoch is finished; `advanced` holds its final sums."""

    advanced: Advanced
    accuracy: float
    validation_loss: float
    training_loss: float
    learning_rate: float
    checkpoint: bool


class Saved(_Message, frozen=True, kw_only=True):
    """The checkpoint of an epoch that was reported before stands now."""

    trial: int
    attempt: int
    epoch: int


class Unsaved(_Message, frozen=True, kw_only=True):
    """The disk would not take the checkpoint of an epoch that was reported before; training goes on."""

    trial: int
    attempt: int
    epoch: int
    reason: str


class Skipped(_Message, frozen=True, kw_only=True):
    """Corrupt images that one of the worker's ranks has met, all of them since it was started."""

    worker: int
    files: tuple[tuple[str, str], ...]
    """Name, and what the decoder said."""


class OutOfMemory(_Message, frozen=True, kw_only=True):
    """The batch did not fit; the worker goes on with a smaller one, from the beginning of the epoch."""

    trial: int
    attempt: int
    from_batch_size: int
    to_batch_size: int


class Done(_Message, frozen=True, kw_only=True):
    """The trial came to its end; every epoch was reported before."""

    trial: int
    attempt: int
    reason: str
    """'epochs' or 'early stop'."""


class Crashed(_Message, frozen=True, kw_only=True):
    """The attempt is over without a result."""

    trial: int
    attempt: int
    reason: str
    retry: bool
    """False where another attempt must end the same way (a proposal that cannot be trained at any batch)."""
    cause: Cause = "machine"
    """Whose failure it was."""


class CheckpointGone(_Message, frozen=True, kw_only=True):
    """A checkpoint the attempt needs is not there, or damaged: the attempt did not begin."""

    trial: int
    attempt: int
    missing: int
    """Whose checkpoint: the parent's number, or the trial's own."""
    reason: str


Word = (
    WorkerUp
    | WorkerDown
    | NotStarted
    | Inspected
    | HelperDown
    | Ceiling
    | Proposed
    | Unproposed
    | Prepared
    | Heartbeat
    | Advanced
    | EpochDone
    | Saved
    | Unsaved
    | Skipped
    | OutOfMemory
    | Done
    | Crashed
    | CheckpointGone
)
