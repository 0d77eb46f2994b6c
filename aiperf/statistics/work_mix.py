"""What a run's score is made of: each trial's network, batch, images and busy time inside the valid window.

    score = accelerators · busy time · counted part of the work · operations a busy accelerator-second

holds exactly (docs/statistics.md); the last is what networks, batches and the machine make together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialWork:
    """One trial inside the window; lost work that was done again included."""

    network: str
    """Its architecture's fingerprint."""
    batch: int
    """Images per accelerator and step."""
    started: float
    """Orders the trials of a run. Seconds since the run began."""
    images: float
    """Trained and validated, in proportion where the window's edge cuts an interval."""
    operations: float
    """Of training and validation."""
    tensor_operations: float
    """Of convolutions and matrix products alone."""
    parameters: int
    generation: int
    """Proposals from the starting graph to here: a larger one has more layers."""
    busy_seconds: float
    """Accelerator-seconds in training and validation steps."""

    @property
    def is_measured(self) -> bool:
        """Whether it did anything in the window that a speed can be had from."""
        return self.images > 0 and self.operations > 0 and self.busy_seconds > 0


@dataclass(frozen=True, slots=True)
class RunWork:
    """One run."""

    name: str
    flops_per_second: float
    """Its score."""
    accelerators: int
    """The most that were there at once."""
    window_seconds: float
    trials: tuple[TrialWork, ...]
    """Those that did something in the window, in order of their start."""

    @property
    def busy_seconds(self) -> float:
        """Accelerator-seconds."""
        return math.fsum(trial.busy_seconds for trial in self.trials)

    @property
    def operations(self) -> float:
        """All that were done, wasted ones too."""
        return math.fsum(trial.operations for trial in self.trials)
