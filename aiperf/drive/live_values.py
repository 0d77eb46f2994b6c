"""What is shown of a run while it goes on: values, of bounded size. `live_view` makes them, `live_table` lays them out."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.journal.events import FollowedRun

MOST_WORKERS = 100
"""Workers of which a view tells; of the others it holds the counts."""
SILENT_SECONDS = 60.0
"""Whoever trains and has said nothing for so long is shown before those that have."""
LAST_STAGE = "training"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker's line."""

    worker: int
    host: str
    doing: str
    """'training', 'preparing', 'waiting'."""
    trial: int | None = None
    round: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    """The round's limit."""
    epoch_share: float | None = None
    """How much of the epoch's images are done, 0..1."""
    accuracy: float | None = None
    """The trial's best so far."""
    silent_seconds: float = 0.0
    """Since its trial was last heard of."""

    @property
    def badness(self) -> tuple[int, float, int]:
        """The worst first: those that train nothing, those that prepare, the silent; then by number."""
        silent = self.silent_seconds if self.silent_seconds >= SILENT_SECONDS else 0.0
        return (("waiting", "preparing").index(self.doing) if self.doing != "training" else 2, -silent, self.worker)


@dataclass(frozen=True, slots=True)
class LiveView:
    """What is shown: made by the driver from its state, of bounded size."""

    run: str
    at: float
    """Seconds since the run began."""
    duration_seconds: float
    warmup_seconds: float
    flops_per_second: float
    """Now: over the last half minute or so."""
    window_flops_per_second: float | None
    """In the valid window so far; None before it has begun."""
    regulated_flops_per_second: float | None
    error: float | None
    """The best so far."""
    busy_share: float | None
    trials_finished: int
    proposals_waiting: int
    workers_training: int
    workers_preparing: int
    workers_waiting: int
    workers_lost: int
    workers: tuple[WorkerView, ...]
    """By number; of more than MOST_WORKERS the worst, so many."""
    is_simulated: bool = False
    follows: FollowedRun | None = None
    """The run whose trials it trains instead of searching."""

    ranks_of_worker: int | None = None
    """As planned: processes that each worker starts. None: not known."""

    @property
    def stage(self) -> str:
        """How far the run is: 'starting' its workers, 'preparing' its first trials, or 'training'."""
        if not self.workers_present and not self.trials_finished:
            return "starting"
        return LAST_STAGE if self.workers_training or self.trials_finished else "preparing"

    @property
    def workers_present(self) -> int:
        """All that are there."""
        return self.workers_training + self.workers_preparing + self.workers_waiting
