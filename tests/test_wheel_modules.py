"""No module of the wheel serves the tests alone: the program, or a reader of the docs, reaches each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from aiperf.cli.arguments import VERB_MODULES
from tools.size import PRODUCT

ROOT = Path(__file__).parent.parent
PUBLIC = {
    "aiperf.statistics.interleaved": "docs/statistics.md",
    "aiperf.train.trained_network": "docs/training.md",
    "searchers.ray_tune": "docs/searchers.md",
}
"""Modules that users import, and the page that documents them."""
_NAME = re.compile(r"(?:aiperf|morphism|searchers|cluster)(?:\.\w+)+")


def test_each_module_of_the_wheel_is_used_by_the_program() -> None:
    files = {_name(file): file for package in PRODUCT for file in (ROOT / package).rglob("*.py")}
    reached: set[str] = set()
    waiting = ["aiperf.__main__", *VERB_MODULES.values(), *PUBLIC]
    while waiting:
        module = waiting.pop()
        if module in files and module not in reached:
            reached.add(module)
            waiting += [*_named(files[module]), module.rpartition(".")[0]]

    assert sorted(set(files) - reached) == []


def test_public_modules_are_documented() -> None:
    for module, page in PUBLIC.items():
        assert module in (ROOT / page).read_text(), (module, page)


def _named(file: Path) -> Iterator[str]:
    """Names of modules that a file imports, or passes on as text to `importlib` or `python -m`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _NAME.findall(node.value)


def _name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
