"""Loss scaling: FP16 needs it, BF16 does not."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from aiperf.data.batches import Batch
from aiperf.data.opening import open_data
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.loop import train
from aiperf.train.rank_context import RankContext
from aiperf.train.task import Classification
from aiperf.train.trainer_config import TrainerConf
from tests.builders.order import IMAGES, epochs, order, plain_graph

SMALL = 2.0**-20


@dataclass(frozen=True, slots=True)
class SmallLoss(Classification):
    """Classification whose gradients are below the smallest FP16 number, because its training loss is so small."""

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return super(SmallLoss, self).loss(module, batch) * SMALL


@pytest.mark.parametrize(
    ("precision", "loss_scaling", "trains"), [("bf16", "auto", True), ("fp16", "off", False), ("fp16", "auto", True)]
)
def test_a_small_loss_trains_in_bf16_and_in_scaled_fp16(precision: str, loss_scaling: str, trains: bool) -> None:
    conf = TrainerConf(threads=1, precision=precision, loss_scaling=loss_scaling, weight_decay=0.0)
    conf.learning_rate = 0.1 / SMALL  # larger than any limit: the updates are those of the usual loss
    with open_data(IMAGES) as images:
        context = RankContext.make(conf, images, plain_graph(), torch.device("cpu"), SingleRank(), writer=None)
        context = replace(context, task=SmallLoss(label_smoothing=0.0))
        words = list(train(order(last_epoch=12, batch_size=64), context, time.monotonic()))

    losses = [epoch.training_loss / SMALL for epoch in epochs(words)]
    assert len(losses) == 12
    assert (losses[-1] < 0.7 * losses[0]) == trains
    assert trains or losses == pytest.approx([losses[0]] * 12, rel=1e-2)
