"""Proposals of a language model's run, recomputed from its journal."""

from __future__ import annotations

from pathlib import Path

from aiperf.config import configure
from aiperf.journal.events import TrialProposed
from aiperf.journal.journal import NAME, read
from aiperf.rules.proposals import proposer_of
from aiperf.simulate.session import drive, open_run, world_of
from tests.builders.run import BASE
from tests.builders.verified_proposals import verify_proposals

OF_IMAGES = ("start", "searcher", "hpo", "dataset")


def test_proposals_of_a_language_model_are_recomputed(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for number in range(40):
        (text / f"{number}.txt").write_text(f"{number} " * 400)
    words = {name: value for name, value in BASE.items() if not name.startswith(OF_IMAGES)}
    words |= {"dataset": "text", "dataset.root": text, "dataset.pattern": "*.txt", "dataset.training_samples": 384}
    words |= {"cluster.flops": 2e10, "schedule.duration_seconds": 500, "schedule.warmup_rounds": 1}
    conf = configure([f"{option}={value}" for option, value in words.items()])
    opening = open_run(conf)
    drive(world_of(opening), opening.first, tmp_path / NAME)

    again = list(verify_proposals(read(tmp_path / NAME), proposer_of(conf.searcher, conf.hpo)))

    assert [one.number for one in again if not one.is_equal] == []
    proposals = [one.recorded for one in again if isinstance(one.recorded, TrialProposed)]
    assert {morph["kind"] for proposal in proposals for morph in proposal.morphs} == {"deepen", "widen", "heads"}
    assert {proposal.kernel_size for proposal in proposals} == {None}
    assert "startup" in {proposal.tuned_by for proposal in proposals}
