"""Operations of a network (layers such as convolution, ReLU, pooling) as frozen dataclasses that check their values."""

from dataclasses import dataclass
from typing import TypeAlias

BATCH_NORMALISATION_EPSILON = 1e-5
BATCH_NORMALISATION_MOMENTUM = 0.1

# Far above the sizes of real networks: a file beyond them is damaged or hostile.
LARGEST_CHANNELS = 65_536
LARGEST_MAP = 16_384
LARGEST_KERNEL = 255


class IllegalGraph(ValueError):
    """Error for a network that breaks a rule. The message names the node, the rule and the fix."""


def _check(op: object, **ranges: tuple[int, int]) -> None:
    for field, (least, most) in ranges.items():
        value = getattr(op, field)
        # `type() is int`: isinstance accepts a bool as int
        if type(value) is not int or not least <= value <= most:
            raise IllegalGraph(
                f"{type(op).__name__}: {field} must be an integer from {least} to {most}. This one is {value!r}: change it"
            )


_CHANNELS, _SIDE, _KERNEL = (1, LARGEST_CHANNELS), (1, LARGEST_MAP), (1, LARGEST_KERNEL)


@dataclass(frozen=True, slots=True)
class Input:
    """Image of the network: channels, and height and width in pixels. Always node 0. Raise IllegalGraph for sizes below 1."""

    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        _check(self, channels=_CHANNELS, height=_SIDE, width=_SIDE)


@dataclass(frozen=True, slots=True)
class Convolution:
    """Square convolution without bias. Shape of weight: (out_channels, in_channels / groups, kernel, kernel)."""

    out_channels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    def __post_init__(self) -> None:
        padding = (0, LARGEST_KERNEL)
        _check(self, out_channels=_CHANNELS, kernel=_KERNEL, stride=_KERNEL, padding=padding, groups=_CHANNELS)
        if self.out_channels % self.groups:
            raise IllegalGraph(
                f"Convolution: groups must divide out_channels, but {self.groups} does not divide {self.out_channels}. "
                "Make out_channels a multiple of groups"
            )


@dataclass(frozen=True, slots=True)
class BatchNormalisation:
    """Normalisation of each channel over batch and map. Shapes of weight, bias, running_mean, running_var: (channels,)."""


@dataclass(frozen=True, slots=True)
class Relu:
    """Rectified linear unit max(0, x), on maps and vectors."""


@dataclass(frozen=True, slots=True)
class Add:
    """Sum of two maps of equal shape."""


@dataclass(frozen=True, slots=True)
class Concat:
    """Concatenation of two or more maps of equal height and width along the channels."""


def _window(op: "MaxPooling | AveragePooling") -> None:
    _check(op, kernel=_KERNEL, stride=_KERNEL)
    # with more padding than half the window, some windows would contain only padding
    _check(op, padding=(0, op.kernel // 2))


@dataclass(frozen=True, slots=True)
class MaxPooling:
    """Maximum of each window of a map. Padding is ignored. `kernel`, `stride`, `padding`: in pixels of the map."""

    kernel: int
    stride: int
    padding: int = 0

    def __post_init__(self) -> None:
        _window(self)


@dataclass(frozen=True, slots=True)
class AveragePooling:
    """Mean of each window of a map. Padding counts as zeros. `kernel`, `stride`, `padding`: in pixels of the map."""

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
        _check(self, out_features=_CHANNELS)


@dataclass(frozen=True, slots=True)
class Dropout:
    """Dropout: in training, zero for each element with `probability`, in 0..1, and others scaled. Identity in evaluation."""

    probability: float

    def __post_init__(self) -> None:
        # NaN fails both comparisons
        if type(self.probability) is not float or not 0.0 <= self.probability < 1.0:
            raise IllegalGraph(
                "Dropout: probability must be a float of at least 0.0 and below 1.0. "
                f"This one is {self.probability!r}: change it"
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
