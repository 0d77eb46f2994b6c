"""Parts of a difference of scores: their sum is exact, and they recover planted effects."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aiperf.comparison.work import work_of
from aiperf.statistics.shares import difference, shares_of_spread
from aiperf.statistics.work_mix import RunWork, TrialWork
from tests.builders.run import run_of

positive = st.floats(1e-3, 1e6)
SHORT: dict[str, object] = {"schedule.duration_seconds": 400, "schedule.warmup_seconds": 50}
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Hypothesis takes minutes to reduce a case with many numbers."""
trials = st.builds(
    lambda network, batch, images, operations, tensor, parameters, generation, seconds: TrialWork(
        network=f"n{network}",
        batch=batch,
        started=0.0,
        images=images,
        operations=images * operations,
        tensor_operations=images * operations * tensor,
        parameters=parameters,
        generation=generation,
        busy_seconds=seconds,
    ),
    st.integers(0, 4),
    st.sampled_from([8, 16, 24, 64]),
    positive,
    st.floats(1e3, 1e9),
    st.one_of(st.just(0.0), st.floats(1e-6, 1.0)),  # none in ten to the 300th is no share that a network has
    st.integers(1, 10**8),
    st.integers(1, 9),
    positive,
)


@st.composite
def works(draw: st.DrawFn) -> RunWork:
    """A run of trials that hang together with nothing: what adds up must add up of nonsense too."""
    done = tuple(draw(st.lists(trials, min_size=1, max_size=6)))
    length, accelerators = draw(positive), draw(st.integers(1, 64))
    counted = math.fsum(trial.operations for trial in done) * draw(st.floats(0.5, 1.0))
    return RunWork("run", counted / length, accelerators, length, done)


@settings(max_examples=60, phases=QUICK)
@given(st.lists(works(), min_size=1, max_size=2), st.lists(works(), min_size=1, max_size=2))
def test_the_parts_of_a_difference_add_up(first: list[RunWork], second: list[RunWork]) -> None:
    found = difference(first, second)

    assert found is not None
    assert math.fsum(part.log_ratio for part in found.parts) == pytest.approx(found.log_ratio, abs=1e-9)
    amounts = [part.flops_per_second for part in found.parts]
    size = max(first[0].flops_per_second, *(abs(amount) for amount in amounts))
    assert math.fsum(amounts) == pytest.approx(found.flops_per_second, abs=1e-9 * size)


@settings(max_examples=40, phases=QUICK)
@given(st.lists(works(), min_size=2, max_size=4))
def test_the_shares_of_a_spread_add_up_to_one(runs: list[RunWork]) -> None:
    found = shares_of_spread(runs)

    if found is None:
        assert len({run.flops_per_second for run in runs}) == 1
        return
    size = max(1.0, *(abs(part.share) for part in found.parts))
    assert math.fsum(part.share for part in found.parts) == pytest.approx(1.0, abs=1e-8 * size)


def _shares(first: RunWork, second: RunWork) -> dict[str, tuple[float, float]]:
    found = difference([first], [second])
    assert found is not None
    return {part.name: (part.log_ratio, part.error or 0.0) for part in found.parts}


def test_a_slower_machine_is_found_for_any_search(tmp_path: Path) -> None:
    base = work_of(run_of(tmp_path, "base"))
    for name, seed, slower in (("same-seed", 0, 0.03), ("other-seed", 5, 0.03), ("seed-alone", 3, 0.0)):
        other = work_of(run_of(tmp_path, name, seed=seed, slower=slower))

        found, turned = _shares(base, other), _shares(other, base)

        assert all(found[part][0] == pytest.approx(-turned[part][0], abs=1e-6) for part in found), name
        planted = math.log(1 - slower)
        assert found["machine"][0] == pytest.approx(planted, abs=0.003), name
        assert abs(found["networks"][0]) < 0.006 and abs(found["batches"][0]) < 1e-12, name
        assert found["accelerators"][0] == 0.0 and abs(found["unexplained"][0]) < 0.003, name


def test_batches_are_separated_from_machines_if_some_are_common(tmp_path: Path) -> None:
    tuned: dict[str, object] = {"hpo": "tpe", "cluster.ceiling": 64, "batch.smallest": 8, "schedule.warmup_rounds": 3}
    base = work_of(run_of(tmp_path, "base"))
    other = work_of(run_of(tmp_path, "tuned", tuned, slower=0.05))
    assert len({trial.batch for trial in other.trials}) > 1

    found = _shares(base, other)

    assert found["machine"][0] == pytest.approx(math.log(0.95), abs=0.01)
    assert found["batches"][0] < -0.002, "smaller batches, more steps"


def test_unshared_batches_are_not_separated_from_the_machine(tmp_path: Path) -> None:
    first, second = (work_of(run_of(tmp_path, str(batch), {"batch.default": batch})) for batch in (16, 64))

    found = _shares(first, second)

    assert "machine" not in found and "batches" not in found
    assert found["batches or machine"][0] > 0.005, "larger batches, fewer steps; the machines are one"


@pytest.mark.slow
def test_spread_is_assigned_to_search_or_machines(
    tmp_path: Path,
) -> None:
    def spread(kind: str, step: float) -> dict[str, float]:
        runs = [
            work_of(run_of(tmp_path, f"{kind}-{seed}", SHORT, seed=seed, slower=step * (seed % 5)))
            for seed in range(10)
        ]
        found = shares_of_spread(runs)
        assert found is not None
        return {"machine": sum(part.share for part in found.parts if part.name == "machine"), "all": found.deviation}

    alike, unlike = spread("alike", 0.0), spread("unlike", 0.02)

    assert abs(alike["machine"]) < 0.5
    assert unlike["machine"] > 0.9 and unlike["all"] > 3 * alike["all"]
