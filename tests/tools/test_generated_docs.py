"""Generated tables of docs/ agree with the code."""

from __future__ import annotations

from typing import get_args

import pytest

from aiperf.journal.events import AnyEvent
from tools.generated_docs import DOCS, TABLES, current


@pytest.mark.parametrize("name", TABLES)
def test_generated_table_is_current(name: str) -> None:
    assert (DOCS / TABLES[name][0]).read_text() == current(name), "run: python -m tools.generated_docs"


def test_page_lists_every_event_and_field() -> None:
    page = current("events")

    for event in get_args(AnyEvent):
        section = page.partition(f"### {event.__name__}\n")[2].partition("\n### ")[0]
        assert [name for name in event.__struct_fields__ if name != "at" and f"| `{name}` |" not in section] == []
