"""Over a long run parents come from all rounds for every searcher, and a run without such growth is detected."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import aiperf.rules.interpret
from aiperf.journal.journal import NAME
from aiperf.rules.limits import ScheduleConf
from aiperf.rules.procedure import predicted_accuracy
from aiperf.simulate.session import open_run, world_of
from searchers.searcher_config import EvolutionConf, RandomConf, SearcherConf
from tests.audit import laws
from tests.audit.auditor import Auditor
from tests.audit.ground_truth import GroundTruth
from tests.audit.laws import BrokenLaw
from tests.audit.restarts import drive
from tests.builders.landscapes import Setting, configured

LONG = Setting(workers=8, trials=80, factor=32.0)
"""Ten rounds of every worker, with sufficient room to grow."""


def descent(searcher: SearcherConf, folder: Path) -> list[tuple[int, int]]:
    """Return (round, round of its parent) of every child of a run that kept all laws."""
    opening = open_run(configured(LONG, searcher, seed=0))
    ground_truth = GroundTruth()
    world = world_of(opening)
    auditor = Auditor(ground_truth, random.Random(0))
    drive(world, opening.first, folder / NAME, truth=ground_truth, audience=auditor)
    auditor.finish(folder / NAME)
    return auditor.descent


@pytest.mark.parametrize("searcher", [EvolutionConf(), RandomConf()], ids=["evolution", "random"])
def test_parents_come_from_later_rounds_over_a_long_run(searcher: SearcherConf, tmp_path: Path) -> None:
    children = descent(searcher, tmp_path)

    third = len(children) // 3
    of_first = [sum(parent == 1 for _, parent in part) / third for part in (children[:third], children[-third:])]
    assert of_first[1] < of_first[0] / 2
    assert len({parent for _, parent in children}) > 5


def observations_by_round(procedure: ScheduleConf, accuracies: Sequence[float]) -> float:
    """Return the accuracy by rules 3: a prediction for epoch 60 after a short trial, a measurement after a long one."""
    best, predicted = max(accuracies), predicted_accuracy(accuracies, procedure.epochs[-1])
    is_early = len(accuracies) <= procedure.epochs[-2]
    return predicted if is_early and predicted is not None and best <= predicted <= 1 else best


def test_results_on_two_scales_break_the_law_of_generations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiperf.rules.interpret, "reported_accuracy", observations_by_round)

    with pytest.raises(BrokenLaw) as caught:
        descent(EvolutionConf(), tmp_path)

    assert caught.value.law == laws.GENERATIONS
