"""Object detectors: Faster R-CNN with a feature pyramid, and its operations and parameters in closed form.

The networks are torchvision's (`FasterRCNN`, Ren et al. 2015, Lin et al. 2017) with an own first convolution. Only tensor
operations are counted, because the figures must equal those of torch.utils.flop_counter. An image is counted apart from its
regions, because training samples a fixed number of regions and evaluation has a variable number.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType

from morphism.cost import KINDS, Cost, LayerCost, layer_cost, total
from morphism.ops import BatchNormalisation, Convolution, Dense, IllegalGraph
from morphism.shapes import Map, Vector

FASTER_RCNN_R50 = "faster_rcnn_r50"
"""Detector of HPC AI500's extreme weather."""
ANCHORS = 3
"""Anchors per position of a level."""
SIZE_OF_REGION = 7
"""Height and width of a region's features."""
STEP_OF_SIDES = 32
"""Greatest stride of the backbone. Sides of images are multiples of it."""
LARGEST_SIDE = 16_384
LARGEST_CHANNELS = 65_536


@dataclass(frozen=True, slots=True)
class DetectorSizes:
    """Sizes of a detection network: layers, widths, regions and anchors."""

    stem: int
    """Kernel of the first convolution, which has stride 2. A 3×3 max-pooling of stride 2 follows."""
    blocks: tuple[int, ...]
    """Residual blocks of the four stages."""
    is_bottleneck: bool
    """True for blocks of three convolutions with four times the channels, as in ResNet-50 v1.5."""
    width_of_pyramid: int
    """Channels of the feature pyramid and of the region proposal network."""
    width_of_head: int
    """Features of the two hidden layers of the head."""
    regions: int
    """Regions per image in training."""
    most_regions: int
    """Most regions per image in evaluation."""
    anchors: tuple[int, ...]
    """Side of the square anchors of each level, in pixels."""


DETECTORS: Mapping[str, DetectorSizes] = MappingProxyType(
    {
        FASTER_RCNN_R50: DetectorSizes(7, (3, 4, 6, 3), True, 256, 1024, 512, 1000, (32, 64, 128, 256, 512)),
        "faster_rcnn_small": DetectorSizes(3, (2, 2, 2, 2), False, 64, 256, 64, 300, (4, 8, 16, 32, 64)),
    }
)
"""Detectors by name."""


@dataclass(frozen=True, slots=True)
class TensorOperations:
    """Floating-point operations of convolutions and matrix products, forward and backward."""

    forward_flops: int
    backward_flops: int


@dataclass(frozen=True, slots=True)
class DetectorCounts:
    """Operations and parameters of a detector, counted for one image size."""

    per_image: TensorOperations
    """Operations per image of backbone, feature pyramid and region proposal network."""
    per_region: TensorOperations
    """Operations of the head per region (a rectangle that may contain an object)."""
    parameters: int
    """Trained values, without running statistics."""
    tensors: int
    """Parameter tensors."""
    held_elements: int
    """Elements that the forward pass of an image with the regions of training stores for the backward pass."""

    def with_regions(self, regions: int) -> TensorOperations:
        """Return the floating-point operations of one image, forward and backward, with `regions` regions.

        A region is a rectangle that the head classifies. Only convolutions and matrix products count.
        """
        return TensorOperations(
            self.per_image.forward_flops + regions * self.per_region.forward_flops,
            self.per_image.backward_flops + regions * self.per_region.backward_flops,
        )


@dataclass(frozen=True)
class Detector:
    """A detector for images of one size. Raise IllegalGraph for an unknown network or an impossible size."""

    network: str
    """Name in DETECTORS."""
    height: int = 768
    """Height of the images in pixels, a multiple of 32."""
    width: int = 1152
    channels: int = 16
    outputs: int = 5
    """Number of classes, the background included."""

    def __post_init__(self) -> None:
        if self.network not in DETECTORS:
            raise IllegalGraph(
                f"a detector is one of {', '.join(DETECTORS)}, but found {self.network!r}: use one of them"
            )
        for name, value in (("channels", self.channels), ("outputs", self.outputs)):
            if type(value) is not int or not 1 <= value <= LARGEST_CHANNELS:
                raise IllegalGraph(
                    f"{name} of a detector is an integer from 1 to {LARGEST_CHANNELS}, but found {value!r}: change it"
                )
        for name, side in (("height", self.height), ("width", self.width)):
            if type(side) is not int or side % STEP_OF_SIDES or not STEP_OF_SIDES <= side <= LARGEST_SIDE:
                nearest = (
                    max(1, round(side / STEP_OF_SIDES)) * STEP_OF_SIDES if isinstance(side, int) else STEP_OF_SIDES
                )
                raise IllegalGraph(
                    f"the {name} of a detector's image is a multiple of {STEP_OF_SIDES}, at most {LARGEST_SIDE}, but found "
                    f"{side!r}: use {min(nearest, LARGEST_SIDE)}"
                )

    @property
    def sizes(self) -> DetectorSizes:
        """Kernel, blocks, widths, regions and anchors of the network."""
        return DETECTORS[self.network]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all fields and of the sizes of the network, as 32 hexadecimal digits."""
        described = repr((sorted(asdict(self).items()), self.sizes))
        return hashlib.blake2b(described.encode("ascii"), digest_size=16).hexdigest()

    @cached_property
    def counts(self) -> DetectorCounts:
        """Floating-point operations per image and per region, parameters, and elements stored for the backward pass."""
        sizes, image = self.sizes, _Layers()
        levels = image.backbone(Map(self.channels, self.height, self.width), sizes)
        width = sizes.width_of_pyramid
        for level in levels:
            image.biased(level, width, 1)  # lateral
            image.biased(Map(width, level.height, level.width), width, 3)
        pyramid = [Map(width, level.height, level.width) for level in levels]
        coarsest = pyramid[-1]  # the fifth level is max-pooled from it: 1×1, stride 2
        pyramid.append(Map(width, (coarsest.height + 1) // 2, (coarsest.width + 1) // 2))
        for number, level in enumerate(pyramid):  # the levels share their weights
            for out_channels, kernel in ((width, 3), (ANCHORS, 1), (4 * ANCHORS, 1)):
                image.biased(level, out_channels, kernel, is_shared=number > 0)
            image.held += 3 * level.elements  # sum of the pyramid, input and hidden map of the proposal network

        region = _Layers()
        features = SIZE_OF_REGION * SIZE_OF_REGION * width
        region.held = features
        for inside, outside in (
            (features, sizes.width_of_head),
            (sizes.width_of_head, sizes.width_of_head),
            (sizes.width_of_head, self.outputs),
            (sizes.width_of_head, 4 * self.outputs),
        ):
            region.dense(inside, outside)
        return DetectorCounts(
            image.operations,
            region.operations,
            image.parameters + region.parameters,
            image.tensors + region.tensors,
            image.held + sizes.regions * region.held,
        )

    @cached_property
    def cost(self) -> Cost:
        """Operations per image, parameters and stored elements.

        Training includes the fixed number of regions (rectangles that may contain an object), and validation includes none.
        """
        counts, image = self.counts, self.counts.per_image
        training = counts.with_regions(self.sizes.regions)
        convolutions = LayerCost(image.forward_flops, image.forward_flops, image.backward_flops)
        regions = LayerCost(
            training.forward_flops - image.forward_flops, 0, training.backward_flops - image.backward_flops
        )
        return Cost(
            forward_flops=training.forward_flops,
            forward_validation_flops=image.forward_flops,
            backward_flops=training.backward_flops,
            tensor_forward_flops=training.forward_flops,
            tensor_backward_flops=training.backward_flops,
            parameters=counts.parameters,
            held_elements=counts.held_elements,
            index_elements=0,
            largest_elements=0,
            by_kind=MappingProxyType(
                dict.fromkeys(KINDS, LayerCost()) | {"convolution": convolutions, "dense": regions}
            ),
            region_flops=counts.per_region.forward_flops,
        )


@dataclass(slots=True)
class _Layers:
    """Sums over layers, counted by `layer_cost`."""

    costs: list[LayerCost] = field(default_factory=list)
    tensors: int = 0
    parameters: int = 0
    held: int = 0
    """Elements that the backward pass reads. Outputs of convolutions with a bias are not included."""

    @property
    def operations(self) -> TensorOperations:
        summed = total(self.costs)
        return TensorOperations(summed.tensor_forward_flops, summed.tensor_backward_flops)

    def _add(self, counted: LayerCost, tensors: int) -> None:
        self.costs.append(counted)
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
        self.held += 2 * leaving.elements  # input of the normalisation, and output of the ReLU
        return leaving

    def backbone(self, image: Map, sizes: DetectorSizes) -> list[Map]:
        """Add a residual network without its classifier. Return the outputs of its four stages."""
        stem = self.normalised(image, 64, sizes.stem, stride=2, reads_image=True)
        at = Map(64, stem.height // 2, stem.width // 2)  # max-pooling
        self.held += image.elements + at.elements
        growth = 4 if sizes.is_bottleneck else 1
        stages = []
        for stage, blocks in enumerate(sizes.blocks):
            width = 64 * 2**stage
            for block in range(blocks):
                stride = 2 if block == 0 and stage else 1
                if block == 0 and (stride != 1 or at.channels != growth * width):
                    shortcut = self.normalised(at, growth * width, 1, stride)
                    self.held -= shortcut.elements  # no ReLU follows
                at = self._block(at, width, stride, is_bottleneck=sizes.is_bottleneck)
            stages.append(at)
        return stages

    def _block(self, at: Map, width: int, stride: int, *, is_bottleneck: bool) -> Map:
        if is_bottleneck:
            return self.normalised(self.normalised(self.normalised(at, width, 1), width, 3, stride), 4 * width, 1)
        return self.normalised(self.normalised(at, width, 3, stride), width, 3)
