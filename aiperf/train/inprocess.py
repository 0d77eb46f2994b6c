"""Training in this process, on one device and without other processes: for the inline executor, tests and benchmarks.

with open_data(conf.dataset) as data:
    for word in train_here(order, TrainerConf(), data, start(...), folder):
        ...
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import torch

from aiperf.data.opened import OpenData
from aiperf.journal.messages import Message, Train
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.checkpoints.checkpoint_writer import Writer
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.loop import train
from aiperf.train.rank_context import RankContext
from aiperf.train.trainer_config import TrainerConf
from morphism import Architecture


def train_here(
    order: Train,
    conf: TrainerConf,
    data: OpenData,
    start: Architecture,
    checkpoints: Path,
    device: torch.device | None = None,
    taken: float | None = None,
) -> Iterator[Message]:
    """Train one trial in this process and yield its messages. The last one is TrialDone, Crashed or CheckpointGone.

    `taken`: time.monotonic() at which the command was received. Raise BadConfiguration for options that the device does not
    support, and DataError for an unusable data set.
    """
    taken = time.monotonic() if taken is None else taken
    writer = Writer(CheckpointFolder(checkpoints), conf.keep_checkpoints_seconds)
    try:
        context = RankContext.make(conf, data, start, device or torch.device("cpu"), SingleRank(), writer)
        yield from train(order, context, taken)
    finally:
        writer.settle()
        writer.close()
