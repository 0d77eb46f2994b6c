"""Tests of the samples of a long run, and of the checks outside of the samples."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.visiting_order import training_steps
from aiperf.verify import verification, verify
from aiperf.verify.check import CheckResult, whole_epoch
from aiperf.verify.verification import drawn, expected, read_lines
from tests.builders.forged_journal import Line, lines_of, write

GOLDEN = Path(__file__).parents[1] / "golden"
REAL = GOLDEN / "resumed-v4.jsonl"

chains = st.binary(min_size=1, max_size=8).map(lambda word: hashlib.sha256(word).hexdigest())


@given(chains, st.integers(0, 300), st.integers(0, 300))
def test_samples_have_distinct_numbers_and_contain_smaller_ones(chain: str, proposals: int, size: int) -> None:
    sample = drawn(chain, range(proposals), size)

    assert len(sample) == len(set(sample)) == min(size, proposals)
    assert all(0 <= number < proposals for number in sample)
    assert set(sample) <= set(drawn(chain, range(proposals), size + 1))
    assert drawn(chain, range(proposals), None) == tuple(range(proposals))


def test_another_last_hash_draws_another_sample() -> None:
    samples = {drawn(hashlib.sha256(bytes([word])).hexdigest(), range(1000), 10) for word in range(50)}

    assert len(samples) == 50
    assert len({number for sample in samples for number in sample}) > 350


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_fast_look_agrees_with_the_parsed_lines(journal: Path, tmp_path: Path) -> None:
    parsed = read_lines(journal)
    torn = tmp_path / "journal.jsonl"
    torn.write_bytes(journal.read_bytes() + b'{"event":"Progr')

    assert expected(journal) == expected(torn) == (parsed.chain, list(parsed.answered))
    assert len(parsed.answered) > 10


def nested_request(lines: list[Line]) -> None:
    """An object inside the last node's readings that looks like a request for proposal 2,000,000."""
    node = copy.deepcopy(next(line for line in lines if line["event"] == "NodeChecked"))
    node["readings"]["x"] = {"facts": {"y": {"event": "ProposalRequested", "number": 2_000_000}}}
    lines.insert(-1, node | {"at": lines[-2]["at"]})


def members_in_another_order(lines: list[Line]) -> None:
    """Lines that the fast look does not see."""
    lines[1:] = [dict(sorted(line.items())) for line in lines[1:]]


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("forge", [nested_request, members_in_another_order])
def test_no_form_of_a_line_empties_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forge: Callable[[list[Line]], None], is_long: bool
) -> None:
    lines = lines_of(GOLDEN / "resumed-v5.jsonl")
    forge(lines)
    if is_long:
        monkeypatch.setattr(verification, "LONG", 0)

    checks = {check.name: check for check in verify(write(tmp_path, lines), sample=2).checks}

    assert (checks["proposals"].examined, checks["proposals"].of) == (2, 14)
    assert checks["graphs"].examined == checks["graphs"].of == 14


def test_a_check_that_examined_none_of_some_is_a_contradiction() -> None:
    notes, left_out = CheckResult("graphs", "law", "architectures"), CheckResult("graphs", "law", "architectures")
    notes.of = left_out.of = 15
    left_out.not_checked = "a reason"

    assert notes.close().contradictions == 1
    assert left_out.close().contradictions == 0


def test_unsampled_architectures_are_checked_by_their_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "BUILT", 0)  # No architecture is rebuilt.
    lines = lines_of(REAL)
    grown = next(line for line in lines if line["event"] == "TrialProposed" and line["parent"] is not None)
    few, many = copy.deepcopy(lines), copy.deepcopy(lines)
    few[lines.index(grown)]["backward_flops"] = 1
    many[lines.index(grown)]["forward_flops"] = lines[0]["config"]["space"]["budget"]["forward_flops"] + 1

    found = {name: verify(write(tmp_path / name, forged), 0) for name, forged in (("few", few), ("many", many))}

    assert verify(REAL, 0).findings == ()
    assert ["its parent's" in finding.found for finding in found["few"].findings][:1] == [True]
    assert ["allowed" in finding.found for finding in found["many"].findings][:1] == [True]


@given(st.integers(8, 5000), st.integers(1, 300), st.integers(1, 8))
def test_an_epochs_images_are_those_of_its_steps(images: int, batch: int, ranks: int) -> None:
    assert whole_epoch(images, batch, ranks) == training_steps(images, batch, ranks)[-1].stop
