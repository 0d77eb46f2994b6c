"""Generator of the table of ports in docs/security.md: `python -m tools.ports_doc`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cluster.ports import LISTENING_PORTS

PAGE = Path(__file__).parent.parent / "docs/security.md"
BEGIN, END = "<!-- ports: begin -->", "<!-- ports: end -->"


def lines() -> Iterator[str]:
    """Yield the table as Markdown."""
    yield "| port of | process | listens on: one machine / several hosts | protocol | without the token | time |"
    yield "|---|---|---|---|---|---|"
    for port in LISTENING_PORTS:
        addresses = f"{port.one_machine or 'no such port'} / {port.several_hosts}"
        cells = (port.purpose, port.process, addresses, port.protocol, port.without_token, port.time)
        yield f"| {' | '.join(cells)} |"


def inserted(page: str) -> str:
    """Return the page with the table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, *lines(), END + after])


if __name__ == "__main__":
    PAGE.write_text(inserted(PAGE.read_text()))
