"""Each line is counted once, by its kind."""

from __future__ import annotations

from pathlib import Path

from tools.size import PROJECT, LineCounts, crowded, function_lengths, lines_of, python_files

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
    assert lines_of(_SOURCE) == LineCounts(files=1, code=6, docstrings=5, comments=1, blank=3)
    assert list(function_lengths(_SOURCE)) == [(3, 2)]


def test_totals_equal_the_lines_of_the_files() -> None:
    for file in python_files():
        source = (PROJECT / file).read_text()
        assert lines_of(source).total == len(source.splitlines()), file


def test_a_folder_of_21_modules_is_crowded() -> None:
    files = [Path(f"folder/module_{number}.py") for number in range(20)] + [Path("folder/__init__.py")]

    assert crowded(files) == {}
    assert crowded([*files, Path("folder/one_more.py")]) == {Path("folder"): 21}


def test_data_and_system_hold_at_most_20_modules() -> None:
    assert (
        not {Path("aiperf/data"), Path("aiperf/system"), Path("tools"), Path("benchmarks")}
        & crowded(python_files()).keys()
    )
