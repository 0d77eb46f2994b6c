"""Writes the map of files in docs/architecture.md: `python tools/file_map.py`.

Each file's line is the first sentence of its docstring; the map stands between two marks, and nothing else is touched.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent
DOCUMENT = PROJECT / "docs" / "architecture.md"
BEGIN, END = "<!-- files: begin -->", "<!-- files: end -->"
FLOORS = ("morphism", "searchers", "cluster", "aiperf")


def main() -> None:
    """Rewrites the map."""
    before, after = _around()
    DOCUMENT.write_text(before + "\n".join(["", *_lines(), ""]) + after)


def modules() -> list[Path]:
    """Every module of the four packages that has something in it, relative to the project."""
    found = [path.relative_to(PROJECT) for floor in FLOORS for path in sorted((PROJECT / floor).rglob("*.py"))]
    return [path for path in found if (PROJECT / path).read_text().strip()]


def mapped() -> list[str]:
    """The modules that the map names now."""
    text = DOCUMENT.read_text()
    return re.findall(r"^\| `([\w/]+\.py)` \|", text[text.index(BEGIN) : text.index(END)], re.MULTILINE)


def _lines() -> Iterator[str]:
    folder = None
    for path in sorted(modules(), key=lambda path: (FLOORS.index(path.parts[0]), path.parent, path.name)):
        if path.parent != folder:
            folder = path.parent
            yield f"\n**{folder.as_posix()}/**\n"
            yield "| file | owns |"
            yield "| --- | --- |"
        yield f"| `{path.as_posix()}` | {_first_sentence(PROJECT / path)} |"


def _first_sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text()))
    if not text:
        raise SystemExit(f"a file says at its head what it owns; '{path}' does not: write a docstring")
    sentence = re.split(r"(?<=[.])\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    return sentence.rstrip(":").replace("|", "\\|")


def _around() -> tuple[str, str]:
    text = DOCUMENT.read_text()
    return text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]


if __name__ == "__main__":
    main()
