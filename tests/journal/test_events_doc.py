"""docs/events.md says what the types say, and its worked example can be verified by the program printed beside it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from aiperf.journal.events import SCHEMA, SCHEMAS_READ, AnyEvent, FollowedRun, Follows, Interval, WorkerShape
from tools import events_doc, events_history

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"
GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.jsonl"))


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

    assert told == {part.__name__: list(part.__struct_fields__) for part in PARTS}


PARTS = (FollowedRun, WorkerShape, Follows, Interval)
TYPES = {part.__name__: part for part in (*get_args(AnyEvent), *PARTS)}


def test_the_documented_history_adds_up_to_the_fields_that_are_written() -> None:
    """A field that came without its line, or a line whose field is gone, stands out here by name."""
    written = {name: set(part.__struct_fields__) for name, part in TYPES.items()}

    assert events_history.documented() == written, f"tell it in {events_history.LINES.name}"


def test_every_schema_up_to_the_one_that_is_written_has_its_release_and_its_lines() -> None:
    told = {change.schema for change in events_history.changes()}

    assert sorted(told) == list(events_history.RELEASES) == list(SCHEMAS_READ)
    assert SCHEMAS_READ[-1] == SCHEMA


def test_what_an_event_gained_later_has_a_default_so_that_older_journals_read() -> None:
    gained = [
        (change.event, name)
        for change in events_history.changes()
        if change.event in events_history.FIRST
        for name in change.fields
    ]
    required = {
        (name, field.name) for name, part in TYPES.items() for field in msgspec.structs.fields(part) if field.required
    }

    assert gained
    assert [both for both in gained if both in required] == []


@pytest.mark.parametrize("journal", GOLDEN, ids=lambda path: path.stem)
def test_recorded_journals_hold_nothing_that_came_with_a_later_schema(journal: Path) -> None:
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    schema = lines[0]["schema"]
    later = {
        (change.event, name) for change in events_history.changes() if change.schema > schema for name in change.fields
    }

    assert {(line["event"], name) for line in lines for name in line} & later == set()


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
