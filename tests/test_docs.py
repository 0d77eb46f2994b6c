"""What the documents refer to is there: tests by name, files, other pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import file_map

PROJECT = Path(__file__).parent.parent
PAGES = sorted([PROJECT / "README.md", PROJECT / "CHANGELOG.md", *(PROJECT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text())

    assert [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^def {name}\(", (PROJECT / file).read_text(), re.MULTILINE)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_and_file_that_a_page_links_to_exists(page: Path) -> None:
    linked = re.findall(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)", page.read_text())

    assert [link for link in linked if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_source_file_that_a_page_names_exists(page: Path) -> None:
    owned = r"`((?:aiperf|morphism|searchers|cluster|conf|tools|benchmarks|tests)/[\w/.-]+\.(?:py|sh|yaml|json|c))`"

    named = [name for name in re.findall(owned, page.read_text()) if not Path(name).stem.isupper()]  # NAME.yaml
    assert [name for name in named if not (PROJECT / name).is_file()] == []


def test_every_section_of_measured_figures_names_a_command_that_is_there() -> None:
    headings = re.findall(r"^## (.*)$", (PROJECT / "benchmarks/results.md").read_text(), re.MULTILINE)

    commands = {heading: re.findall(r"`python -m ([\w.]+)", heading) for heading in headings}
    assert [heading for heading, named in commands.items() if not named] == []
    assert [
        module
        for named in commands.values()
        for module in named
        if module != "aiperf" and not (PROJECT / (module.replace(".", "/") + ".py")).is_file()
    ] == []


def test_the_map_of_files_names_every_module() -> None:
    there = [path.as_posix() for path in file_map.modules()]

    assert sorted(file_map.mapped()) == sorted(there), "run: .venv/bin/python tools/file_map.py"
