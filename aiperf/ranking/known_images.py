"""Published fingerprints of data sets (known_images.yaml). They identify the images of a run."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import msgspec

FILE = "aiperf/ranking/known_images.yaml"


class _Published(msgspec.Struct, forbid_unknown_fields=True):
    fingerprint: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    of: Literal["original files", "shards"]
    command: str
    date: str
    holder: str


def known_images(fingerprint: object) -> str | None:
    """Return the name of the data set with this published fingerprint (SHA-256 of its file list). None if not published."""
    return published().get(fingerprint) if isinstance(fingerprint, str) else None


@cache
def published() -> dict[str, str]:
    """Return the names of all published data sets by fingerprint (SHA-256 of the list of files, 64 hexadecimal digits)."""
    return parsed(files("aiperf.ranking").joinpath("known_images.yaml").read_bytes())


def parsed(text: bytes) -> dict[str, str]:
    """Return the names of data sets by fingerprint, from a text in the form of known_images.yaml."""
    listed = msgspec.yaml.decode(text, type=dict[str, list[_Published]])
    return {each.fingerprint: name for name, entries in listed.items() for each in entries}
