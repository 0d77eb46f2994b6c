"""Page of figures and tables that belongs to no single run, with its plots as SVG and PNG and all values as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiperf.atomic_files import replace_file
from aiperf.report.document import document, section, text
from aiperf.report.section import Section


def write_figures_page(
    folder: Path, name: str, kind: str, heading: str, sections: Sequence[Section], footer: str, values: Any
) -> Path:
    """Write NAME.html, NAME.json and plots/ into a folder, and return the path of the page.

    Args:
        folder: target folder. It is made if it does not exist.
        name: name of the files.
        kind: small text above the heading.
        heading: machine or runs of the figures.
        sections: content of the page.
        footer: sentence on definitions and values.
        values: content of NAME.json.

    Raises:
        OSError: the folder cannot be written.
    """
    from aiperf.report.html import part_as_html

    body = [
        '<a class="skip" href="#main">To the figures</a>',
        f'<header><p class="kind">AIPerf · {text(kind)}</p><h1>{text(heading)}</h1></header>',
        '<main id="main" style="margin-top: 2rem">',
        *(section(each.name, each.title, [part_as_html(part) for part in each.parts if part]) for each in sections),
        "</main>",
        f"<footer><p>{text(footer)}</p></footer>",
    ]
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for picture in (picture for each in sections for picture in each.pictures):
        for suffix, content in (("svg", (picture.svg or "").encode()), ("png", picture.png or b"")):
            replace_file(folder / "plots" / f"{picture.name}.{suffix}", content)
    replace_file(folder / f"{name}.json", json.dumps(values, indent=1).encode())
    replace_file(folder / f"{name}.html", document(f"{kind}: {heading}", body).encode())
    return folder / f"{name}.html"
