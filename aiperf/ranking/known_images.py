"""Published fingerprints of data sets (known_images.yaml). They identify the images of a run."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from aiperf.errors import AiperfError

FILE = "aiperf/ranking/known_images.yaml"


class BadKnownImages(AiperfError):
    """The list of fingerprints does not have the documented format."""


class _Published(msgspec.Struct, forbid_unknown_fields=True):
    fingerprint: str
    of: Literal["original files", "shards"]
    command: str
    date: str
    holder: str


def known_images(fingerprint: object) -> str | None:
    """Return the name of the data set with this published fingerprint. None if it is not listed."""
    return published().get(fingerprint) if isinstance(fingerprint, str) else None


@cache
def published() -> dict[str, str]:
    """Return the name of the data set by published fingerprint."""
    return parsed(files("aiperf.ranking").joinpath("known_images.yaml").read_bytes())


def parsed(text: bytes) -> dict[str, str]:
    """Return the name of the data set by fingerprint, from a YAML text.

    Raises:
        BadKnownImages: The text does not have the documented format.
    """
    try:
        listed = msgspec.yaml.decode(text, type=dict[str, list[_Published]])
    except msgspec.MsgspecError as error:
        raise BadKnownImages(f"{FILE} has the format that its head documents. {error}") from error
    found: dict[str, str] = {}
    for name, entries in listed.items():
        for entry in entries:
            if len(entry.fingerprint) != 64 or set(entry.fingerprint) - set("0123456789abcdef"):
                raise BadKnownImages(
                    f"a fingerprint has 64 lower-case hexadecimal digits. {FILE}, {name}: {entry.fingerprint!r}"
                )
            if found.setdefault(entry.fingerprint, name) != name:
                raise BadKnownImages(
                    f"a fingerprint belongs to one data set, but {FILE} lists {entry.fingerprint} for "
                    f"{found[entry.fingerprint]!r} and {name!r}: remove one"
                )
    return found
