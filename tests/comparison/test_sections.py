"""Report sections about another run agree with `compare`, on the page and in report.json."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from aiperf.cli.arguments import execute
from aiperf.comparison.compare import compare
from aiperf.comparison.compared_runs import side
from aiperf.comparison.followed import followed
from aiperf.errors import CannotCompare
from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, Journal
from aiperf.report.write import report_of
from tests.builders.report_journal import Shape, invented
from tests.simulate.test_following import simulated
from tools import report_schema


def recorded(folder: Path, events: Sequence[AnyEvent]) -> Path:
    folder.mkdir()
    with Journal(folder / NAME) as journal:
        journal.append(events)
    return folder


def run(folder: Path, **differing: Any) -> Path:
    return recorded(folder, invented(Shape(name=folder.name, duration=90.0, warmup=10.0, **differing)))


@pytest.fixture
def follows_there(tmp_path: Path) -> Path:
    """Simulated run in 'here' that follows the run in 'there'."""
    simulated(tmp_path / "there")
    simulated(tmp_path / "here", follow=tmp_path / "there")
    return tmp_path / "here"


def written(folder: Path) -> tuple[str, Any]:
    document = json.loads((folder / "report.json").read_text())
    jsonschema.Draft202012Validator(json.loads(report_schema.FILE.read_text())).validate(document)
    return (folder / "report.html").read_text(), document


def test_a_report_against_a_run_agrees_with_compare(tmp_path: Path) -> None:
    before, after = run(tmp_path / "before"), run(tmp_path / "after", seed=8, epoch_seconds=0.7)

    assert execute(["report", str(after), "--against", str(before)]) == 0

    page, document = written(after)
    found = compare(side([str(before)]), side([str(after)]))
    assert document["against"] == json.loads(msgspec.json.encode(found))
    assert found.made_of is not None
    parts = document["against"]["made_of"]["parts"]
    assert math.fsum(part["log_ratio"] for part in parts) == pytest.approx(found.made_of.log_ratio)
    section = page[page.index('<section id="against"') :].partition("</section>")[0]
    for part in found.made_of.parts:
        assert f">{part.name}</" in section
    assert 'href="#against"' in page


def test_a_report_of_one_run_says_nothing_of_others(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone")

    execute(["report", str(alone)])

    page, document = written(alone)
    assert not {"against", "followed"} & set(document)
    assert 'id="against"' not in page and 'id="followed"' not in page


def test_another_benchmark_is_rejected_before_any_write(tmp_path: Path) -> None:
    one, other = run(tmp_path / "one"), run(tmp_path / "other", simulated=True)

    with pytest.raises(CannotCompare, match="one data set"):
        execute(["report", str(one), "--against", str(other)])

    assert [path.name for path in one.iterdir()] == [NAME]


def test_a_following_run_is_compared_pair_by_pair(tmp_path: Path, follows_there: Path) -> None:
    execute(["report", str(follows_there)])

    page, document = written(follows_there)
    there = report_of(tmp_path / "there")
    prints = {trial.number: trial.fingerprint for trial in there.trials}
    mine = {trial["number"]: trial for trial in document["trials"]}
    listed = document["followed"]["trials"]
    assert listed and len(listed) == len(mine)
    for pair in listed:
        assert mine[pair["here"]]["follows"] == pair["there"]
        assert mine[pair["here"]]["fingerprint"] == prints[pair["there"]]
    assert document["followed"]["pairs"]["pairs"] > 1
    assert document["followed"]["pairs"]["relative"] == pytest.approx(0.0, abs=0.05)  # the same work at the same pace
    assert "pair by pair" in page[page.index('<section id="followed"') :]


def test_a_followed_run_that_was_moved_is_found_beside_the_run(tmp_path: Path, follows_there: Path) -> None:
    elsewhere = tmp_path / "archive"
    elsewhere.mkdir()
    for name in ("here", "there"):
        (tmp_path / name).rename(elsewhere / name)

    found = followed(report_of(elsewhere / "here"), elsewhere / "here")

    assert found is not None and found.why_not is None and found.trials


def test_a_missing_or_other_followed_journal_gives_no_pairs(tmp_path: Path, follows_there: Path) -> None:
    report = report_of(follows_there)
    there = tmp_path / "there" / NAME
    first = there.read_bytes()

    there.unlink()
    missing = followed(report, follows_there)
    run(tmp_path / "other", seed=9)
    there.write_bytes((tmp_path / "other" / NAME).read_bytes())
    another = followed(report, follows_there)
    there.write_bytes(first.replace(b"epoch", b"hcope"))
    damaged = followed(report, follows_there)

    for found, words in ((missing, "neither at"), (another, "another"), (damaged, "cannot be read")):
        assert found is not None and found.why_not is not None and words in found.why_not
        assert found.trials == () and found.pairs is None
