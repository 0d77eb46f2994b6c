"""Architectures: a graph, which morphs (changes that grow a network) can change, or a detector, which cannot grow.

Plan, training and verification use three properties of both: the fingerprint, the encoded form and the cost.

Starting graphs by name: resnet50_v1, resnet50_v1_5, resnet18: He et al. 2016. v1.5 moves the stride of a stage from the first
1×1 convolution to the 3×3 convolution. resnet20: network of the same paper for 32×32 images, with projections as shortcuts
(option B), since a morph can widen those. digits_small: defined here, for 8×8 digits. Every graph accepts any image size,
number of channels and number of classes. llama_tiny, llama_162m: language models of Llama's block (Touvron et al. 2023) with
sizes defined here, for any length of a sequence and vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

from morphism import ops
from morphism.codec import DamagedGraphFile, decode, encode, parsed
from morphism.cost import Cost, cost
from morphism.detector import DETECTORS, Detector
from morphism.graph import Graph, Node
from morphism.grow import IllegalMorph, Lineage, rebuild
from morphism.morphs import Morph
from morphism.ops import IllegalGraph
from morphism.transformer import language_model

Architecture: TypeAlias = Graph | Detector

KIND = "detector"
"""Value of the field `kind` in an encoded detector. A graph has no such field."""
_FIELDS = tuple(Detector.__dataclass_fields__)
# 13.3 MFLOP forward for an 8×8 digit: large enough that a run measures training, not the overhead of the loop
DIGITS_WIDTH = 32
DIGITS_BLOCKS = (2, 2, 2)

_DEFAULTS = {
    # name: (edge of the image, channels of the image, classes)
    "resnet50_v1": (224, 3, 1000),
    "resnet50_v1_5": (224, 3, 1000),
    "resnet18": (224, 3, 1000),
    "resnet20": (32, 3, 10),
    "digits_small": (8, 1, 10),
}
_LANGUAGE_MODELS: dict[str, tuple[int, int, int, int, ops.Attention, ops.GatedMlp]] = {
    # name: (length, vocabulary, features, blocks, attention, MLP)
    "llama_tiny": (128, 256, 128, 4, ops.Attention(4, 32), ops.GatedMlp(344)),
    "llama_162m": (1024, 50_257, 768, 12, ops.Attention(12, 64), ops.GatedMlp(2048)),
}
IMAGE_STARTS = tuple(_DEFAULTS)
"""Names of the starting graphs for images."""
TOKEN_STARTS = tuple(_LANGUAGE_MODELS)
"""Names of the starting graphs for tokens."""
STARTS = (*IMAGE_STARTS, *TOKEN_STARTS)
"""Names of the starting graphs."""


class UnknownStart(ValueError):
    """Error for an unknown name of a starting graph."""


def start(name: str, *, image: int | None = None, channels: int | None = None, classes: int | None = None) -> Graph:
    """Return the starting graph of this name (one of STARTS) for square images with an edge of `image` pixels.

    `channels`: of the image. `classes`: outputs of the classifier. Defaults of (image, channels, classes): (224, 3, 1000) for
    resnet50 and resnet18, (32, 3, 10) for resnet20, (8, 1, 10) for digits_small. For a language model `image` is the number of
    tokens of a sequence, `classes` the vocabulary, and `channels` has no meaning. Its defaults of (image, classes): (128, 256)
    for llama_tiny, (1024, 50257) for llama_162m. Raise UnknownStart for another name, and IllegalGraph if the sizes do not fit.
    """
    if name in _LANGUAGE_MODELS:
        length, vocabulary, features, blocks, attention, mlp = _LANGUAGE_MODELS[name]
        tokens = ops.TokenInput(vocabulary if classes is None else classes, length if image is None else image)
        return language_model(tokens, features, blocks, attention, mlp)
    if name not in _DEFAULTS:
        raise UnknownStart(
            f"no starting graph is called {name!r}. Use {', '.join(STARTS)}, or the path of a graph file"
        )
    own_image, own_channels, own_classes = _DEFAULTS[name]
    edge = own_image if image is None else image
    build = _Builder(ops.Input(own_channels if channels is None else channels, edge, edge))
    match name:
        case "resnet50_v1" | "resnet50_v1_5":
            build.large_stem()
            for stage, (blocks, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True), start=1):
                for block in range(1, blocks + 1):
                    stride = 2 if block == 1 and stage > 1 else 1
                    build.bottleneck(f"stage{stage}.block{block}", width, stride, strided_1x1=name == "resnet50_v1")
        case "resnet18":
            build.large_stem()
            build.basic_stages((2, 2, 2, 2), 64)
        case "resnet20":
            build.small_stem(16)
            build.basic_stages((3, 3, 3), 16)
        case "digits_small":
            build.small_stem(DIGITS_WIDTH)
            build.basic_stages(DIGITS_BLOCKS, DIGITS_WIDTH)
    return build.classified(own_classes if classes is None else classes)


class _Builder:
    """Builder of a graph. Each method adds nodes after the last one."""

    def __init__(self, image: ops.Input) -> None:
        self._nodes = [Node("image", image)]
        self._channels = image.channels  # of the last node

    def _add(self, name: str, op: ops.Op, *inputs: int) -> int:
        self._nodes.append(Node(name, op, inputs or (len(self._nodes) - 1,)))
        if isinstance(op, ops.Convolution):
            self._channels = op.out_channels
        return len(self._nodes) - 1

    def _normalised(self, folder: str, number: str, op: ops.Convolution, *inputs: int) -> int:
        self._add(f"{folder}.conv{number}", op, *inputs)
        return self._add(f"{folder}.norm{number}", ops.BatchNormalisation())

    def large_stem(self) -> None:
        self._normalised("stem", "", ops.Convolution(64, 7, stride=2, padding=3))
        self._add("stem.relu", ops.Relu())
        self._add("stem.pool", ops.MaxPooling(3, stride=2, padding=1))

    def small_stem(self, width: int) -> None:
        self._normalised("stem", "", ops.Convolution(width, 3, padding=1))
        self._add("stem.relu", ops.Relu())

    def bottleneck(self, folder: str, width: int, stride: int, *, strided_1x1: bool) -> None:
        entering, entering_channels = len(self._nodes) - 1, self._channels
        self._normalised(folder, "1", ops.Convolution(width, 1, stride=stride if strided_1x1 else 1))
        self._add(f"{folder}.relu1", ops.Relu())
        self._normalised(folder, "2", ops.Convolution(width, 3, stride=1 if strided_1x1 else stride, padding=1))
        self._add(f"{folder}.relu2", ops.Relu())
        residual = self._normalised(folder, "3", ops.Convolution(4 * width, 1))
        self._joined(folder, entering, entering_channels, residual, 4 * width, stride)

    def basic_stages(self, blocks_of_stages: tuple[int, ...], width: int) -> None:
        for stage, blocks in enumerate(blocks_of_stages, start=1):
            for block in range(1, blocks + 1):
                stride = 2 if block == 1 and stage > 1 else 1
                self._basic(f"stage{stage}.block{block}", width * 2 ** (stage - 1), stride)

    def _basic(self, folder: str, width: int, stride: int) -> None:
        entering, entering_channels = len(self._nodes) - 1, self._channels
        self._normalised(folder, "1", ops.Convolution(width, 3, stride=stride, padding=1))
        self._add(f"{folder}.relu1", ops.Relu())
        residual = self._normalised(folder, "2", ops.Convolution(width, 3, padding=1))
        self._joined(folder, entering, entering_channels, residual, width, stride)

    def _joined(
        self, folder: str, entering: int, entering_channels: int, residual: int, width: int, stride: int
    ) -> None:
        shortcut = entering
        if stride != 1 or entering_channels != width:
            shortcut = self._normalised(folder, "_shortcut", ops.Convolution(width, 1, stride=stride), entering)
        self._add(f"{folder}.add", ops.Add(), residual, shortcut)
        self._add(f"{folder}.relu", ops.Relu())

    def classified(self, classes: int) -> Graph:
        self._add("head.pool", ops.GlobalAveragePooling())
        self._add("head.dense", ops.Dense(classes))
        self._add("head.softmax", ops.Softmax())
        return Graph(tuple(self._nodes))


def cost_of(architecture: Architecture) -> Cost:
    """Return the floating-point operations per image, parameters and stored elements per image of a graph or detector."""
    return architecture.cost if isinstance(architecture, Detector) else cost(architecture)


def encode_architecture(architecture: Architecture) -> str:
    """Return the architecture as JSON text that `decode_architecture` reads.

    A graph becomes the text of a graph file. A detector becomes an object with `kind` and its fields.
    """
    if isinstance(architecture, Graph):
        return encode(architecture)
    return json.dumps({"kind": KIND, **{name: getattr(architecture, name) for name in _FIELDS}}) + "\n"


def decode_architecture(text: str) -> Architecture:
    """Return the graph or detector in a JSON text that `encode_architecture` wrote.

    Raise DamagedGraphFile if the text describes neither, or if a value breaks a rule.
    """
    document = parsed(text)
    if not isinstance(document, dict) or "kind" not in document:
        return decode(text)
    if document.keys() != {"kind", *_FIELDS} or document["kind"] != KIND or not isinstance(document["network"], str):
        raise DamagedGraphFile(
            f'a detector has "kind": "{KIND}" and the fields {", ".join(_FIELDS)}, but found {sorted(document)}: correct it'
        )
    try:
        return Detector(**{name: document[name] for name in _FIELDS})  # type: ignore[arg-type]  # the constructor checks
    except IllegalGraph as error:
        raise DamagedGraphFile(str(error)) from error


def rebuilt(start: Architecture, morphs: Sequence[Morph]) -> Architecture:
    """Return the architecture after applying `morphs`, in order, to the starting network `start`.

    Raise IllegalMorph if a morph (a change that grows a network) does not fit the network, or for any morph of a detector.
    """
    if isinstance(start, Graph):
        return rebuild(Lineage(start, tuple(morphs)))
    if morphs:
        raise IllegalMorph(f"a detector has no morphs, but found {len(morphs)}: leave them out")
    return start


def start_of(name: str, *, image: int, width: int | None, channels: int, classes: int) -> Architecture:
    """Return the starting network of this name, which is one of STARTS or DETECTORS, for images of one size.

    `image`: height in pixels. `width`: in pixels, None for square images. `channels`: of the image. `classes`: without the
    background, which a detector adds. A starting graph ignores `width`, because its images are square. Of tokens `image` is
    the length of a sequence, and `classes` the vocabulary. Raise UnknownStart for
    an unknown name, and IllegalGraph if the network does not fit the images.
    """
    if name in DETECTORS:
        return Detector(name, image, image if width is None else width, channels, classes + 1)
    return start(name, image=image, channels=channels, classes=classes)
