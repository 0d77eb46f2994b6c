"""Morphs as data: changes that grow a network and preserve its function.

A morph names nodes of the graph that it is applied to. `apply.py` applies it, `legal.py` lists the legal ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"


class DamagedMorph(ValueError):
    """Morph that cannot be read. The message names the value and the rule."""


@dataclass(frozen=True, slots=True)
class Deepen:
    """Adds a 3×3 identity convolution, batch normalisation and ReLU after the ReLU `after`."""

    after: str


@dataclass(frozen=True, slots=True)
class Widen:
    """Adds channels to a convolution and to all nodes of its axis.

    `channels`: new number. `seed`: draws the copied channels, every channel once before any is drawn twice.
    """

    convolution: str
    channels: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """Adds a branch from `source` to `target`: 1×1 convolution (He initialization), batch normalisation with γ = β = 0."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """Enlarges the kernel of a convolution with zeros, and its padding to match. `kernel`: new edge."""

    convolution: str
    kernel: int


Morph: TypeAlias = Deepen | Widen | Skip | Kernel


_KINDS: dict[str, type[Morph]] = {"deepen": Deepen, "widen": Widen, "skip": Skip, "kernel": Kernel}
_WORDS = {kind: word for word, kind in _KINDS.items()}
_FIELDS = {kind: {field.name: field.type for field in fields(kind)} for kind in _WORDS}
"""Names and types of the fields: names of nodes and integers."""


def encode_morph(morph: Morph) -> dict[str, JSON]:
    """Return the morph as JSON: its kind and its fields."""
    return {"kind": _WORDS[type(morph)], **{name: getattr(morph, name) for name in _FIELDS[type(morph)]}}


def decode_morph(encoded: Mapping[str, JSON]) -> Morph:
    """Return the morph that `encode_morph` wrote. Raises DamagedMorph."""
    word = encoded.get("kind") if isinstance(encoded, Mapping) else None
    if not isinstance(word, str) or word not in _KINDS:
        raise DamagedMorph(
            f"a morph must be an object with kind 'deepen', 'widen', 'skip' or 'kernel'. This one is {_shown(encoded)}"
        )
    kind: Callable[..., Morph] = _KINDS[word]
    expected = _FIELDS[_KINDS[word]]
    if encoded.keys() != {"kind", *expected}:
        raise DamagedMorph(
            f"a {word} must have the fields {', '.join(sorted(['kind', *expected]))}. This one has {_shown(sorted(encoded))}"
        )
    for name, wanted in expected.items():
        value = encoded[name]
        # `type() is int`: isinstance accepts JSON's true as int
        if not (isinstance(value, str) if wanted is str else type(value) is int and 0 <= value < 2**63):
            text = "the name of a node" if wanted is str else "an integer of at least 0"
            raise DamagedMorph(f"the {name} of a {word} must be {text}. This one is {_shown(value)}")
    return kind(**{name: encoded[name] for name in expected})


def _shown(found: object) -> str:
    return repr(found) if len(repr(found)) <= 80 else repr(found)[:79] + "…"
