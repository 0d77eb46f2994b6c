"""Values that are left out or of another shape in the objects of a journal: a reader verifies and reports it, or refuses it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.errors import AiperfError, JournalDamaged
from aiperf.journal.first_line import config_hash
from aiperf.leaderboard.leaderboard import read_entry
from aiperf.report.write import report_of
from aiperf.verify import verify
from tests.builders.forged_journal import Line, lines_of, write

REAL = lines_of(Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl")
FIRST = {event: next(place for place, line in enumerate(REAL) if line["event"] == event) for event in (
    "RunStarted", "WorkerJoined", "NodeChecked")}  # fmt: skip
GONE = "left out"


def members(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of all members of nested objects."""
    if not isinstance(value, dict):
        return []
    return [path for name, inner in value.items() for path in [(*at, name), *members(inner, (*at, name))]]


PLACES = [
    (place, path)
    for event, place in FIRST.items()
    for path in members(REAL[place])
    if path[0] in {"config", "dataset", "machine", "shape", "start_graph", "readings"}
]
ODD: st.SearchStrategy[Any] = st.sampled_from([GONE, None, "x", [], {}, -1, 1e308, 2**62, [[1]], True])


def changed(place: int, path: tuple[str, ...], value: object) -> list[Line]:
    lines = copy.deepcopy(REAL)
    within = lines[place]
    for name in path[:-1]:
        within = within[name]
    if value is GONE:
        del within[path[-1]]
    else:
        within[path[-1]] = value
    lines[0]["config_hash"] = config_hash(lines[0].get("config", {}))
    return lines


@given(st.sampled_from(PLACES), ODD)
@settings(max_examples=40, deadline=None)
def test_an_odd_value_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[int, tuple[str, ...]], value: object
) -> None:
    run = write(tmp_path_factory.mktemp("run"), changed(*place, value))

    for reader in (lambda: verify(run, sample=0), lambda: report_of(run), lambda: read_entry(run)):
        try:
            reader()
        except AiperfError as refused:
            assert "\n" not in str(refused)


@pytest.mark.parametrize(
    ("event", "path", "value"),
    [
        ("RunStarted", ("config", "preflight"), [[1]]),
        ("RunStarted", ("dataset", "image"), {}),
        ("RunStarted", ("machine", "versions"), -1),
        ("RunStarted", ("config", "budget", "memory_share"), GONE),
        ("WorkerJoined", ("machine", "measured_matmul_flops"), {"bf16": None}),
        ("WorkerJoined", ("machine", "accelerators"), [1]),
        ("NodeChecked", ("readings", "disk write"), []),
        ("NodeChecked", ("readings", "disk write", "series"), {"run": -1}),
    ],
)
def test_an_object_of_another_shape_is_refused(
    tmp_path: Path, event: str, path: tuple[str, ...], value: object
) -> None:
    lines = changed(FIRST[event], path, value)

    found = verify(write(tmp_path, lines))

    assert [finding.line for finding in found.findings if finding.check == "reading"] == [FIRST[event] + 1]
    with pytest.raises(JournalDamaged, match=f"at line {FIRST[event] + 1} of"):
        report_of(tmp_path)
