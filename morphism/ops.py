"""Operations of a network (layers such as convolution, ReLU, pooling) as frozen dataclasses that check their values."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

BATCH_NORMALISATION_EPSILON = 1e-5
BATCH_NORMALISATION_MOMENTUM = 0.1
RMS_NORM_EPSILON = 1e-5
ROTARY_BASE = 10_000.0
"""Base of the wavelengths of rotary positions (Su et al. 2021)."""
TOKEN_DEVIATION = 0.02
"""Standard deviation of the initial weights of operations on tokens (GPT-2), and of rows that a morph adds to them."""

# Far above the sizes of real networks: a file beyond them is damaged or hostile.
LARGEST_CHANNELS = 65_536
LARGEST_MAP = 16_384
LARGEST_KERNEL = 255
LARGEST_VOCABULARY = 2**20
LARGEST_LENGTH = 2**20


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
class TokenInput:
    """Sequence of the network: numbers of tokens from 0 to `vocabulary` − 1. Node 0 of a language model."""

    vocabulary: int
    length: int
    """Tokens of a sequence."""

    def __post_init__(self) -> None:
        _check(self, vocabulary=(1, LARGEST_VOCABULARY), length=(1, LARGEST_LENGTH))


@dataclass(frozen=True, slots=True)
class Embedding:
    """Row of a table for each token. Shape of weight: (vocabulary, features)."""

    features: int

    def __post_init__(self) -> None:
        _check(self, features=_CHANNELS)


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """Division of each token's features by their root mean square, times a gain. Shape of weight: (features,)."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Causal self-attention with rotary positions, without bias (Vaswani et al. 2017, Su et al. 2021).

    Each head has `head_features` features, an even number. Shapes: see `tensors`.
    """

    PROJECTION: ClassVar = "output"
    """Tensor that writes to the residual stream. Its columns are as many as the rows of the others."""
    heads: int
    head_features: int

    def __post_init__(self) -> None:
        _check(self, heads=_CHANNELS, head_features=_CHANNELS)
        if self.head_features % 2 or self.width > LARGEST_CHANNELS:
            raise IllegalGraph(
                f"Attention: head_features must be even, and heads · head_features at most {LARGEST_CHANNELS}. These are "
                f"{self.heads} · {self.head_features}: change them"
            )

    @property
    def width(self) -> int:
        """Features of all heads together."""
        return self.heads * self.head_features

    @property
    def size(self) -> int:
        return self.heads

    @property
    def largest_size(self) -> int:
        return LARGEST_CHANNELS // self.head_features

    def of_size(self, heads: int) -> "Attention":
        return Attention(heads, self.head_features)

    def tensors(self, features: int) -> dict[str, tuple[int, int]]:
        """Return the shapes of the weights by name. `features`: of a token."""
        inward = (self.width, features)
        return {"query": inward, "key": inward, "value": inward, "output": (features, self.width)}


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """Two layers on each token: down(silu(gate(x)) · up(x)), without bias (Shazeer 2020). Shapes: see `tensors`."""

    PROJECTION: ClassVar = "down"
    """Tensor that writes to the residual stream. Its columns are as many as the rows of the others."""
    hidden: int

    def __post_init__(self) -> None:
        _check(self, hidden=_CHANNELS)

    @property
    def size(self) -> int:
        return self.hidden

    @property
    def largest_size(self) -> int:
        return LARGEST_CHANNELS

    def of_size(self, hidden: int) -> "GatedMlp":
        return GatedMlp(hidden)

    def tensors(self, features: int) -> dict[str, tuple[int, int]]:
        """Return the shapes of the weights by name. `features`: of a token."""
        inward = (self.hidden, features)
        return {"gate": inward, "up": inward, "down": (features, self.hidden)}


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
    """Sum of two maps, or of the tokens of two nodes, of equal shape."""


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
    """Matrix product, with bias on a vector and without on tokens.

    Shapes: weight (out_features, in_features), bias (out_features,).
    """

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
    | TokenInput
    | Embedding
    | RmsNorm
    | Attention
    | GatedMlp
)
Residual: TypeAlias = Attention | GatedMlp
"""Operations on tokens that a sum adds to the residual stream. Their `size` (heads or hidden units) can grow."""
Learning: TypeAlias = Convolution | BatchNormalisation | Dense | Embedding | RmsNorm | Residual
"""Operations with trained values."""
