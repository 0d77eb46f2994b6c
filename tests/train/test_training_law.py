"""Rules of training and of images in docs/benchmark.md, checked against the configuration and the implementation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from aiperf.config import configure
from aiperf.data.dataset_config import ImagenetConf, ImagesConf
from aiperf.data.opening import open_data
from aiperf.train.optimiser import optimiser_of
from aiperf.train.torch_network import break_symmetry, carry_out
from aiperf.train.trainer_config import learning_rate
from morphism import Gather, Widen, apply
from tests.builders.data_set import joined, training, validation
from tests.builders.network import random_state, small_start
from tests.builders.order import CONF, epochs, order, train

RANKED = configure(["+cluster=simulated", "dataset=imagenet", "schedule=ranking"]).trainer
"""As a ranking run is configured."""


def test_ranking_runs_use_momentum_09_and_weight_decay_5e_5() -> None:
    optimiser = optimiser_of(nn.Linear(3, 2), RANKED)

    (group,) = optimiser.param_groups
    assert (group["momentum"], group["weight_decay"], group["nesterov"]) == (0.9, 5e-5, False)
    assert isinstance(optimiser, torch.optim.SGD)


def test_ranking_runs_lower_the_learning_rate_linearly() -> None:
    rates = [learning_rate(RANKED, epoch, 448 * 8) for epoch in range(1, 61)]

    assert rates == pytest.approx([0.1 * (1 - (epoch - 1) / 60) for epoch in range(1, 61)])


def test_only_the_training_loss_smooths_labels(tmp_path: Path) -> None:
    """At a learning rate near zero the network does not change, so that the losses differ by the smoothing alone."""
    assert RANKED.label_smoothing == 0.1
    still = replace(CONF, learning_rate=1e-12, weight_decay=0.0)

    (plain,) = epochs(train(order(last_epoch=1), tmp_path / "plain", replace(still, label_smoothing=0.0)))
    (smooth,) = epochs(train(order(last_epoch=1), tmp_path / "smooth", replace(still, label_smoothing=0.1)))

    assert smooth.validation_loss == pytest.approx(plain.validation_loss, rel=1e-5)
    assert abs(smooth.training_loss - plain.training_loss) > 1e-4 * plain.training_loss


def test_default_noise_is_a_thousandth_of_the_tensors_rms() -> None:
    parent = small_start("digits_small")
    _, plan = apply(parent, Widen("stem.conv", 64))
    state = carry_out(plan, random_state(parent, 1, torch.float64), 1)

    noisy = break_symmetry(state, plan, 1)

    gathered = next(i for i in plan.instructions if isinstance(i, Gather) and state[i.tensor].dim() == 4)
    tensor, noise = state[gathered.tensor], noisy[gathered.tensor] - state[gathered.tensor]
    relative = noise[noise != 0].square().mean().sqrt() / tensor.square().mean().sqrt()
    assert relative.item() == pytest.approx(1e-3, rel=0.1)


def _white(root: Path, size: int, border: int, count: int) -> None:
    """A set of pictures that are white but for a black border."""
    pixels = np.zeros((size, size, 3), np.uint8)
    pixels[border : size - border, border : size - border] = 255
    for folder in (root / split / name for split in ("train", "val") for name in ("one", "other")):
        folder.mkdir(parents=True)
        for number in range(count):
            Image.fromarray(pixels).save(folder / f"{number}.png")


def test_imagenet_validates_on_the_centre_224_of_256(tmp_path: Path) -> None:
    _white(tmp_path, 256, 16, 2)
    conf = ImagenetConf(root=str(tmp_path)).as_images()

    with open_data(conf) as data:
        images, _ = joined(list(validation(data, 2)))

    assert images.shape[-2:] == (224, 224)
    white = images[0, :, 112, 112]
    # the border of 16 pixels is outside the crop, and everything inside is white
    assert torch.equal(images, white[None, :, None, None].expand_as(images))


def test_imagenet_trains_on_crops_and_small_images_on_shifts(tmp_path: Path) -> None:
    assert ImagenetConf(root=str(tmp_path)).as_images().is_resized_crop
    _white(tmp_path, 32, 0, 30)

    with open_data(ImagesConf(root=str(tmp_path), image=32)) as data:
        batches = [joined(list(training(data, 60, epoch=epoch)))[0] for epoch in range(6)]

    red = torch.cat(batches)[:, 0]
    rows = (red == red.amin()).all(dim=2).sum(dim=1)  # whole rows that the shift left empty
    assert rows.max() == 4
    assert 0.7 < (rows > 0).float().mean() < 1.0
