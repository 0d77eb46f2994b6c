"""Tests of report.json against its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from aiperf.journal.events import AnyEvent, FollowedRun, FollowedValues, RunStarted, TrialProposed
from aiperf.journal.journal import NAME
from aiperf.report import facts
from aiperf.report.gather import gather
from aiperf.report.write import as_document, report_of
from tests.builders.report_journal import Shape, invented, many_workers
from tools import generated_docs

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMA = json.loads(generated_docs.SCHEMA_FILE.read_text())
COMMAND = "python -m tools.generated_docs"


def following() -> list[AnyEvent]:
    """Return a run that follows another with every trial."""
    there = FollowedRun(run="there", path="there", lines=9, last_hash="0" * 64, trials=3, left_out={}, ranks=2)
    return [
        msgspec.structs.replace(event, follows=there)
        if isinstance(event, RunStarted)
        else msgspec.structs.replace(
            event, follows=FollowedValues(trial=event.number + 5, epochs=4, was_cut_off=False, seed=1, heirs=0)
        )
        if isinstance(event, TrialProposed)
        else event
        for event in invented(Shape(workers=2, duration=60.0, warmup=10.0))
    ]


RUNS: dict[str, Callable[[], Sequence[AnyEvent]]] = {
    "simulated": lambda: invented(Shape(workers=2, end=60.0, ends="interrupted", simulated=True)),
    "no trial finished": lambda: invented(Shape(duration=3.0, warmup=1.0)),
    "only begun": lambda: invented(Shape())[:1],
    "following": following,
    "workers lost": lambda: invented(Shape(workers=2, duration=60.0, warmup=10.0, lose_worker_at=30.0, resume_at=45.0)),
    "many workers": lambda: many_workers(workers=30, trials_each=2),
}


def as_written(report: facts.Report) -> Any:
    return json.loads(msgspec.json.encode(as_document(report, ())))


def holds(document: Any) -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(document)


@pytest.mark.parametrize("run", RUNS)
def test_every_kind_of_run_follows_the_schema(run: str) -> None:
    document = as_written(gather(RUNS[run]()))

    holds(document)
    assert (document["schema"], document["version"]) == ("aiperf-report", facts.VERSION)


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_real_run_of_every_release_follows_the_schema(journal: Path, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(journal.read_bytes())
    recorded = journal.with_suffix(".telemetry")
    if recorded.is_dir():
        (tmp_path / "telemetry").mkdir()
        for file in recorded.iterdir():
            (tmp_path / "telemetry" / file.name).write_bytes(file.read_bytes())

    holds(as_written(report_of(tmp_path)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 1),
        (("schema",), "another"),
        (("score", "flops_per_second"), "many"),
        (("trials", 0, "number"), None),
        (("hardware", "accelerators"), 1.5),
        (("warnings",), {}),
    ],
)
def test_what_is_of_another_form_is_refused(path: tuple[Any, ...], value: Any) -> None:
    document = as_written(gather(RUNS["simulated"]()))
    part = document
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value

    with pytest.raises(jsonschema_rs.ValidationError):
        holds(document)


@pytest.mark.parametrize("name", sorted(SCHEMA["required"]))
def test_no_field_of_the_whole_may_be_left_out(name: str) -> None:
    document = as_written(gather(RUNS["only begun"]()))
    del document[name]

    with pytest.raises(jsonschema_rs.ValidationError):
        holds(document)


def test_the_schema_that_is_shipped_is_that_of_the_facts() -> None:
    assert generated_docs.SCHEMA_FILE.read_text() == generated_docs.schema_text(), f"run `{COMMAND}`"


def test_the_fields_that_docs_report_names_are_in_the_schema() -> None:
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    named = re.search(r"Read first: (.*?)\. Each trial", page, re.DOTALL)

    assert named is not None
    assert set(re.findall(r"`(\w+)`", named[1])) <= set(SCHEMA["properties"])
