"""Names in the documents exist: tests, files, pages and sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiperf.system.source import OF_A_SITE

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
    named = [name for name in named if Path(name).name != OF_A_SITE]
    assert [name for name in named if not (PROJECT / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_section_that_a_page_names_exists(page: Path) -> None:
    """A link of the form [page.md](page.md), "Section" names a heading or a bold first phrase of that page."""
    named = re.findall(r'\]\(([^)#\s:]+\.md)\), "([^"]+)"', page.read_text())

    assert [(link, title) for link, title in named if not _has_section(page.parent / link, title)] == []


def test_every_page_and_section_that_the_code_names_exists() -> None:
    sources = [
        *(
            file
            for folder in ("aiperf", "morphism", "searchers", "cluster", "conf", "tools")
            for file in _texts(folder)
        ),
        *(PROJECT / name for name in ("pyproject.toml", "Dockerfile", "Makefile", "CONTRIBUTING.md")),
    ]
    named = {
        found for file in sources for found in re.findall(r'docs/([\w-]+\.md)(?:, "([^"\n]+)")?', file.read_text())
    }

    assert len(named) > 10
    assert [page for page, _ in named if not (PROJECT / "docs" / page).is_file()] == []
    assert [each for each in named if each[1] and not _has_section(PROJECT / "docs" / each[0], each[1])] == []


def test_every_page_is_in_the_contents_of_the_site() -> None:
    listed = re.findall(r"^- .*\]\(([\w-]+\.md)\)$", (PROJECT / "docs/index.md").read_text(), re.MULTILINE)

    assert sorted(listed) == sorted(page.name for page in (PROJECT / "docs").glob("*.md") if page.name != "index.md")


def test_each_measured_figure_names_a_command_that_exists() -> None:
    """A removed script is named with its commit. The heading of a further section names its command."""
    page = (PROJECT / "benchmarks/results.md").read_text()
    commands = re.findall(r"`python (?:-m )?(aiperf|benchmarks[\w./]+)[^`]*`( at [0-9a-f]{7})?", page)

    claims, *sections = page.split("\n## ")
    rows = [
        line for line in claims.splitlines() if line.startswith("| ") and not re.match(r"\| (\*\*|---|claim)", line)
    ]
    assert [row for row in rows if "`python " not in row and "the same |" not in row] == []
    assert [section for section in sections if "`python " not in section.partition("\n")[0]] == []
    assert [
        module
        for module, commit in commands
        if module != "aiperf" and not commit and not (PROJECT / (module.replace(".", "/") + ".py")).is_file()
    ] == []


def _texts(folder: str) -> list[Path]:
    return [file for file in (PROJECT / folder).rglob("*") if file.suffix in {".py", ".yaml", ".sh"}]


def _has_section(page: Path, title: str) -> bool:
    return re.search(rf"^(#+ |(- )?\*\*){re.escape(title)}\b", page.read_text(), re.MULTILINE) is not None
