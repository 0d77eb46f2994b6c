"""Operations and parameters of Faster R-CNN with a feature pyramid, in closed form.

The network is torchvision's `fasterrcnn_resnet50_fpn` (Ren et al. 2015, Lin et al. 2017) with the sizes of HPC AI500's extreme
weather: 16 channels, four classes and the background. Only tensor operations are counted (convolutions and matrix
products, multiply-accumulate 2), so that the figures equal those of torch.utils.flop_counter. Selection of regions, RoI
align and losses have none. An image is counted apart from its regions, because evaluation has a variable number of regions.
"""

from dataclasses import dataclass

from morphism.cost import LayerCost, layer_cost, total
from morphism.ops import BatchNormalisation, Convolution, Dense, IllegalGraph
from morphism.shapes import Map, Vector

FASTER_RCNN_R50 = "faster_rcnn_r50"
"""Name of the detector."""
REGIONS = 512
"""Regions per image in training."""
WIDTH_OF_PYRAMID = 256
"""Channels of the feature pyramid and of the region proposal network."""
ANCHORS = 3
"""Anchors per position of a level."""
WIDTH_OF_HEAD = 1024
SIZE_OF_REGION = 7
"""Height and width of a region's features."""
STEP_OF_SIDES = 32
"""Greatest stride of the backbone. Sides of images are multiples of it."""


@dataclass(frozen=True, slots=True)
class TensorOperations:
    """Tensor operations of one pass, forward and backward."""

    forward_flops: int
    backward_flops: int


@dataclass(frozen=True, slots=True)
class DetectorCost:
    """Cost of a detector."""

    per_image: TensorOperations
    """Backbone, feature pyramid and region proposal network."""
    per_region: TensorOperations
    """Head of one region."""
    parameters: int
    """Trained values, without running statistics."""
    tensors: int
    """Parameter tensors."""

    def with_regions(self, regions: int) -> TensorOperations:
        """Return the operations of an image with this number of regions."""
        return TensorOperations(
            self.per_image.forward_flops + regions * self.per_region.forward_flops,
            self.per_image.backward_flops + regions * self.per_region.backward_flops,
        )


def faster_rcnn_r50(height: int = 768, width: int = 1152, channels: int = 16, outputs: int = 5) -> DetectorCost:
    """Return the cost of Faster R-CNN R50-FPN: 7×7 stem, FPN of 256 channels with five levels, head of 1024.

    Args:
        height, width: of the image in pixels, multiples of 32.
        outputs: classes and the background.

    Raises IllegalGraph for another height or width.
    """
    for name, side in (("height", height), ("width", width)):
        if side < STEP_OF_SIDES or side % STEP_OF_SIDES:
            raise IllegalGraph(
                f"the {name} of a detector's image is a multiple of {STEP_OF_SIDES}, but found {side}: "
                f"use {max(1, round(side / STEP_OF_SIDES)) * STEP_OF_SIDES}"
            )
    image = _Layers()
    levels = image.resnet50(Map(channels, height, width))
    for level in levels:
        image.biased(level, WIDTH_OF_PYRAMID, 1)  # lateral
        image.biased(Map(WIDTH_OF_PYRAMID, level.height, level.width), WIDTH_OF_PYRAMID, 3)
    pyramid = [Map(WIDTH_OF_PYRAMID, level.height, level.width) for level in levels]
    coarsest = pyramid[-1]  # the fifth level is max-pooled from it: 1×1, stride 2
    pyramid.append(Map(WIDTH_OF_PYRAMID, (coarsest.height + 1) // 2, (coarsest.width + 1) // 2))
    for number, level in enumerate(pyramid):  # the levels share their weights
        for out_channels, kernel in ((WIDTH_OF_PYRAMID, 3), (ANCHORS, 1), (4 * ANCHORS, 1)):
            image.biased(level, out_channels, kernel, is_shared=number > 0)

    region = _Layers()
    features = SIZE_OF_REGION * SIZE_OF_REGION * WIDTH_OF_PYRAMID
    for inside, outside in (
        (features, WIDTH_OF_HEAD),
        (WIDTH_OF_HEAD, WIDTH_OF_HEAD),
        (WIDTH_OF_HEAD, outputs),
        (WIDTH_OF_HEAD, 4 * outputs),
    ):
        region.dense(inside, outside)
    return DetectorCost(
        image.operations, region.operations, image.parameters + region.parameters, image.tensors + region.tensors
    )


class _Layers:
    """Sums over layers, counted by `layer_cost`."""

    def __init__(self) -> None:
        self._costs: list[LayerCost] = []
        self.tensors = 0
        self.parameters = 0

    @property
    def operations(self) -> TensorOperations:
        summed = total(self._costs)
        return TensorOperations(summed.tensor_forward_flops, summed.tensor_backward_flops)

    def _add(self, counted: LayerCost, tensors: int) -> None:
        self._costs.append(counted)
        self.tensors += tensors
        self.parameters += counted.parameters

    def biased(self, entering: Map, out_channels: int, kernel: int, *, is_shared: bool = False) -> None:
        """Add a convolution of stride 1 with bias. `is_shared`: its weights were already added."""
        leaving = Map(out_channels, entering.height, entering.width)
        counted = layer_cost(Convolution(out_channels, kernel, padding=kernel // 2), (entering,), leaving)
        if is_shared:
            self._add(counted._replace(parameters=0), 0)
        else:
            self._add(counted._replace(parameters=counted.parameters + out_channels), 2)

    def dense(self, in_features: int, out_features: int) -> None:
        self._add(layer_cost(Dense(out_features), (Vector(in_features),), Vector(out_features)), 2)

    def normalised(
        self, entering: Map, out_channels: int, kernel: int, stride: int = 1, *, reads_image: bool = False
    ) -> Map:
        """Add a convolution without bias and its batch normalisation. Return the output."""
        leaving = Map(out_channels, entering.height // stride, entering.width // stride)
        convolution = Convolution(out_channels, kernel, stride=stride, padding=kernel // 2)
        self._add(layer_cost(convolution, (entering,), leaving, reads_image=reads_image), 1)
        self._add(layer_cost(BatchNormalisation(), (leaving,), leaving), 2)
        return leaving

    def resnet50(self, image: Map) -> list[Map]:
        """Add ResNet-50 v1.5 without its classifier. Return the outputs of its four stages."""
        stem = self.normalised(image, 64, 7, stride=2, reads_image=True)
        at = Map(64, stem.height // 2, stem.width // 2)  # max-pooling
        stages = []
        for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
            for block in range(blocks):
                stride = 2 if block == 0 and width > 64 else 1
                if block == 0:
                    self.normalised(at, 4 * width, 1, stride)  # shortcut
                at = self.normalised(self.normalised(self.normalised(at, width, 1), width, 3, stride), 4 * width, 1)
            stages.append(at)
        return stages
