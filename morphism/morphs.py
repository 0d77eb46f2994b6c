"""Morphs as data: changes that grow a network and preserve its function.

A morph names nodes of the graph that it is applied to. `apply.py` applies it, `legal.py` lists the legal ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

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


def encode_morph(morph: Morph) -> dict[str, JSON]:
    """Return the morph as JSON: its kind and its fields."""
    match morph:
        case Deepen(after):
            return {"kind": "deepen", "after": after}
        case Widen(convolution, channels, seed):
            return {"kind": "widen", "convolution": convolution, "channels": channels, "seed": seed}
        case Skip(source, target):
            return {"kind": "skip", "source": source, "target": target}
        case Kernel(convolution, kernel):
            return {"kind": "kernel", "convolution": convolution, "kernel": kernel}
        case _:
            assert_never(morph)


def decode_morph(encoded: Mapping[str, JSON]) -> Morph:
    """Return the morph that `encode_morph` wrote. Raises DamagedMorph."""
    match encoded.get("kind") if isinstance(encoded, Mapping) else None:
        case "deepen":
            _fields(encoded, "after")
            return Deepen(_name(encoded, "after"))
        case "widen":
            _fields(encoded, "convolution", "channels", "seed")
            return Widen(_name(encoded, "convolution"), _whole(encoded, "channels"), _whole(encoded, "seed"))
        case "skip":
            _fields(encoded, "source", "target")
            return Skip(_name(encoded, "source"), _name(encoded, "target"))
        case "kernel":
            _fields(encoded, "convolution", "kernel")
            return Kernel(_name(encoded, "convolution"), _whole(encoded, "kernel"))
        case _:
            raise DamagedMorph(
                f"a morph must be an object with kind 'deepen', 'widen', 'skip' or 'kernel'. This one is {_shown(encoded)}"
            )


def _fields(encoded: Mapping[str, JSON], *fields: str) -> None:
    expected = {"kind", *fields}
    if set(encoded) != expected:
        raise DamagedMorph(
            f"a {encoded['kind']} must have the fields {', '.join(sorted(expected))}. This one has {_shown(sorted(encoded))}"
        )


def _name(encoded: Mapping[str, JSON], field: str) -> str:
    found = encoded[field]
    if not isinstance(found, str):
        raise DamagedMorph(
            f"the {field} of a {encoded['kind']} must be the name of a node. This one is {_shown(found)}"
        )
    return found


def _whole(encoded: Mapping[str, JSON], field: str) -> int:
    found = encoded[field]
    # `type() is int`: isinstance accepts JSON's true as int
    if type(found) is not int or not 0 <= found < 2**63:
        raise DamagedMorph(
            f"the {field} of a {encoded['kind']} must be an integer of at least 0. This one is {_shown(found)}"
        )
    return found


def _shown(found: object) -> str:
    return repr(found) if len(repr(found)) <= 80 else repr(found)[:79] + "…"
