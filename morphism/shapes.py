"""Output shapes of the operations of a network, for one sample (image or sequence), without the batch dimension."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias, assert_never

from morphism import ops


@dataclass(frozen=True, slots=True)
class Map:
    """Feature maps of one image: channels × height × width."""

    NOUN: ClassVar = "maps"
    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Number of elements of one image's maps: channels × height × width."""
        return self.channels * self.height * self.width

    @property
    def extent(self) -> str:
        """Size without channels, for a drawing."""
        return f"{self.height}×{self.width}"

    def __str__(self) -> str:
        return f"{self.channels}×{self.height}×{self.width}"


@dataclass(frozen=True, slots=True)
class Vector:
    """Vector of features of one image, for example after global average pooling."""

    NOUN: ClassVar = "a vector"
    extent: ClassVar = "vector"
    features: int

    @property
    def elements(self) -> int:
        return self.features

    def __str__(self) -> str:
        return str(self.features)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Features of each token of one sequence: length × features."""

    NOUN: ClassVar = "tokens"
    length: int
    features: int

    @property
    def elements(self) -> int:
        """Number of elements of one sequence: length × features."""
        return self.length * self.features

    @property
    def extent(self) -> str:
        return f"{self.length} tokens"

    def __str__(self) -> str:
        return f"{self.length}×{self.features}"


@dataclass(frozen=True, slots=True)
class TokenNumbers:
    """Numbers of the tokens of one sequence, each from 0 to `vocabulary` − 1: the input of a language model."""

    NOUN: ClassVar = "token numbers"
    length: int
    vocabulary: int

    @property
    def elements(self) -> int:
        return self.length

    @property
    def extent(self) -> str:
        return f"{self.length} tokens"

    def __str__(self) -> str:
        return f"{self.length} of {self.vocabulary}"


Shape: TypeAlias = Map | Vector | Tokens | TokenNumbers


def channels_of(shape: Shape) -> int:
    """Return the channels of maps, or the features of a vector or of a token."""
    if isinstance(shape, Map):
        return shape.channels
    assert not isinstance(shape, TokenNumbers)
    return shape.features


def output_shape(op: ops.Op, inputs: tuple[Shape, ...]) -> Shape:
    """Return the output shape of the operation `op`, for one sample. `inputs`: output shapes of its input nodes, in order.

    Raise IllegalGraph if the number or the shapes of the inputs do not fit the operation.
    """
    match op:
        case ops.BatchNormalisation():
            return _one_map(op, inputs)
        case ops.Relu() | ops.Dropout():
            return _one(op, inputs, Map, Vector)
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
            if not isinstance(left, Map | Tokens) or left != right:
                raise ops.IllegalGraph(
                    f"the inputs of Add must be maps or tokens of one shape. These are {left} and {right}: "
                    "change one shape with a 1×1 convolution"
                )
            return left
        case ops.Concat():
            return _concatenated(inputs)
        case ops.GlobalAveragePooling():
            return Vector(_one_map(op, inputs).channels)
        case ops.Dense():
            features = _one(op, inputs, Vector, Tokens)
            return Tokens(features.length, op.out_features) if isinstance(features, Tokens) else Vector(op.out_features)
        case ops.Softmax():
            return _one(op, inputs, Vector, Tokens)
        case ops.RmsNorm() | ops.Attention() | ops.GatedMlp():
            return _one(op, inputs, Tokens)
        case ops.Embedding():
            return Tokens(_one(op, inputs, TokenNumbers).elements, op.features)
        case ops.Input() | ops.TokenInput():
            if inputs:
                raise ops.IllegalGraph(f"{type(op).__name__} has no inputs. Remove them")
            if isinstance(op, ops.TokenInput):
                return TokenNumbers(op.length, op.vocabulary)
            return Map(op.channels, op.height, op.width)
        case _:
            assert_never(op)


_FIXES: dict[type[Shape], str] = {
    Map: "place it before the pooling",
    Vector: "insert a global average pooling",
    Tokens: "insert an Embedding",
    TokenNumbers: "let it read the TokenInput",
}
"""Ways to an input of this kind."""


def _one(op: ops.Op, inputs: tuple[Shape, ...], *kinds: type[Shape]) -> Shape:
    """Return the only input of an operation, which must be of one of the kinds."""
    if len(inputs) != 1:
        raise ops.IllegalGraph(
            f"{type(op).__name__} must have one input. This one has {len(inputs)}: correct its inputs"
        )
    entering = inputs[0]
    if not isinstance(entering, kinds):
        raise ops.IllegalGraph(
            f"the input of {type(op).__name__} must be {' or '.join(kind.NOUN for kind in kinds)}. It is {entering.NOUN} of "
            f"{entering}: {_FIXES[kinds[0]]}"
        )
    return entering


def _one_map(op: ops.Op, inputs: tuple[Shape, ...]) -> Map:
    entering = _one(op, inputs, Map)
    assert isinstance(entering, Map)
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
            raise ops.IllegalGraph(
                f"the inputs of Concat must be maps. One is {entering.NOUN} of {entering}: remove it"
            )
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
