"""Stages of a rank. They decide when its silence is a hang. No torch here."""

from __future__ import annotations

from enum import IntEnum


class Stage(IntEnum):
    """Current activity of a rank. `DOING` has the text of each for reports."""

    IDLE = 0
    STEPS = 1
    IMPORT = 2
    DATA = 3
    JOIN = 4
    WARM_UP = 5
    CEILING = 6
    PEAK = 7
    BUILD = 8
    LAUNCH = 9
    WEIGHTS = 10
    INPUT = 11
    CHECKPOINT = 12
    QUEUE = 13


DOING = {
    Stage.IDLE: "waits for an order",
    Stage.STEPS: "trains",
    Stage.IMPORT: "imports its libraries",
    Stage.DATA: "opens the data set",
    Stage.JOIN: "joins the other ranks",
    Stage.WARM_UP: "loads kernels",
    Stage.CEILING: "finds the largest batch",
    Stage.PEAK: "measures its fastest matrix product and its memory bandwidth",
    Stage.BUILD: "builds the network",
    Stage.LAUNCH: "rehearses or compiles the network",
    Stage.WEIGHTS: "takes up weights",
    Stage.INPUT: "waits for images",
    Stage.CHECKPOINT: "waits for a checkpoint to be written",
    Stage.QUEUE: "waits for another worker of this host to find the largest batch",
}
STORAGE = frozenset({Stage.IMPORT, Stage.DATA, Stage.WEIGHTS, Stage.INPUT, Stage.CHECKPOINT})
"""In these stages a rank that makes no progress is waiting for a file system."""
ON_DEVICE = frozenset({Stage.WARM_UP, Stage.CEILING, Stage.PEAK, Stage.BUILD, Stage.LAUNCH, Stage.WEIGHTS})
"""In these stages a rank waits for its device. CUDA waits by spinning, which looks like work to the kernel."""
OPEN_ENDED = frozenset(Stage) - {Stage.IDLE, Stage.STEPS, Stage.JOIN, Stage.QUEUE}
"""Stages without a known duration. A rank in such a stage is late only if its process does nothing."""
