"""Sphinx: `make docs` builds the site from the pages of this folder, which work in the repository as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

from aiperf.page.html import REPOSITORY

project = "AIPerf"
html_title = "AIPerf"
html_theme = "furo"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["images/*.md"]
highlight_language = "text"
myst_heading_anchors = 3
default_role = "literal"  # docstrings have single backticks
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True


def _option_classes() -> Iterator[str]:
    """Directives of api.md for all classes of options."""
    project = Path(__file__).parent.parent
    for file in sorted(
        file for package in ("aiperf", "cluster", "searchers") for file in (project / package).rglob("*.py")
    ):
        module = ".".join(file.relative_to(project).with_suffix("").parts).removesuffix(".__init__")
        for name in re.findall(r"^class (\w+Conf)\b", file.read_text("utf-8"), re.MULTILINE):
            yield f".. autoclass:: {module}.{name}\n   :members:\n"


def _page(_: Sphinx, name: str, source: list[str]) -> None:
    """Link files beside docs/ in the repository, and make the lists of index.md the site's table of contents."""
    text = re.sub(r"\]\(\.\./([^)]+)\)", rf"]({REPOSITORY}/blob/main/\1)", source[0])
    text = text.replace(".. options\n", "".join(_option_classes()))
    if name == "index":
        for caption, links in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", text, re.MULTILINE):
            pages = "\n".join(re.findall(r"\]\(([\w-]+)\.md\)", links))
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"
    source[0] = text


def _docstring(_: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Sections of Google's style, and links to the pages that a docstring names."""
    if what not in {"attribute", "property"}:  # napoleon takes the words before a colon for their type
        lines[:] = GoogleDocstring(lines, Config(), None, what, name, of, options).lines()
    lines[:] = [re.sub(r"\bdocs/([\w-]+)\.md", r":doc:`\1`", line) for line in lines]


def setup(app: Sphinx) -> None:
    app.connect("source-read", _page)
    app.connect("autodoc-process-docstring", _docstring)
