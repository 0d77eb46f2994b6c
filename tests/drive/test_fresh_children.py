"""`trainer.inherit`: children begin with their parents' weights, or with fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.drive.driver import train_order
from aiperf.journal.events import TrialProposed, TrialStarted
from aiperf.journal.journal import NAME, read
from aiperf.rules.evolve import replay
from aiperf.train.setup import descend
from aiperf.verify import verify
from morphism import start
from tests.builders.run import folder_of, run_of


@pytest.mark.parametrize("inherit", [True, False])
def test_children_inherit_only_with_trainer_inherit(inherit: bool, tmp_path: Path) -> None:
    journal = folder_of(tmp_path, "run", {"trainer.inherit": inherit, "budget.factor": 8}) / NAME
    first, proposed, children = start("digits_small"), dict[int, TrialProposed](), 0

    for run, event in replay(read(journal)):
        if isinstance(event, TrialProposed):
            proposed[event.number] = event
        if isinstance(event, TrialStarted):
            order, proposal = train_order(run, event), proposed[event.trial]
            parent, network, plans = descend(first, order.lineage, order.morphs)
            assert network.fingerprint == proposal.fingerprint
            assert order.parent == (proposal.parent if inherit else None)
            assert inherit or (parent == network and not plans)  # fresh weights of the trained network itself
            children += proposal.parent is not None
    assert children > 5
    assert verify(journal, sample=None).findings == ()


def test_the_plan_names_fresh_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dry_run=true", "trainer.inherit=false"]) == 0

    assert "tpe from round 4; children begin with fresh weights" in capsys.readouterr().out


def test_inherited_weights_lower_the_error_in_the_model(tmp_path: Path) -> None:
    errors = [run_of(tmp_path, f"{inherit}", {"trainer.inherit": inherit}).score.error for inherit in (True, False)]

    assert errors[0] is not None and errors[1] is not None and errors[0] < errors[1]
