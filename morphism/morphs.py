"""Morphs as data. A morph is a change that grows a network and preserves its function.

A morph names nodes of the graph that it is applied to. `apply.py` applies it, `legal.py` lists the legal ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"


class DamagedMorph(ValueError):
    """Error for an encoded morph that cannot be read. The message names the value and the rule."""


@dataclass(frozen=True, slots=True)
class Deepen:
    """Morph that adds a 3×3 identity convolution, batch normalisation and ReLU after the ReLU with the name `after`.

    After the embedding of a language model, or the last sum of a block, it adds a block whose projections are zero.
    """

    after: str


@dataclass(frozen=True, slots=True)
class Widen:
    """Morph that adds channels to a convolution and to all nodes that must have as many, or hidden units to a GatedMlp.

    `convolution`: name of its node. `channels`: new number. `seed`: draws the copied channels, every channel once before any
    twice. A GatedMlp copies none: its added units have random weights inwards and zero ones outwards (Gesmundo and Maile 2023).
    """

    convolution: str
    channels: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """Morph that adds a branch between two nodes, from the name `source` to the name `target`.

    The branch is a 1×1 convolution (He initialization) and a batch normalisation with γ = β = 0.
    """

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """Morph that enlarges the kernel of a convolution with zeros, and its padding to match.

    `convolution`: name of its node. `kernel`: new edge in pixels.
    """

    convolution: str
    kernel: int


@dataclass(frozen=True, slots=True)
class Heads:
    """Morph that adds heads to an Attention, with random query, key and value and zero output (Gesmundo and Maile 2023).

    `attention`: name of its node. `heads`: new number.
    """

    attention: str
    heads: int


Morph: TypeAlias = Deepen | Widen | Skip | Kernel | Heads


_KINDS: dict[str, type[Morph]] = {"deepen": Deepen, "widen": Widen, "skip": Skip, "kernel": Kernel, "heads": Heads}
_WORDS = {kind: word for word, kind in _KINDS.items()}
_FIELDS = {kind: {field.name: field.type for field in fields(kind)} for kind in _WORDS}
"""Names and types of the fields: names of nodes and integers."""


def encode_morph(morph: Morph) -> dict[str, JSON]:
    """Return the morph as a JSON object: "kind" ('deepen', 'widen', 'skip', 'kernel' or 'heads') and its fields."""
    return {"kind": _WORDS[type(morph)], **{name: getattr(morph, name) for name in _FIELDS[type(morph)]}}


def decode_morph(encoded: Mapping[str, JSON]) -> Morph:
    """Return the morph in a JSON object with "kind" and the fields of that kind.

    Raise DamagedMorph if the kind is unknown, a field is missing or superfluous, or a value has the wrong type or range.
    """
    word = encoded.get("kind") if isinstance(encoded, Mapping) else None
    if not isinstance(word, str) or word not in _KINDS:
        raise DamagedMorph(
            f"a morph must be an object with kind {', '.join(map(repr, _KINDS))}. This one is {_shown(encoded)}: "
            "correct it"
        )
    kind: Callable[..., Morph] = _KINDS[word]
    expected = _FIELDS[_KINDS[word]]
    if encoded.keys() != {"kind", *expected}:
        raise DamagedMorph(
            f"a {word} must have the fields {', '.join(sorted(['kind', *expected]))}. This one has "
            f"{_shown(sorted(encoded))}: correct it"
        )
    for name, wanted in expected.items():
        value = encoded[name]
        # `type() is int`: isinstance accepts JSON's true as int
        if not (isinstance(value, str) if wanted is str else type(value) is int and 0 <= value < 2**63):
            text = "the name of a node" if wanted is str else "an integer of at least 0"
            raise DamagedMorph(f"the {name} of a {word} must be {text}. This one is {_shown(value)}: correct it")
    return kind(**{name: encoded[name] for name in expected})


def _shown(value: object) -> str:
    return repr(value) if len(repr(value)) <= 80 else repr(value)[:79] + "…"
