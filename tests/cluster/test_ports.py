"""Manifests use the numbers of the table of ports."""

from __future__ import annotations

import re
from pathlib import Path

from cluster.ports import HEAD_PORTS

PROJECT = Path(__file__).parents[2]


def test_manifests_contain_no_port_number_of_their_own() -> None:
    sources = [path.read_text() for path in (PROJECT / "cluster").glob("manifest*.py")]

    assert sources
    assert [number for number in HEAD_PORTS.values() for text in sources if re.search(rf"\b{number}\b", text)] == []
