"""Count the lines of the repository by package: `make size`. Product means the contents of the wheel."""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parent.parent
PRODUCT = ("aiperf", "morphism", "searchers", "cluster")
COUNTED = (*PRODUCT, "tools", "benchmarks")
MOST_MODULES = 20
"""Maximum number of modules in a folder, without `__init__.py`."""
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}


@dataclass(frozen=True, slots=True)
class LineCounts:
    files: int = 0
    code: int = 0
    docstrings: int = 0
    comments: int = 0
    blank: int = 0

    @property
    def total(self) -> int:
        return self.code + self.docstrings + self.comments + self.blank

    def __add__(self, other: LineCounts) -> LineCounts:
        return LineCounts(
            self.files + other.files,
            self.code + other.code,
            self.docstrings + other.docstrings,
            self.comments + other.comments,
            self.blank + other.blank,
        )


def lines_of(source: str) -> LineCounts:
    """A line with code and a comment counts as code, a blank line within a docstring as docstring."""
    docstrings = set(_docstring_lines(ast.parse(source)))
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    comments -= code | docstrings
    total = len(source.splitlines())
    return LineCounts(1, len(code), len(docstrings), len(comments), total - len(code) - len(docstrings) - len(comments))


def function_lengths(source: str) -> Iterator[tuple[int, int]]:
    """Yield the lines of each function from `def` to its last line, without decorators: with and without its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            docstring = 0 if ast.get_docstring(node) is None else (first.end_lineno or 0) - first.lineno + 1
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            yield length, length - docstring


def python_files() -> list[Path]:
    found = (file for folder in (*COUNTED, "tests") for file in (PROJECT / folder).rglob("*.py"))
    return sorted(file.relative_to(PROJECT) for file in found)


def crowded(files: Iterable[Path]) -> dict[Path, int]:
    modules = Counter(file.parent for file in files if file.name != "__init__.py")
    return {folder: count for folder, count in sorted(modules.items()) if count > MOST_MODULES}


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of all string statements: docstrings, including those below a field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _package(file: Path) -> str:
    return ".".join(file.parts[:2]) if file.parts[0] == "aiperf" and len(file.parts) > 2 else file.parts[0]


def _row(name: str, lines: LineCounts) -> str:
    numbers = (lines.files, lines.code, lines.docstrings, lines.comments, lines.blank, lines.total)
    return f"{name:<28}" + "".join(f"{number:>12,}" for number in numbers)


def main() -> None:
    files = python_files()
    sources = {file: (PROJECT / file).read_text() for file in files}
    counts = {file: lines_of(source) for file, source in sources.items()}
    packages: dict[str, LineCounts] = {}
    for file, lines in counts.items():
        packages[_package(file)] = packages.get(_package(file), LineCounts()) + lines

    def total(roots: tuple[str, ...]) -> LineCounts:
        return sum((lines for file, lines in counts.items() if file.parts[0] in roots), LineCounts())

    print(
        f"{'package':<28}"
        + "".join(f"{name:>12}" for name in ("files", "code", "docstrings", "comments", "blank", "total"))
    )
    for name in sorted(packages):
        print(_row(name, packages[name]))
    print(_row("product", total(PRODUCT)))
    print(_row("product, tools, benchmarks", total(COUNTED)))
    print(_row("tests", total(("tests",))))
    product = [file for file in files if file.parts[0] in COUNTED]
    print(f"\nmore than {MOST_MODULES} modules in a folder:")
    for folder, count in crowded(product).items():
        print(f"  {folder}: {count}")
    lengths = [length for file in product for length in function_lengths(sources[file])]
    whole, code = (statistics.median(each) for each in zip(*lengths, strict=True))
    print(f"\nfunctions: {len(lengths):,}, median length {whole:g} lines, {code:g} without docstrings")


if __name__ == "__main__":
    main()
