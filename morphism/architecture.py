"""Architectures: a graph, which morphs (changes that grow a network) can change, or a detector, which cannot grow.

Plan, training and verification use three properties of both: the fingerprint, the encoded form and the cost.
"""

import json
from collections.abc import Sequence
from typing import TypeAlias

from morphism.codec import DamagedGraphFile, decode, encode, parsed
from morphism.cost import Cost, cost
from morphism.detector import DETECTORS, Detector
from morphism.graph import Graph
from morphism.grow import IllegalMorph, Lineage, rebuild
from morphism.morphs import Morph
from morphism.ops import IllegalGraph
from morphism.starts import start

Architecture: TypeAlias = Graph | Detector

KIND = "detector"
"""Value of the field `kind` in an encoded detector. A graph has no such field."""
_FIELDS = tuple(Detector.__dataclass_fields__)


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
    found = parsed(text)
    if not isinstance(found, dict) or "kind" not in found:
        return decode(text)
    if found.keys() != {"kind", *_FIELDS} or found["kind"] != KIND or not isinstance(found["network"], str):
        raise DamagedGraphFile(
            f'a detector has "kind": "{KIND}" and the fields {", ".join(_FIELDS)}, but found {sorted(found)}: correct it'
        )
    try:
        return Detector(**{name: found[name] for name in _FIELDS})  # type: ignore[arg-type]  # the constructor checks
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
    background, which a detector adds. A starting graph ignores `width`, because its images are square. Raise UnknownStart for
    an unknown name, and IllegalGraph if the network does not fit the images.
    """
    if name in DETECTORS:
        return Detector(name, image, image if width is None else width, channels, classes + 1)
    return start(name, image=image, channels=channels, classes=classes)
