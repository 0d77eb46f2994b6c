"""Output shapes of the operations of a network, for one image, without the batch dimension."""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from morphism import ops


@dataclass(frozen=True, slots=True)
class Map:
    """Feature maps of one image: channels × height × width."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Number of elements of one image's maps: channels × height × width."""
        return self.channels * self.height * self.width

    def __str__(self) -> str:
        return f"{self.channels}×{self.height}×{self.width}"


@dataclass(frozen=True, slots=True)
class Vector:
    """Vector of features of one image, for example after global average pooling."""

    features: int

    @property
    def elements(self) -> int:
        return self.features

    def __str__(self) -> str:
        return str(self.features)


Shape: TypeAlias = Map | Vector


def channels_of(shape: Shape) -> int:
    return shape.channels if isinstance(shape, Map) else shape.features


def output_shape(op: ops.Op, inputs: tuple[Shape, ...]) -> Shape:
    """Return the output shape of the operation `op`, for one image. `inputs`: output shapes of its input nodes, in order.

    Raise IllegalGraph if the number or the shapes of the inputs do not fit the operation.
    """
    match op:
        case ops.BatchNormalisation():
            return _one_map(op, inputs)
        case ops.Relu() | ops.Dropout():
            return _one(op, inputs)
        case ops.Convolution():
            entering = _one_map(op, inputs)
            if entering.channels % op.groups:
                raise ops.IllegalGraph(
                    f"groups must divide the input channels of a convolution, but {op.groups} does not divide "
                    f"{entering.channels}. Choose another number of groups"
                )
            return Map(op.out_channels, *_windows(op, entering))
        case ops.MaxPooling() | ops.AveragePooling():
            entering = _one_map(op, inputs)
            return Map(entering.channels, *_windows(op, entering))
        case ops.Add():
            if len(inputs) != 2:
                raise ops.IllegalGraph(f"Add has two inputs. This one has {len(inputs)}: chain several Adds")
            left, right = inputs
            if not isinstance(left, Map) or left != right:
                raise ops.IllegalGraph(
                    f"the inputs of Add must be maps of one shape. These are {left} and {right}: "
                    "change one shape with a 1×1 convolution"
                )
            return left
        case ops.Concat():
            return _concatenated(inputs)
        case ops.GlobalAveragePooling():
            return Vector(_one_map(op, inputs).channels)
        case ops.Dense():
            _one_vector(op, inputs)
            return Vector(op.out_features)
        case ops.Softmax():
            return _one_vector(op, inputs)
        case ops.Input():
            if inputs:
                raise ops.IllegalGraph("Input has no inputs. Remove them")
            return Map(op.channels, op.height, op.width)
        case _:
            assert_never(op)


def _one(op: ops.Op, inputs: tuple[Shape, ...]) -> Shape:
    if len(inputs) != 1:
        raise ops.IllegalGraph(
            f"{type(op).__name__} must have one input. This one has {len(inputs)}: correct its inputs"
        )
    return inputs[0]


def _one_map(op: ops.Op, inputs: tuple[Shape, ...]) -> Map:
    entering = _one(op, inputs)
    if not isinstance(entering, Map):
        raise ops.IllegalGraph(
            f"the input of {type(op).__name__} must be maps. It is a vector of {entering}: place it before the pooling"
        )
    return entering


def _one_vector(op: ops.Op, inputs: tuple[Shape, ...]) -> Vector:
    entering = _one(op, inputs)
    if not isinstance(entering, Vector):
        raise ops.IllegalGraph(
            f"the input of {type(op).__name__} must be a vector. It is maps of {entering}: insert a global average pooling"
        )
    return entering


def _windows(op: ops.Convolution | ops.MaxPooling | ops.AveragePooling, entering: Map) -> tuple[int, int]:
    height = (entering.height + 2 * op.padding - op.kernel) // op.stride + 1
    width = (entering.width + 2 * op.padding - op.kernel) // op.stride + 1
    if height < 1 or width < 1:
        raise ops.IllegalGraph(
            f"a {op.kernel}×{op.kernel} window with padding {op.padding} does not fit on maps of {entering}. "
            "Use a smaller kernel, more padding or a larger image"
        )
    return height, width


def _concatenated(inputs: tuple[Shape, ...]) -> Map:
    if len(inputs) < 2:
        raise ops.IllegalGraph(f"Concat has at least two inputs. This one has {len(inputs)}: remove it")
    channels, sizes = 0, set()
    for entering in inputs:
        if not isinstance(entering, Map):
            raise ops.IllegalGraph(f"the inputs of Concat must be maps. One is a vector of {entering}: remove it")
        channels += entering.channels
        sizes.add((entering.height, entering.width))
    if len(sizes) != 1:
        raise ops.IllegalGraph(
            f"the inputs of Concat must have one height and width. These are {', '.join(map(str, inputs))}: "
            "change their sizes with a stride or a pooling"
        )
    if channels > ops.LARGEST_CHANNELS:
        raise ops.IllegalGraph(f"maps have at most {ops.LARGEST_CHANNELS} channels. These have {channels}: join fewer")
    ((height, width),) = sizes
    return Map(channels, height, width)
