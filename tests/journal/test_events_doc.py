"""docs/events.md agrees with the types, and the program on the page verifies its worked example."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from aiperf.journal.events import AnyEvent, FollowedRun, FollowedValues, GradientCounts, Interval, WorkerShape
from tools import events_doc

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


def test_the_page_is_current() -> None:
    written = DOCUMENT.read_text()

    assert written == events_doc.page(), "run: .venv/bin/python tools/events_doc.py > docs/events.md"


def test_every_event_stands_on_the_page_with_all_of_its_fields() -> None:
    told = {name: [field.name for field in fields] for name, _, fields in events_doc.events()}

    assert told == {
        event.__name__: [name for name in event.__struct_fields__ if name != "at"] for event in get_args(AnyEvent)
    }


def test_page_lists_every_part_of_an_event_with_all_fields() -> None:
    told = {name: [field.name for field in fields] for name, _, fields in events_doc.parts()}

    assert told == {part.__name__: list(part.__struct_fields__) for part in PARTS}


PARTS = (FollowedRun, WorkerShape, FollowedValues, GradientCounts, Interval)


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
