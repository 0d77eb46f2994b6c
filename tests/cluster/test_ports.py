"""Table of ports: the page is current, and manifests use the table's numbers."""

from __future__ import annotations

import re
from pathlib import Path

from cluster.ports import HEAD_PORTS
from tools.ports_doc import PAGE, inserted

PROJECT = Path(__file__).parents[2]


def test_security_page_has_the_current_table_of_ports() -> None:
    page = PAGE.read_text()

    assert inserted(page) == page, "run: python -m tools.ports_doc"


def test_manifests_contain_no_port_number_of_their_own() -> None:
    sources = [path.read_text() for path in (PROJECT / "cluster" / "manifests").glob("*.py")]

    assert sources
    assert [number for number in HEAD_PORTS.values() for text in sources if re.search(rf"\b{number}\b", text)] == []
