"""Operations of a network: a closed union of frozen dataclasses. Constructors check their values.

Shapes are in `shapes.py`, connections in `graph.py`.
"""

from dataclasses import dataclass
from typing import TypeAlias

BATCH_NORMALISATION_EPSILON = 1e-5
BATCH_NORMALISATION_MOMENTUM = 0.1

# Far above the sizes of real networks: a file beyond them is damaged or hostile.
LARGEST_CHANNELS = 65_536
LARGEST_MAP = 16_384
LARGEST_KERNEL = 255


class IllegalGraph(ValueError):
    """Network that breaks a rule. The message names the node, the rule and the fix."""


def _whole(op: object, field: str, value: object, least: int, most: int) -> None:
    # `type() is int`: isinstance accepts a bool as int
    if type(value) is not int or not least <= value <= most:
        raise IllegalGraph(
            f"{type(op).__name__}: {field} must be an integer from {least} to {most}. This one is {value!r}"
        )


@dataclass(frozen=True, slots=True)
class Input:
    """Image, channels × height × width. Always node 0."""

    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        _whole(self, "channels", self.channels, 1, LARGEST_CHANNELS)
        _whole(self, "height", self.height, 1, LARGEST_MAP)
        _whole(self, "width", self.width, 1, LARGEST_MAP)


@dataclass(frozen=True, slots=True)
class Convolution:
    """Square convolution without bias. Shape of weight: (out_channels, in_channels / groups, kernel, kernel)."""

    out_channels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    def __post_init__(self) -> None:
        _whole(self, "out_channels", self.out_channels, 1, LARGEST_CHANNELS)
        _whole(self, "kernel", self.kernel, 1, LARGEST_KERNEL)
        _whole(self, "stride", self.stride, 1, LARGEST_KERNEL)
        _whole(self, "padding", self.padding, 0, LARGEST_KERNEL)
        _whole(self, "groups", self.groups, 1, LARGEST_CHANNELS)
        if self.out_channels % self.groups:
            raise IllegalGraph(
                f"Convolution: groups must divide out_channels, but {self.groups} does not divide {self.out_channels}. "
                "Make out_channels a multiple of groups"
            )


@dataclass(frozen=True, slots=True)
class BatchNormalisation:
    """Normalises each channel over batch and map. Shapes of weight, bias, running_mean, running_var: (channels,)."""


@dataclass(frozen=True, slots=True)
class Relu:
    """max(0, x), on maps and vectors."""


@dataclass(frozen=True, slots=True)
class Add:
    """Sum of two maps of equal shape."""


@dataclass(frozen=True, slots=True)
class Concat:
    """Concatenation of two or more maps of equal height and width along the channels."""


def _window(op: "MaxPooling | AveragePooling") -> None:
    _whole(op, "kernel", op.kernel, 1, LARGEST_KERNEL)
    _whole(op, "stride", op.stride, 1, LARGEST_KERNEL)
    # with more padding than half the window, some windows would contain only padding
    _whole(op, "padding", op.padding, 0, op.kernel // 2)


@dataclass(frozen=True, slots=True)
class MaxPooling:
    """Maximum of each window. Padding is ignored."""

    kernel: int
    stride: int
    padding: int = 0

    def __post_init__(self) -> None:
        _window(self)


@dataclass(frozen=True, slots=True)
class AveragePooling:
    """Mean of each window. Padding counts as zeros."""

    kernel: int
    stride: int
    padding: int = 0

    def __post_init__(self) -> None:
        _window(self)


@dataclass(frozen=True, slots=True)
class GlobalAveragePooling:
    """Mean of each channel over its map: a map becomes a vector."""


@dataclass(frozen=True, slots=True)
class Dense:
    """Matrix product with bias. Shapes: weight (out_features, in_features), bias (out_features,)."""

    out_features: int

    def __post_init__(self) -> None:
        _whole(self, "out_features", self.out_features, 1, LARGEST_CHANNELS)


@dataclass(frozen=True, slots=True)
class Dropout:
    """In training, sets each element to zero with the given probability and scales the others. Identity in evaluation."""

    probability: float

    def __post_init__(self) -> None:
        # NaN fails both comparisons
        if type(self.probability) is not float or not 0.0 <= self.probability < 1.0:
            raise IllegalGraph(
                f"Dropout: probability must be a float of at least 0.0 and below 1.0. This one is {self.probability!r}"
            )


@dataclass(frozen=True, slots=True)
class Softmax:
    """Probabilities from the logits of the classifier. Always the last node, and only the last."""


Op: TypeAlias = (
    Input
    | Convolution
    | BatchNormalisation
    | Relu
    | Add
    | Concat
    | MaxPooling
    | AveragePooling
    | GlobalAveragePooling
    | Dense
    | Dropout
    | Softmax
)
