"""Count the lines of the repository by package: `make size`. Product means the contents of the wheel.

`--budget` fails above `[tool.size] code_lines` of pyproject.toml. `--change` prints the difference to the parent commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tarfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).parent.parent
PRODUCT = ("aiperf", "morphism", "searchers", "cluster")
COUNTED = (*PRODUCT, "tools", "benchmarks")
MOST_MODULES = 20
"""Maximum number of modules in a folder, without `__init__.py`."""
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}


Counts = Counter[str]
"""Number of files, and of lines by KINDS."""
KINDS = ("code", "docstrings", "comments", "blank")


def lines_of(source: str) -> Counts:
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
    blank = len(source.splitlines()) - len(code) - len(docstrings) - len(comments)
    return Counter(files=1, code=len(code), docstrings=len(docstrings), comments=len(comments), blank=blank)


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


def by_package(sources: Mapping[Path, str]) -> dict[str, Counts]:
    packages: dict[str, Counts] = {}
    for file, source in sources.items():
        packages.setdefault(_package(file), Counter()).update(lines_of(source))
    return packages


def over_budget(code_lines: int, pyproject: str) -> str | None:
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


def change(before: Mapping[str, Counts], after: Mapping[str, Counts]) -> Iterator[str]:
    shown, total = ("files", "code", "docstrings"), Counts()
    yield f"{'change to the parent commit':<28}" + "".join(f"{kind:>12}" for kind in shown)
    for name in sorted({*before, *after}):
        difference = Counter(after.get(name))
        difference.subtract(before.get(name, {}))
        total.update(difference if name != "tests" else {})
        if any(difference[kind] for kind in shown):
            yield f"{name:<28}" + "".join(f"{difference[kind]:>+12,}" for kind in shown)
    yield f"{'product, tools, benchmarks':<28}" + "".join(f"{total[kind]:>+12,}" for kind in shown)


def _row(name: str, lines: Counts) -> str:
    numbers = (*(lines[kind] for kind in ("files", *KINDS)), sum(lines[kind] for kind in KINDS))
    return f"{name:<28}" + "".join(f"{number:>12,}" for number in numbers)


def _print_table(sources: Mapping[Path, str], packages: Mapping[str, Counts]) -> None:
    def total(roots: tuple[str, ...]) -> Counts:
        return sum((lines for name, lines in packages.items() if name.split(".")[0] in roots), Counts())

    print(f"{'package':<28}" + "".join(f"{name:>12}" for name in ("files", *KINDS, "total")))
    for name in sorted(packages):
        print(_row(name, packages[name]))
    print(_row("product", total(PRODUCT)))
    print(_row("product, tools, benchmarks", total(COUNTED)))
    print(_row("tests", total(("tests",))))
    product = [file for file in sources if file.parts[0] in COUNTED]
    print(f"\nmore than {MOST_MODULES} modules in a folder:")
    for folder, count in crowded(product).items():
        print(f"  {folder}: {count}")
    print()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.size", description="Lines of the repository by package.")
    parser.add_argument("--budget", action="store_true", help="only check [tool.size] code_lines of pyproject.toml")
    parser.add_argument("--change", action="store_true", help="only print the difference to the parent commit")
    given = parser.parse_args(arguments)
    sources = {file: (PROJECT / file).read_text() for file in python_files()}
    packages = by_package(sources)
    if given.budget:
        code = sum(lines["code"] for name, lines in packages.items() if name != "tests")
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
