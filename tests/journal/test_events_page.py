"""The example of docs/events.md, verified by the program on the page."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec

from aiperf.journal.events import SCHEMA, AnyEvent, EpochFinished, RunStarted

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"


def block(language: str) -> str:
    """Return the first fenced block of that language."""
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def verify(journal: Path) -> subprocess.CompletedProcess[str]:
    """Run the page's program on a journal, outside of the project."""
    return subprocess.run(
        [sys.executable, "-I", "-c", block("python"), journal], capture_output=True, text=True, check=False
    )


def test_example_has_lines_of_the_present_format() -> None:
    bodies = [re.sub(r',"chain":"\w+"', "", line) for line in block("json").splitlines()]

    first, second = (msgspec.json.decode(body, type=AnyEvent) for body in bodies)

    assert isinstance(first, RunStarted) and first.schema == SCHEMA
    assert isinstance(second, EpochFinished)


def test_example_is_verified_by_the_program_on_the_page(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(block("json"))

    checked = verify(journal)

    assert len(block("python").splitlines()) <= 10
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout == block("text")


def test_one_changed_digit_breaks_the_example(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(block("json").replace('"accuracy":0.875', '"accuracy":0.975'))

    checked = verify(journal)

    assert checked.returncode == 1
    assert "line 2 does not follow from the line before it" in checked.stderr
