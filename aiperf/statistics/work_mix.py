"""Work of a run: network, batch size, images and busy time of each trial inside the valid window.

    score = accelerators · busy time · counted part of the work · operations per busy accelerator-second

is exact (docs/statistics.md). The last factor depends on networks, batch sizes and the machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialWork:
    """Work of one trial inside the window, including lost work that was repeated."""

    network: str
    """Fingerprint of the architecture."""
    batch: int
    """Images per accelerator and step."""
    started: float
    """Seconds since the run began. Orders the trials of a run."""
    images: float
    """Trained and validated images. An interval that crosses the window's edge counts in proportion."""
    operations: float
    """Operations of training and validation."""
    tensor_operations: float
    """Operations of convolutions and matrix products."""
    parameters: int
    generation: int
    """Number of proposals from the starting graph to this network. Later generations have more layers."""
    busy_seconds: float
    """Accelerator-seconds in training and validation steps."""

    @property
    def is_measured(self) -> bool:
        """True if the trial has work in the window from which a speed follows."""
        return self.images > 0 and self.operations > 0 and self.busy_seconds > 0


@dataclass(frozen=True, slots=True)
class RunWork:
    """Work of one run."""

    name: str
    flops_per_second: float
    """Score of the run."""
    accelerators: int
    """Largest number at once."""
    window_seconds: float
    trials: tuple[TrialWork, ...]
    """Trials with work in the window, in order of their start."""

    @property
    def busy_seconds(self) -> float:
        """Busy accelerator-seconds of all trials."""
        return math.fsum(trial.busy_seconds for trial in self.trials)

    @property
    def operations(self) -> float:
        """Operations of all trials, including lost work."""
        return math.fsum(trial.operations for trial in self.trials)
