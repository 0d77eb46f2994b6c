"""Landscapes for comparing searchers have their documented properties, and trainings approach them slowly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.simulate.model.learning_curves import Curve
from morphism import Budget, Graph, Map, choices, start
from morphism.grow import grow
from searchers.growth import chance, drawn
from searchers.searcher_config import RandomConf
from tests.builders.landscapes import LANDSCAPES, Landscape, OnLandscape, Setting, run

SMALL = start("digits_small")
PLENTY = Budget.of(SMALL, 64.0)


def grown(seed: int, morphs: int) -> Graph:
    graph = SMALL
    random = chance("grown", seed)
    for _ in range(morphs):
        graph = grow(graph, drawn(choices(graph, PLENTY), random))
    return graph


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 200), st.integers(1, 6))
def test_punished_growth_never_helps_and_saturated_is_flat(seed: int, morphs: int) -> None:
    child = grown(seed, morphs)

    punished, saturated = (Landscape(SMALL, seed, name) for name in ("punished", "saturated"))

    assert punished.true_error(child) >= punished.true_error(SMALL)
    assert saturated.true_error(child) == saturated.true_error(SMALL)


def test_only_the_drawn_stage_changes_the_error() -> None:
    children = [grown(seed, 1) for seed in range(40)]
    improving: set[tuple[bool, ...]] = set()

    for seed in range(12):
        landscape = Landscape(SMALL, seed, "one_stage")
        better = tuple([landscape.true_error(child) < landscape.true_error(SMALL) for child in children])
        assert all(landscape.true_error(child) <= landscape.true_error(SMALL) for child in children)
        improving.add(better)

    heights = {shape.height for shape in SMALL.shapes if isinstance(shape, Map)}
    assert 1 < len(improving) <= len(heights)
    assert not any(map(all, improving))


@pytest.mark.parametrize("name", LANDSCAPES)
def test_a_short_training_is_noisier_than_a_long_one(name: str) -> None:
    learning = OnLandscape(Landscape(SMALL, 3, name))
    floor = learning.floor(SMALL)

    curves = [learning.curve(seed, 10, floor, 30.0, 60) for seed in range(60)]

    def spread(epoch: int) -> float:
        missed = [abs(curve.error(epoch) / cold(curve, epoch) - 1 - curve.heat[epoch - 1]) for curve in curves]
        return sum(missed) / len(missed)

    def cold(curve: Curve, epoch: int) -> float:
        return Curve(curve.chance_error, curve.floor, curve.inherited_epochs, (0.0,) * 60).error(epoch)

    assert curves[0] == learning.curve(0, 10, floor, 30.0, 60)
    assert spread(5) > 3 * spread(60)
    assert all(curve.heat[0] > curve.heat[59] > 0 for curve in curves)


def test_a_search_reports_the_error_of_the_best_trial_so_far() -> None:
    setting = Setting(workers=2, trials=6)

    errors = run(setting, RandomConf(), seed=1, landscape="balanced")

    assert len(errors) == setting.trials
    assert errors[0] == pytest.approx(Landscape(SMALL, 1, "balanced").true_error(SMALL))
