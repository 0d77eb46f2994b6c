"""What is drawn of a long run: by its last hash, the same for everyone; and what is not drawn is not left alone."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.visiting_order import training_steps
from aiperf.verify import verification, verify
from aiperf.verify.attempts import whole_epoch
from aiperf.verify.sample import drawn, last_chain, proposals_requested
from tests.journal.forged import lines_of, write

GOLDEN = Path(__file__).parents[1] / "golden"
REAL = GOLDEN / "resumed-v4.jsonl"

chains = st.binary(min_size=1, max_size=8).map(lambda word: hashlib.sha256(word).hexdigest())


@given(chains, st.integers(0, 300), st.integers(0, 300))
def test_a_sample_is_so_many_different_numbers_and_a_larger_one_holds_it(chain: str, proposals: int, size: int) -> None:
    sample = drawn(chain, proposals, size)

    assert len(sample) == len(set(sample)) == min(size, proposals)
    assert all(0 <= number < proposals for number in sample)
    assert set(sample) <= set(drawn(chain, proposals, size + 1))
    assert drawn(chain, proposals, None) == tuple(range(proposals))


def test_another_last_hash_draws_another_sample() -> None:
    samples = {drawn(hashlib.sha256(bytes([word])).hexdigest(), 1000, 10) for word in range(50)}

    assert len(samples) == 50
    assert len({number for sample in samples for number in sample}) > 350


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_end_of_a_journal_tells_its_hash_and_how_many_proposals_it_asks_for(journal: Path, tmp_path: Path) -> None:
    lines = lines_of(journal)

    assert f'"chain":"{last_chain(journal)}"' in journal.read_text().splitlines()[-1]
    assert proposals_requested(journal) == sum(line["event"] == "ProposalRequested" for line in lines)
    torn = tmp_path / "journal.jsonl"
    torn.write_bytes(journal.read_bytes() + b'{"event":"Progr')
    assert last_chain(torn) == last_chain(journal)


def test_an_architecture_that_is_not_drawn_is_held_to_its_parent_and_to_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "BUILT", 0)
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
def test_the_images_of_an_epoch_are_those_of_the_steps_that_ranks_make(images: int, batch: int, ranks: int) -> None:
    assert whole_epoch(images, batch, ranks) == training_steps(images, batch, ranks)[-1].stop
