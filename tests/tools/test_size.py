"""Each line is counted once, by its kind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.size import (
    PROJECT,
    by_package,
    change,
    crowded,
    lines_of,
    over_budget,
    parent_sources,
    python_files,
)

_SOURCE = '''"""A docstring

of three lines."""

# a comment
VALUE = 1  # code
"""Its docstring."""
TEXT = """
# code
"""


def doubled() -> int:
    """Return twice the value."""
    return 2 * VALUE
'''


def test_each_line_counts_once_by_its_kind() -> None:
    assert lines_of(_SOURCE) == {"files": 1, "code": 6, "docstrings": 5, "comments": 1, "blank": 3}


def test_totals_equal_the_lines_of_the_files() -> None:
    for file in python_files():
        source = (PROJECT / file).read_text()
        assert lines_of(source).total() - 1 == len(source.splitlines()), file


def test_a_folder_of_21_modules_is_crowded() -> None:
    files = [Path(f"folder/module_{number}.py") for number in range(20)] + [Path("folder/__init__.py")]

    assert crowded(files) == {}
    assert crowded([*files, Path("folder/one_more.py")]) == {Path("folder"): 21}


def test_data_and_system_hold_at_most_20_modules() -> None:
    assert (
        not {Path("aiperf/data"), Path("aiperf/system"), Path("tools"), Path("benchmarks")}
        & crowded(python_files()).keys()
    )


def test_code_beyond_the_budget_is_refused() -> None:
    pyproject = "[tool.size]\ncode_lines = 1000\n"

    assert over_budget(1000, pyproject) is None
    assert over_budget(1002, pyproject) == (
        "product, tools and benchmarks must have at most 1,000 lines of code, but have 1,002: remove 2, or raise "
        "[tool.size] code_lines in pyproject.toml by what the issue states"
    )


def test_the_change_counts_code_and_docstrings_apart() -> None:
    before = by_package({Path("aiperf/train/loop.py"): _SOURCE, Path("tools/size.py"): _SOURCE})
    after = by_package({Path("aiperf/train/loop.py"): _SOURCE + "MORE = 1\n", Path("tests/test_a.py"): _SOURCE})

    assert [line.split() for line in change(before, after)][1:] == [
        ["aiperf.train", "+0", "+1", "+0"],
        ["tests", "+1", "+6", "+5"],
        ["tools", "-1", "-6", "-5"],
        ["product,", "tools,", "benchmarks", "-1", "-5", "-5"],
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_parent_sources_are_those_of_the_commit_before(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *author, *arguments], check=True, capture_output=True)

    assert parent_sources(tmp_path) is None
    git("init")
    for folder in ("aiperf", "morphism", "searchers", "cluster", "tools", "benchmarks", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(_SOURCE)
    git("add", ".")
    git("commit", "-m", "first")
    assert parent_sources(tmp_path) is None
    (tmp_path / "aiperf" / "a.py").write_text("")
    git("commit", "-am", "second")
    parent = parent_sources(tmp_path)
    assert parent is not None and parent[Path("aiperf/a.py")] == _SOURCE
