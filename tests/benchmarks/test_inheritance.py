"""What `benchmarks/inheritance.py` compares is what a run does, and is compared at equal work."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.data.opening import open_data
from benchmarks.inheritance import NOISE, TODAY, Arm, Bench, arms, family_of, inherited, operations, table
from morphism import Widen
from tests.torch_threads import one_torch_thread
from tests.train.orders import CONF, IMAGES, graph

__all__ = ["one_torch_thread"]


def test_weights_made_by_the_benchmark_train_as_those_that_a_run_inherits(tmp_path: Path) -> None:
    family = family_of(graph(), seed=0)
    by_hand = Arm("by hand", change=lambda family, state, seed: inherited(family, state, seed, NOISE))

    with open_data(IMAGES) as images:
        bench = Bench(images, CONF, epochs=2, batch=64)
        bench.parent(family, 0, tmp_path)
        as_a_run = bench.run(Arm(TODAY), family, 0, tmp_path)
        as_the_benchmark = bench.run(by_hand, family, 0, tmp_path)

    assert [epoch.validation_loss for epoch in as_a_run] == [epoch.validation_loss for epoch in as_the_benchmark]
    assert [epoch.training_loss for epoch in as_a_run] == [epoch.training_loss for epoch in as_the_benchmark]


@pytest.mark.parametrize("arm", [arm for arm in arms(64) if arm.change is None], ids=lambda arm: arm.name)
def test_every_arm_spends_the_work_that_its_name_says(
    arm: Arm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = family_of(graph(), seed=1)
    spent: list[int] = []
    monkeypatch.setattr(
        Bench,
        "_train",
        lambda self, trial, begins, of, morphs, parent, epochs, *rest: spent.append(epochs * operations(of)),
    )
    with open_data(IMAGES) as images:
        Bench(images, CONF, epochs=10, batch=64).run(arm, family, 1, tmp_path)

    asked = 10 * (operations(family.child) + (operations(family.parent) if arm.with_parents_work else 0))
    assert abs(spent[0] - asked) <= operations(family.parent if arm.is_parent else family.child) / 2


def test_a_child_of_the_benchmark_is_wider_and_grown_by_one_morph_of_another_kind() -> None:
    for seed in range(20):
        first, second = family_of(graph(), seed).morphs
        assert isinstance(first, Widen) and not isinstance(second, Widen)


def test_the_table_compares_within_a_seed() -> None:
    lines = [
        {"seed": seed, "arm": name, "errors": [0.9, end + 0.1 * seed], "seconds": 1.0}
        for seed in range(8)
        for name, end in ((TODAY, 0.5), ("other", 0.48))
    ]

    assert table(lines)[-1] == "| other | 8 | 0.900 | 0.830 | 0.830 | -0.020 (-0.020 to -0.020) | 8 of 8 |"
