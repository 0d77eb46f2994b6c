"""List of published fingerprints: each entry was computed by somebody and has the documented format."""

from __future__ import annotations

import msgspec
import pytest

from aiperf.ranking.candidate import known_images, parsed, published

ENTRY = """imagenet:
  - fingerprint: {}
    of: original files
    command: python -m aiperf prepare dataset=imagenet dataset.root=DIR
    date: "2027-01-01"
    holder: a site
"""


def test_the_list_is_empty_until_a_holder_fills_it() -> None:
    assert published() == {}
    assert known_images("a" * 64) is None and known_images(None) is None


def test_an_entry_of_the_documented_format_is_read() -> None:
    assert parsed(ENTRY.format("a" * 64).encode()) == {"a" * 64: "imagenet"}


@pytest.mark.parametrize(
    "text",
    [
        ENTRY.format("a" * 63),
        ENTRY.format("A" * 64),
        ENTRY.format("a" * 64).replace("original files", "a copy"),
        ENTRY.format("a" * 64).replace("    holder: a site\n", ""),
        "[",
    ],
)
def test_other_formats_are_refused(text: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        parsed(text.encode())
