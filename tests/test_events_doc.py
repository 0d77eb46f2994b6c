"""docs/events.md says what the types say, and its worked example can be verified by the program printed beside it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from aiperf.events import SCHEMA, AnyEvent, Interval
from tools import events_doc

DOCUMENT = Path(__file__).parent.parent / "docs" / "events.md"


def block(language: str) -> str:
    """The first fenced block of that language."""
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def verify(journal: Path) -> subprocess.CompletedProcess[str]:
    """Runs the document's own program on a journal, outside of the project."""
    return subprocess.run(
        [sys.executable, "-I", "-c", block("python"), journal], capture_output=True, text=True, check=False
    )


def test_the_page_is_current() -> None:
    written = DOCUMENT.read_text()

    assert written == events_doc.page(), "run: .venv/bin/python tools/events_doc.py > docs/events.md"


def test_every_event_stands_on_the_page_with_all_of_its_fields() -> None:
    told = {name: [field.name for field in fields] for name, _, fields in events_doc.events()}

    assert told == {
        event.__name__: [name for name in event.__struct_fields__ if name != "at"] for event in get_args(AnyEvent)
    }


def test_what_stands_inside_of_an_event_stands_on_the_page_with_all_of_its_fields() -> None:
    told = {name: [field.name for field in fields] for name, _, fields in events_doc.parts()}

    assert told == {"Interval": list(Interval.__struct_fields__)}


def test_the_history_of_the_schema_ends_with_the_one_that_is_written() -> None:
    versions = [version for version, _, _ in events_doc.HISTORY]

    assert versions == list(range(1, SCHEMA + 1))


def test_a_reader_verifies_the_example_with_the_ten_lines_beside_it(tmp_path: Path) -> None:
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
    assert "line 2 does not follow from the one before it" in checked.stderr
