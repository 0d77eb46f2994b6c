"""Warning of every verb about a journal with an incomplete last line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiperf.journal.journal import NAME, read, torn_warning
from aiperf.leaderboard.entry import Entry, ranking_figure
from aiperf.leaderboard.leaderboard import leaderboard, read_entry
from aiperf.leaderboard.list_files import json_text, lines, page
from tests.builders.forged_journal import lines_of, write
from tests.cli.test_score import whole_run
from tests.rigs.user import User

GOLDEN = Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl"

TORN = b'{"kind":"Progress","at":99.5'
SAID = "the journal's last line is incomplete, 28 bytes, and was dropped"


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    folder = whole_run(tmp_path)
    with (folder / NAME).open("ab") as journal:
        journal.write(TORN)
    return folder


@pytest.mark.parametrize("verb", ["score", "check", "status", "verify", "compare"])
def test_a_verb_reports_a_dropped_line_once_as_text_and_json(aiperf: User, torn: Path, verb: str) -> None:
    words = [verb, str(torn)]
    if verb == "verify":  # it takes up the configuration, which the small run does not have
        (torn / NAME).write_bytes(GOLDEN.read_bytes() + TORN)
    if verb == "compare":
        first, *lines = lines_of(whole_run(torn.parent / "of another") / NAME)
        words.append(str(write(torn.parent / "other", [{**first, "run": "other"}, *lines])))

    outputs, document = aiperf(*words), aiperf(*words, "--json")

    assert " ".join(outputs.out.split()).count(SAID) == 1, outputs
    assert SAID in json.dumps(json.loads(document.out)), document


def test_a_ranking_reports_a_dropped_line_in_each_format(torn: Path) -> None:
    entry = read_entry(torn)
    assert isinstance(entry, Entry)
    found = leaderboard([entry], [], ranking_figure("score"))

    forms = ("\n".join(lines(found)), json_text(found), page(found))

    assert all(SAID.replace("'", "’") in form.replace("&#x27;", "'").replace("'", "’") for form in forms)


def test_a_complete_journal_gives_no_warning(tmp_path: Path) -> None:
    reader = read(whole_run(tmp_path))

    assert list(reader) and reader.reading.warning is None
    assert torn_warning(0, 12) is None
