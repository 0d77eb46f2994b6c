"""Parts of a self-contained HTML page, which loads no network resource, no font and no other script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, assert_never

from aiperf.atomic_files import replace_file
from aiperf.own_files import make_own_folder
from aiperf.page import palette, section
from aiperf.run_warning import RunWarning
from aiperf.sanitize import sanitize_lines

HINT = '<p class="hint" aria-hidden="true">Swipe to the side for more →</p>'
"""Hint above content that may be wider than a phone."""


def text(words: str) -> str:
    """Return plain text as HTML for use between tags or in a quoted attribute: escaped, without control characters."""
    return escape(sanitize_lines(words), quote=True)


def policy(script: str) -> str:
    """Return the content security policy of a page: load only embedded images, run only `script` (JavaScript source)."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def document(title: str, body: Iterable[str], kind: str = "") -> str:
    """Return the content of a whole HTML file with style sheet and script."""
    resources = files("aiperf.page")
    style = resources.joinpath("page.css").read_text("utf-8")
    script = "\n" + resources.joinpath("page.js").read_text("utf-8")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{text(title)}</title>",
            f"<style>\n:root {{ color-scheme: light dark; {palette.as_css(dark=False)} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {palette.as_css(dark=True)} }} }}",
            f"{style}</style>",
            "</head>",
            f'<body class="{kind}">' if kind else "<body>",
            *body,
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


REPOSITORY = "https://github.com/aiperf-cluster/aiperf-cluster"
DOCS = f"{REPOSITORY}/blob/main/docs"
"""Address of the documentation, as in pyproject.toml. A page is also read by somebody who has the file alone."""


def linked(words: str) -> str:
    """Return plain text as HTML, with links to the pages of the documentation that it names."""
    return re.sub(r"\bdocs/([\w-]+\.md)", rf'<a href="{DOCS}/\1">docs/\1</a>', text(words))


def code_in_backticks(words: str) -> str:
    """Return plain text as HTML. Text between two backticks gets a code element, and all other text is escaped."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", linked(words))


def quantity(words: str) -> str:
    """Return plain text as HTML, in which no line ends between a number and its unit."""
    return re.sub(r"(?<=\d) (?=[^\W\d]|%)|(?<=±) ", "\u00a0", text(words))


def _item(item: str | RunWarning) -> str:
    if isinstance(item, str):
        return f"<li>{linked(item)}</li>"
    remedy = f'<span class="remedy">To do: {linked(item.remedy)}</span>'
    return f'<li><span class="severity">{text(item.severity)}:</span> {text(item.text)}{remedy}</li>'


def _table(shown: section.Table) -> str:
    sortable = " data-sortable" if shown.is_sortable else ""
    pairs = ' class="pairs"' if len(shown.columns) == 2 else ""
    heads = "".join(_head(column) for column in shown.columns)
    rows = "".join(_row(shown, row) for row in shown.rows)
    footnote = f'<p class="footnote">{linked(shown.footnote)}</p>' if shown.footnote else ""
    # Two columns fit on a phone. A wider table has a hint to scroll.
    hint, scrolls = (HINT, " scrolls") if len(shown.columns) > 2 else ("", "")
    return (
        f'<div class="framed{scrolls}">{hint}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(shown.caption)}">'
        f'<table id="table-{shown.name}"{pairs}{sortable}><caption>{text(shown.caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></div>{footnote}"
    )


def _head(column: section.Column) -> str:
    attributes = ' class="number"' if column.is_number else ""
    attributes += f' title="{text(column.explained)}"' if column.explained else ""
    attributes += " data-upwards" if column.is_less_first else ""
    attributes += f' aria-sort="{column.sorted}"' if column.sorted else ""
    return f'<th scope="col"{attributes}>{text(column.name)}</th>'


def _row(shown: section.Table, cells: Sequence[section.Cell]) -> str:
    parts = []
    for index, (column, cell) in enumerate(zip(shown.columns, cells, strict=True)):
        classes = [
            *(["number"] if column.is_number else []),
            *(["bar"] if cell.bar is not None else []),
            *(["wide"] if len(cell.text) > 28 and not column.is_number else []),
            *([cell.kind] if cell.kind else []),
        ]
        attributes = f' class="{" ".join(classes)}"' if classes else ""
        attributes += f' style="--part: {cell.bar:.4f}"' if cell.bar is not None else ""
        attributes += f' data-key="{cell.key!r}"' if cell.key is not None else ""
        attributes += f' data-column="{text(column.name)}"' if len(shown.columns) > 2 else ""
        tag = "th" if index == shown.heads_rows else "td"
        scope = ' scope="row"' if index == shown.heads_rows else ""
        content = quantity(cell.text) if column.is_number else linked(cell.text)
        if cell.link:
            content = f'<a href="#{text(cell.link)}">{text(cell.text)}</a>'
        if cell.second_line:
            content += f"<small>{text(cell.second_line)}</small>"
        if cell.unfolds:
            lines = "".join(f"<li>{text(line)}</li>" for line in cell.unfolds)
            content += f'<details class="screen"><summary>whole lineage</summary><ol>{lines}</ol></details>'
        parts.append(f"<{tag}{scope}{attributes}>{content}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def page(
    title: str,
    header: str,
    sections: Sequence[section.Section],
    footer: str,
    kind: str = "",
    skip: str = "To the figures",
    remarks: Sequence[section.Part] = (),
) -> str:
    """Whole HTML file with navigation, and the shared style and script. `header` is HTML, `footer` plain text."""
    shown = "".join(f'<li><a href="#{each.name}">{text(each.link or each.title)}</a></li>' for each in sections)
    return document(
        title,
        [
            f'<a class="skip" href="#main">{text(skip)}</a>',
            header,
            *([f'<nav aria-label="Sections"><ul>{shown}</ul></nav>'] if len(sections) > 1 else []),
            '<main id="main">',
            *map(_section, sections),
            "</main>",
            parts_as_html((section.Group(tuple(remarks), "notes"),)) if remarks else "",
            f"<footer><p>{code_in_backticks(footer)}</p></footer>",
        ],
        kind=kind,
    )


def header(kind: str, heading: str, about: str = "") -> str:
    """Return the header of a page as HTML: kind of page, heading and a line below it, all plain text."""
    line = f'<p class="about">{text(about)}</p>' if about else ""
    return f'<header><p class="kind">AIPerf · {text(kind)}</p><h1>{text(heading)}</h1>{line}</header>'


def _section(shown: section.Section) -> str:
    head = f'<h2 id="{shown.name}-title">{text(shown.title)}</h2>'
    content = f"{head}\n{parts_as_html(shown.parts)}"
    return f'<section id="{shown.name}" aria-labelledby="{shown.name}-title">{content}\n</section>'


def write_drawings(folder: Path, sections: Sequence[section.Section]) -> list[Path]:
    """Write plots/NAME.svg, .png and .pdf of each drawing, and remove the files of earlier ones."""
    make_own_folder(folder / "plots")
    written = []
    for picture in (picture for each in sections for picture in each.pictures):
        svg = None if picture.svg is None else picture.svg.encode()
        for suffix, content in (("svg", svg), ("png", picture.png), ("pdf", picture.pdf)):
            path = folder / "plots" / f"{picture.name}.{suffix}"
            if content is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, content)
                written.append(path)
    return written


def write_figures_page(
    folder: Path, name: str, kind: str, heading: str, sections: Sequence[section.Section], footer: str, values: Any
) -> Path:
    """Write NAME.html, NAME.json and plots/ for results that belong to no single run."""
    shown = page(f"{kind}: {heading}", header(kind, heading), sections, footer)
    write_drawings(folder, sections)
    replace_file(folder / f"{name}.json", json.dumps(values, indent=1).encode())
    replace_file(folder / f"{name}.html", shown.encode())
    return folder / f"{name}.html"


def parts_as_html(parts: Iterable[section.Part | None]) -> str:
    return "\n".join(_part(part) for part in parts if part is not None)


def _part(part: section.Part) -> str:
    match part:
        case section.Table():
            return _table(part)
        case section.DrawnFigure():
            return _figure(part)
        case section.Paragraph(words, "heading"):
            return f"<h3>{text(words)}</h3>"
        case section.Paragraph(words, kind):
            return f"<p{_class(kind)}>{code_in_backticks(words)}</p>"
        case section.Steps():
            return f'<ol class="lineage">{"".join(map(_item, part.items))}</ol>'
        case section.Items():
            return f"<ul>{''.join(map(_item, part.items))}</ul>"
        case section.Group(parts, kind, name):
            anchor = f' id="{name}"' if name else ""
            return f"<div{_class(kind)}{anchor}>{parts_as_html(parts)}</div>"
        case section.Note(kind, title, parts):
            return f'<div class="note {kind}"><h2>{text(title)}</h2>{parts_as_html(parts)}</div>'
        case section.Collapsed(summary, parts, is_printed):
            kind = _class("" if is_printed else "screen")
            return f"<details{kind}><summary>{text(summary)}</summary>{parts_as_html(parts)}</details>"
        case _:
            assert_never(part)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _figure(picture: section.DrawnFigure) -> str:
    if picture.svg is None:
        return f'<p class="empty">{text(picture.empty)}</p>'
    if picture.has_own_style:  # An image keeps its style sheet apart from the page's.
        encoded = base64.b64encode(picture.svg.encode()).decode()
        drawing = f'<img src="data:image/svg+xml;base64,{encoded}" alt="{text(picture.described)}">'
        kind, hint = f" class='{picture.name}'", ""
    else:
        drawing, kind, hint = inline(picture.svg, picture.name, text(picture.described)), "", HINT
    return (
        f'<figure{kind}>{hint}<div class="scroll" tabindex="0" role="region" aria-label="{text(picture.title)}">'
        f"{drawing}</div><figcaption>{linked(picture.caption)}</figcaption></figure>"
    )


def without_prolog(svg: str) -> str:
    return svg[svg.index("<svg") :]


def inline(svg: str, name: str, label: str) -> str:
    """Return a standalone SVG as a part of an HTML page: unique names, CSS variables as colours, size set by the page."""
    svg = without_prolog(svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href|href)="#', rf'\1="#{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    for colour in palette.COLOURS:
        svg = re.sub(re.escape(colour.light), f"var(--{colour.role})", svg, flags=re.IGNORECASE)
    svg = re.sub("<svg [^>]*>", lambda tag: re.sub(r'\s(width|height)="[^"]*"', "", tag[0]), svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
