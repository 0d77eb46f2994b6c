"""Operations of Faster R-CNN R50-FPN: torch's count of torchvision's network, and the figures of HPC AI500's weather images."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models.detection import fasterrcnn_resnet50_fpn

from morphism import Detector, IllegalGraph
from morphism.detector import FASTER_RCNN_R50

CHANNELS, OUTPUTS, REGIONS = 16, 5, 512


def torchvisions(height: int, width: int) -> Any:
    """Return torchvision's network with a stem of 16 channels. It resizes images of this size 1:1."""
    torch.manual_seed(0)
    detector = fasterrcnn_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=OUTPUTS,
        min_size=min(height, width),
        max_size=max(height, width),
        image_mean=[0.0] * CHANNELS,
        image_std=[1.0] * CHANNELS,
        box_batch_size_per_image=REGIONS,
    )
    detector.backbone.body.conv1 = nn.Conv2d(CHANNELS, 64, 7, stride=2, padding=3, bias=False)
    return detector


def counted_by_torch(height: int, width: int, *, is_training: bool) -> tuple[int, int]:
    """Return torch's operations of one image, with the backward pass in training, and its number of regions."""
    detector, regions = torchvisions(height, width).train(is_training), []
    detector.roi_heads.box_head.register_forward_hook(lambda _, entering, __: regions.append(len(entering[0])))
    images = [torch.randn(CHANNELS, height, width)]
    truth = [{"boxes": torch.tensor([[4.0, 4.0, 28.0, 20.0]]), "labels": torch.tensor([1])}]
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(is_training):
        if is_training:
            sum(detector(images, truth).values()).backward()
        else:
            detector(images)
    (number,) = regions
    return counter.get_total_flops(), number


@pytest.mark.parametrize(("height", "width"), [(32, 64), (64, 96), (160, 96)])
@pytest.mark.parametrize("is_training", [False, True])
def test_operations_equal_torchs_counter(height: int, width: int, is_training: bool) -> None:
    expected, regions = counted_by_torch(height, width, is_training=is_training)

    counted = Detector(FASTER_RCNN_R50, height, width).counts.with_regions(regions)

    assert regions > 1
    assert counted.forward_flops + counted.backward_flops * is_training == expected


def test_parameters_equal_torchvisions() -> None:
    tensors = list(torchvisions(64, 96).parameters())
    counted = Detector(FASTER_RCNN_R50, 64, 96).counts

    assert counted.parameters == sum(each.numel() for each in tensors) == 41_408_424
    assert counted.tensors == len(tensors) == 189


def test_weather_images_have_the_published_operations() -> None:
    counted = Detector(FASTER_RCNN_R50).counts
    whole = counted.with_regions(REGIONS)

    assert round(counted.per_image.forward_flops / 1e9, 3) == 349.845
    assert round(counted.per_region.forward_flops / 1e6, 3) == 27.838
    assert round(whole.forward_flops / 1e9, 3) == 364.099
    assert round((whole.forward_flops + whole.backward_flops) / 1e9, 3) == 1070.1


@pytest.mark.parametrize(
    ("sides", "message"), [((100, 96), "height .* found 100: use 96"), ((96, 0), "width .* use 32")]
)
def test_sides_that_are_not_multiples_of_32_are_refused(sides: tuple[int, int], message: str) -> None:
    with pytest.raises(IllegalGraph, match=message):
        Detector(FASTER_RCNN_R50, *sides)
