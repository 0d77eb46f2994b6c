"""The operations a network is made of: a closed union of frozen dataclasses, checked where they are made.

An operation knows its own numbers and nothing of its neighbours: shapes are in `shapes.py`, wiring in `graph.py`.
"""

from dataclasses import dataclass
from typing import TypeAlias

BATCH_NORMALISATION_EPSILON = 1e-5
BATCH_NORMALISATION_MOMENTUM = 0.1

# No network anybody trains comes near these; a file that goes beyond them is damaged or hostile.
LARGEST_CHANNELS = 65_536
LARGEST_MAP = 16_384
LARGEST_KERNEL = 255


class IllegalGraph(ValueError):
    """A network that breaks a law; the message names the node, the law and the remedy."""


def _whole(op: object, field: str, value: object, least: int, most: int) -> None:
    # `type() is int`, for a bool is an int to isinstance and True is no number of channels
    if type(value) is not int or not least <= value <= most:
        raise IllegalGraph(
            f"{type(op).__name__}: {field} is a whole number from {least} to {most}, not {value!r}; give one of those"
        )


@dataclass(frozen=True, slots=True)
class Input:
    """The image: channels × height × width, always node 0."""

    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        _whole(self, "channels", self.channels, 1, LARGEST_CHANNELS)
        _whole(self, "height", self.height, 1, LARGEST_MAP)
        _whole(self, "width", self.width, 1, LARGEST_MAP)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A square convolution without bias; weight (out_channels, in_channels / groups, kernel, kernel)."""

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
                f"Convolution: groups divide out_channels, but {self.groups} does not divide {self.out_channels}; "
                "make out_channels a multiple of groups"
            )


@dataclass(frozen=True, slots=True)
class BatchNormalisation:
    """Normalises each channel over batch and map; weight, bias, running_mean and running_var are (channels,)."""


@dataclass(frozen=True, slots=True)
class Relu:
    """max(0, x), on maps and vectors."""


@dataclass(frozen=True, slots=True)
class Add:
    """The sum of two maps of one shape."""


@dataclass(frozen=True, slots=True)
class Concat:
    """Two or more maps of one height and width, one after the other along the channels."""


def _window(op: "MaxPooling | AveragePooling") -> None:
    _whole(op, "kernel", op.kernel, 1, LARGEST_KERNEL)
    _whole(op, "stride", op.stride, 1, LARGEST_KERNEL)
    # more padding than half the window would make windows that hold nothing but padding
    _whole(op, "padding", op.padding, 0, op.kernel // 2)


@dataclass(frozen=True, slots=True)
class MaxPooling:
    """The largest of each window; padding never wins."""

    kernel: int
    stride: int
    padding: int = 0

    def __post_init__(self) -> None:
        _window(self)


@dataclass(frozen=True, slots=True)
class AveragePooling:
    """The mean of each window, padding counted as zeros."""

    kernel: int
    stride: int
    padding: int = 0

    def __post_init__(self) -> None:
        _window(self)


@dataclass(frozen=True, slots=True)
class GlobalAveragePooling:
    """The mean of each channel over its whole map: a map becomes a vector."""


@dataclass(frozen=True, slots=True)
class Dense:
    """A matrix product with bias; weight (out_features, in_features), bias (out_features,)."""

    out_features: int

    def __post_init__(self) -> None:
        _whole(self, "out_features", self.out_features, 1, LARGEST_CHANNELS)


@dataclass(frozen=True, slots=True)
class Dropout:
    """Zeroes each element with the given probability in training and scales the others; nothing in evaluation."""

    probability: float

    def __post_init__(self) -> None:
        # NaN fails both comparisons
        if type(self.probability) is not float or not 0.0 <= self.probability < 1.0:
            raise IllegalGraph(
                f"Dropout: probability is a float from 0.0 up to, and without, 1.0, not {self.probability!r}; "
                "give one of those"
            )


@dataclass(frozen=True, slots=True)
class Softmax:
    """Turns the logits of the classifier into probabilities: the last node of every graph, and only there."""


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
