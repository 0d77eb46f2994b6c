"""Values that the live table shows. Their size is bounded. `live_view` computes them and `live_table` renders them."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.journal.events import FollowedRun

MOST_WORKERS = 100
"""Maximum number of workers in a view. The others are counted."""
SILENT_SECONDS = 60.0
"""Workers that train without a message for this time are listed before the other training workers."""
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
    """Finished share of the epoch's images, 0..1."""
    accuracy: float | None = None
    """The trial's best so far."""
    silent_seconds: float = 0.0
    """Time since the last message of its trial."""

    @property
    def badness(self) -> tuple[int, float, int]:
        """Sort key, the worst worker first: waiting, preparing, silent, then by number."""
        silent = self.silent_seconds if self.silent_seconds >= SILENT_SECONDS else 0.0
        return (("waiting", "preparing").index(self.doing) if self.doing != "training" else 2, -silent, self.worker)


@dataclass(frozen=True, slots=True)
class LiveView:
    """Values of one refresh, computed from the driver's state."""

    run: str
    at: float
    """Seconds since the run began."""
    duration_seconds: float
    warmup_seconds: float
    flops_per_second: float
    """Mean over the last NOW_SECONDS."""
    window_flops_per_second: float | None
    """Mean over the valid window so far. None before the window begins."""
    regulated_flops_per_second: float | None
    error: float | None
    """Best validation error so far."""
    busy_share: float | None
    trials_finished: int
    proposals_waiting: int
    workers_training: int
    workers_preparing: int
    workers_waiting: int
    workers_lost: int
    workers: tuple[WorkerView, ...]
    """Workers by number. With more than MOST_WORKERS, the worst MOST_WORKERS."""
    is_simulated: bool = False
    follows: FollowedRun | None = None
    """Run to repeat. None if the run searches."""

    ranks_of_worker: int | None = None
    """Planned ranks of each worker. None if unknown."""

    @property
    def stage(self) -> str:
        """Stage of the run: 'starting' workers, 'preparing' the first trials, or 'training'."""
        if not self.workers_present and not self.trials_finished:
            return "starting"
        return LAST_STAGE if self.workers_training or self.trials_finished else "preparing"

    @property
    def workers_present(self) -> int:
        """Number of workers that are up."""
        return self.workers_training + self.workers_preparing + self.workers_waiting
