"""Training and evaluation of object detectors: torchvision's Faster R-CNN. Quality: mean average precision at 0.5 IoU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FasterRCNN, FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import RPNHead
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from aiperf.accounting.average_precision import MOST_FOUND, ImageDetections, mean_average_precision, require_pycocotools
from aiperf.data.batches import Batch
from aiperf.data.files.weather_files import BOX_ROWS
from aiperf.journal.events import Metric
from aiperf.train.precision import Precision
from aiperf.train.task import Quality
from morphism import Architecture, Detector
from morphism.detector import ANCHORS, SIZE_OF_REGION

_ASPECTS = (0.5, 1.0, 2.0)
assert len(_ASPECTS) == ANCHORS


class _Fp32Anchors(AnchorGenerator):  # type: ignore[misc]  # torchvision has no type hints
    """Anchors in FP32. In 16 bits, coordinates above 256 would be rounded to even numbers."""

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        anchors: list[Tensor] = super().forward(image_list, [level[:, :0].float() for level in feature_maps])
        return anchors


class _Fp32Proposals(RPNHead):  # type: ignore[misc]  # torchvision has no type hints
    """Region proposal head with FP32 outputs, from which boxes are computed in FP32."""

    def forward(self, levels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        scores, boxes = super().forward(levels)
        return [level.float() for level in scores], [level.float() for level in boxes]


class _Fp32Predictor(FastRCNNPredictor):  # type: ignore[misc]  # torchvision has no type hints
    def forward(self, regions: Tensor) -> tuple[Tensor, Tensor]:
        scores, boxes = super().forward(regions)
        return scores.float(), boxes.float()


class DetectorNetwork(FasterRCNN):  # type: ignore[misc]  # torchvision has no type hints
    """Faster R-CNN without torchvision's resizing, which interpolates even to an equal size."""

    def __init__(self, detector: Detector) -> None:
        sizes = detector.sizes
        body = ResNet(Bottleneck if sizes.is_bottleneck else BasicBlock, list(sizes.blocks))
        body.conv1 = nn.Conv2d(detector.channels, 64, sizes.stem, stride=2, padding=sizes.stem // 2, bias=False)
        nn.init.kaiming_normal_(body.conv1.weight, mode="fan_out", nonlinearity="relu")  # as in torchvision's ResNet
        stages = [64 * 2**stage * (4 if sizes.is_bottleneck else 1) for stage in range(4)]
        layers = {f"layer{stage + 1}": str(stage) for stage in range(4)}
        width = sizes.width_of_pyramid
        super().__init__(
            BackboneWithFPN(body, layers, stages, width),
            rpn_anchor_generator=_Fp32Anchors(
                tuple((side,) for side in sizes.anchors), (_ASPECTS,) * len(sizes.anchors)
            ),
            rpn_head=_Fp32Proposals(width, ANCHORS),
            box_head=TwoMLPHead(width * SIZE_OF_REGION**2, sizes.width_of_head),
            box_predictor=_Fp32Predictor(sizes.width_of_head, detector.outputs),
            box_batch_size_per_image=sizes.regions,
            rpn_post_nms_top_n_test=sizes.most_regions,
        )
        self.transform = nn.Identity()
        self.sampled_regions = sizes.regions
        self.evaluated_regions = 0
        """Regions of all evaluated images."""
        self.missing_regions = 0
        """Regions of training images that could not be sampled."""
        self.roi_heads.box_head.register_forward_pre_hook(self._count)

    def _count(self, head: nn.Module, regions: tuple[Tensor]) -> None:
        self._regions = len(regions[0])

    def forward(self, images: Tensor, targets: Tensor | None = None) -> Any:
        """In training, the sum of the four losses. In evaluation, one dict of detections per image.

        `images`: (batch, channels, height, width). `targets`: (batch, rows, 5) with x1, y1, x2, y2 in pixels and the class, 0
        in empty rows. A dict has 'boxes' (n, 4) in pixels, 'labels' (n,) and 'scores' (n,).
        """
        sides = [(images.shape[2], images.shape[3])] * len(images)
        truth = None if targets is None else [_truth(rows) for rows in targets]
        levels = self.backbone(images)
        proposals, proposal_losses = self.rpn(ImageList(images, sides), levels, truth)
        detections, head_losses = self.roi_heads(levels, proposals, sides, truth)
        if not self.training:
            self.evaluated_regions += self._regions
            return detections
        self.missing_regions += self.sampled_regions * len(images) - self._regions
        return sum([*proposal_losses.values(), *head_losses.values()])


def _truth(rows: Tensor) -> dict[str, Tensor]:
    used = rows[rows[:, 4] > 0]
    return {"boxes": used[:, :4], "labels": used[:, 4].long()}


class Detection:
    """Task of detecting boxes with classes. The initial weights of a detector depend on the seed only."""

    metric: ClassVar[Metric] = "map50"

    def __init__(self) -> None:
        require_pycocotools()  # before the first epoch

    def blank(
        self, architecture: Architecture, batch: int, device: torch.device, precision: Precision, *, channels_last: bool
    ) -> None:
        return None

    def build(self, architecture: Architecture) -> DetectorNetwork:
        assert isinstance(architecture, Detector)
        return DetectorNetwork(architecture)

    def initial_network(self, architecture: Architecture, seed: int) -> DetectorNetwork:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build(architecture)

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        loss: Tensor = module(batch.images, batch.targets)
        return loss

    def validation_sums(self, network: nn.Module, images: int) -> _DetectionSums:
        assert isinstance(network, DetectorNetwork)
        return _DetectionSums(network, images)

    def quality(self, sums: Sequence[float], images: int) -> Quality:
        missing, regions = sums[:_COUNTS]
        detections = self.detections(sums)
        assert len(detections) == images, "each image has a slot"
        return Quality(mean_average_precision(detections), None, round(regions), round(missing))

    def detections(self, sums: Sequence[float]) -> list[ImageDetections]:
        return [_unpacked(slot) for slot in np.array(sums[_COUNTS:]).reshape(-1, _SLOT)]


_COUNTS = 2
"""Sums before the slots: missing regions and evaluated regions."""
_TRUTH, _SLOT = BOX_ROWS * 5, BOX_ROWS * 5 + MOST_FOUND * 6
"""Values of the true boxes of an image, and of its slot: true boxes and then detections."""


def _unpacked(slot: NDArray[np.float64]) -> ImageDetections:
    truth, detections = slot[:_TRUTH].reshape(-1, 5), slot[_TRUTH:].reshape(-1, 6)
    return ImageDetections(truth[truth[:, 4] > 0], detections[detections[:, 5] > 0])


class _DetectionSums:
    def __init__(self, network: DetectorNetwork, images: int) -> None:
        self._network = network
        self._missing, network.missing_regions, network.evaluated_regions = network.missing_regions, 0, 0
        self._slots = np.zeros((images, _SLOT))

    def add(self, network: nn.Module, batch: Batch) -> None:
        truth = batch.targets.flatten(1).cpu().numpy()
        self._slots[batch.numbers, :_TRUTH] = truth
        for number, found in zip(batch.numbers.tolist(), network.forward(batch.images), strict=True):
            columns = (found["boxes"], found["scores"][:, None], found["labels"][:, None])
            rows = torch.cat([column.float() for column in columns], 1).flatten().cpu().numpy()
            self._slots[number, _TRUTH : _TRUTH + rows.size] = rows

    def read(self) -> list[float]:
        return [self._missing, self._network.evaluated_regions, *self._slots.ravel().tolist()]
