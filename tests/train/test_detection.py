"""Detection as a task: operations as counted, quality independent of the ranks, regions, losses and resumption."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from aiperf.data.batches import Batch, RankBatches
from aiperf.data.opened import OpenData
from aiperf.data.opening import open_data
from aiperf.journal.messages import Crashed, EpochDone, Message, TrialDone
from aiperf.train.checkpoints.checkpoint import load
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.detection import Detection, DetectorNetwork
from aiperf.train.loop import train_here
from aiperf.train.trainer_config import TrainerConf
from morphism import Detector
from morphism.detector import DETECTORS
from tests.builders.detection import FIELDS, SMALL, targets
from tests.builders.order import order

TASK = Detection()
CONF = TrainerConf(threads=1, precision="fp32", compile="off", learning_rate=0.02)
BOX = (4.0, 4.0, 28.0, 20.0, 1)


def network(detector: Detector = SMALL) -> DetectorNetwork:
    return TASK.initial_network(detector, 1)


def images(detector: Detector, count: int = 1) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(count, detector.channels, detector.height, detector.width, generator=draw)


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("is_training", [False, True])
def test_operations_equal_torchs_counter(name: str, is_training: bool) -> None:
    detector = Detector(name, 64, 96)
    module = network(detector).train(is_training)
    module.missing_regions = module.evaluated_regions = 0
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(is_training):
        if is_training:
            module(images(detector), targets(BOX)).backward()
        else:
            module(images(detector))

    regions = detector.sizes.regions - module.missing_regions if is_training else module.evaluated_regions
    counted = detector.counts.with_regions(regions)

    assert regions > 1
    assert counter.get_total_flops() == counted.forward_flops + counted.backward_flops * is_training


@pytest.mark.parametrize("name", DETECTORS)
def test_parameters_equal_the_closed_form(name: str) -> None:
    detector = Detector(name, 64, 96)
    parameters = list(network(detector).parameters())

    assert sum(each.numel() for each in parameters) == detector.cost.parameters
    assert len(parameters) == detector.counts.tensors


def test_initial_weights_are_a_function_of_the_seed() -> None:
    torch.manual_seed(9)
    drawn = torch.rand(1)
    torch.manual_seed(9)
    first, same, other = (TASK.initial_network(SMALL, seed).state_dict() for seed in (1, 1, 2))

    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert torch.equal(torch.rand(1), drawn), "the random numbers of the process go on"


def test_boxes_are_computed_in_fp32_under_bf16() -> None:
    """In BF16 a coordinate near 1000 would be a multiple of 4."""
    wide = Detector("faster_rcnn_small", 32, 1024)
    module = network(wide).eval()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        (found,) = module(images(wide).bfloat16())
    anchors = module.rpn.anchor_generator

    assert found["boxes"].dtype == torch.float32
    assert all(cell.dtype == torch.float32 for cell in anchors.cell_anchors)


def test_missing_regions_are_counted() -> None:
    """Images of 32×32 pixels have fewer candidates than the 512 regions of the large detector."""
    tiny = Detector("faster_rcnn_r50", 32, 32)
    module = network(tiny).train()
    module(images(tiny, 2), targets(BOX, images=2))

    assert 0 < module.missing_regions < 2 * 512


def test_image_without_boxes_has_a_finite_loss() -> None:
    module = network().train()
    loss = module(images(SMALL, 2), targets(images=2))
    loss.backward()

    assert torch.isfinite(loss)
    assert all(parameter.grad is not None for parameter in module.parameters())


def batches_of(data: OpenData, rank: int, ranks: int) -> list[Batch]:
    of_rank: RankBatches = {
        "rank": rank,
        "ranks": ranks,
        "device": torch.device("cpu"),
        "channels_last": False,
        "dtype": torch.float32,
    }
    return list(data.validation(1, **of_rank))


def test_quality_is_independent_of_the_ranks() -> None:
    """Slots of 1, 2 and 3 ranks add up to equal detections. A network of random weights finds wrong boxes."""
    found = []
    with open_data(FIELDS) as data, torch.inference_mode():
        for ranks in (1, 2, 3):
            own = []
            for rank in range(ranks):
                module = network().eval()
                sums = TASK.validation_sums(module, FIELDS.validation_images)
                for batch in batches_of(data, rank, ranks):
                    sums.add(module, batch)
                own.append(sums.read())
            found.append([sum(values) for values in zip(*own, strict=True)])

    qualities = [TASK.quality(sums, FIELDS.validation_images) for sums in found]
    assert qualities[0] == qualities[1] == qualities[2]
    assert qualities[0].regions > FIELDS.validation_images and qualities[0].loss is None
    one, *others = (TASK.detections(sums) for sums in found)
    for other in others:
        for image, same in zip(one, other, strict=True):
            assert (image.truth == same.truth).all() and (image.found == same.found).all()


def trained(folder: Path, conf: TrainerConf = CONF, **changes: object) -> list[Message]:
    with ExitStack() as stack:
        data = stack.enter_context(open_data(FIELDS))
        return list(train_here(order(batch_size=4, **changes), conf, data, SMALL, folder))


def done(words: list[Message]) -> list[EpochDone]:
    return [word for word in words if isinstance(word, EpochDone)]


def test_epochs_report_quality_and_regions(tmp_path: Path) -> None:
    words = trained(tmp_path, last_epoch=2)

    for epoch in done(words):
        assert epoch.validation_loss is None and 0 <= epoch.accuracy <= 1
        assert (epoch.advanced.training_images, epoch.advanced.validation_images) == (16, 6)
        assert 6 < epoch.regions <= 6 * SMALL.sizes.most_regions and epoch.missing_regions == 0
    assert done(words)[1].training_loss < done(words)[0].training_loss
    assert isinstance(words[-1], TrialDone)


def test_resumed_trial_has_the_weights_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", last_epoch=2)
    trained(tmp_path / "parts", last_epoch=1)
    rest = trained(tmp_path / "parts", first_epoch=2, last_epoch=2, losses=(done(whole)[0].training_loss,))

    states = [load(CheckpointFolder(tmp_path / name), 1, SMALL.fingerprint, 2).weights for name in ("whole", "parts")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert done(rest)[-1].accuracy == done(whole)[-1].accuracy


def test_divergence_is_judged_by_the_training_loss(tmp_path: Path) -> None:
    words = trained(tmp_path, TrainerConf(threads=1, precision="fp32", compile="off", learning_rate=1000), last_epoch=4)

    assert isinstance(words[-1], Crashed) and words[-1].cause == "divergence"
