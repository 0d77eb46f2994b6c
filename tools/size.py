"""Count the lines of the repository by package: `make size`. Product means the contents of the wheel.

`--budget` fails above `[tool.size] code_lines` of pyproject.toml. `--change` prints the difference to the parent commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import statistics
import subprocess
import sys
import tarfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    files = (file for folder in (*COUNTED, "tests") for file in (PROJECT / folder).rglob("*.py"))
    return sorted(file.relative_to(PROJECT) for file in files)


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


def by_package(sources: Mapping[Path, str]) -> dict[str, LineCounts]:
    packages: dict[str, LineCounts] = {}
    for file, source in sources.items():
        packages[_package(file)] = packages.get(_package(file), LineCounts()) + lines_of(source)
    return packages


def over_budget(code_lines: int, pyproject: str) -> str | None:
    """Return the error if the code of product, tools and benchmarks has more lines than its budget."""
    budget: int = tomllib.loads(pyproject)["tool"]["size"]["code_lines"]
    if code_lines <= budget:
        return None
    return (
        f"product, tools and benchmarks must have at most {budget:,} lines of code, but have {code_lines:,}: remove "
        f"{code_lines - budget:,}, or raise [tool.size] code_lines in pyproject.toml by what the issue states"
    )


def parent_sources(project: Path) -> dict[Path, str] | None:
    """Return the Python files of the parent commit. None without one: an archive, a shallow clone, or a first commit."""
    try:
        archive = subprocess.run(
            ["git", "-C", project, "archive", "HEAD^", *COUNTED, "tests"],
            capture_output=True,
            check=True,
            timeout=60,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = (member for member in tar if member.isfile() and member.name.endswith(".py"))
        contents = ((Path(member.name), tar.extractfile(member)) for member in files)
        return {path: content.read().decode() for path, content in contents if content is not None}


def change(before: Mapping[str, LineCounts], after: Mapping[str, LineCounts]) -> Iterator[str]:
    """Yield the lines of a table with the packages of which code or docstrings changed."""
    differences: dict[str, tuple[int, ...]] = {}
    for name in sorted({*before, *after}):
        old, new = before.get(name, LineCounts()), after.get(name, LineCounts())
        differences[name] = (new.files - old.files, new.code - old.code, new.docstrings - old.docstrings)
    counted = [numbers for name, numbers in differences.items() if name != "tests"]
    total = tuple(sum(column) for column in zip(*counted, strict=True))
    yield f"{'change to the parent commit':<28}{'files':>12}{'code':>12}{'docstrings':>12}"
    for name, numbers in [*differences.items(), ("product, tools, benchmarks", total)]:
        if any(numbers) or numbers is total:
            yield f"{name:<28}" + "".join(f"{number:>+12,}" for number in numbers)


def _row(name: str, lines: LineCounts) -> str:
    numbers = (lines.files, lines.code, lines.docstrings, lines.comments, lines.blank, lines.total)
    return f"{name:<28}" + "".join(f"{number:>12,}" for number in numbers)


def _print_table(sources: Mapping[Path, str], packages: Mapping[str, LineCounts]) -> None:
    def total(roots: tuple[str, ...]) -> LineCounts:
        return sum((lines for name, lines in packages.items() if name.split(".")[0] in roots), LineCounts())

    titles = ("files", "code", "docstrings", "comments", "blank", "total")
    print(f"{'package':<28}" + "".join(f"{name:>12}" for name in titles))
    for name in sorted(packages):
        print(_row(name, packages[name]))
    print(_row("product", total(PRODUCT)))
    print(_row("product, tools, benchmarks", total(COUNTED)))
    print(_row("tests", total(("tests",))))
    product = [file for file in sources if file.parts[0] in COUNTED]
    print(f"\nmore than {MOST_MODULES} modules in a folder:")
    for folder, count in crowded(product).items():
        print(f"  {folder}: {count}")
    lengths = [length for file in product for length in function_lengths(sources[file])]
    whole, code = (statistics.median(each) for each in zip(*lengths, strict=True))
    print(f"\nfunctions: {len(lengths):,}, median length {whole:g} lines, {code:g} without docstrings\n")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.size", description="Lines of the repository by package.")
    parser.add_argument("--budget", action="store_true", help="only check [tool.size] code_lines of pyproject.toml")
    parser.add_argument("--change", action="store_true", help="only print the difference to the parent commit")
    given = parser.parse_args(arguments)
    sources = {file: (PROJECT / file).read_text() for file in python_files()}
    packages = by_package(sources)
    if given.budget:
        code = sum(lines.code for name, lines in packages.items() if name != "tests")
        if error := over_budget(code, (PROJECT / "pyproject.toml").read_text()):
            raise SystemExit(error)
        return
    if not given.change:
        _print_table(sources, packages)
    before = parent_sources(PROJECT)
    if before is None:
        print("no parent commit here (an archive or a shallow clone): the change is not counted")
    else:
        print("\n".join(change(by_package(before), packages)))


if __name__ == "__main__":
    main(sys.argv[1:])
