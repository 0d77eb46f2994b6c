"""Traced steps of real training: their place in the epoch, their sums, and no trace without the option."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.journal.events import StepsProfiled
from aiperf.journal.messages import Message
from aiperf.train import loop
from aiperf.train.collectives.collective import module_of
from aiperf.train.collectives.torch_collective import PHASES
from aiperf.train.ranks.group import RankGroup
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.tracing.kernel_trace import ALL_REDUCE
from aiperf.train.tracing.step_trace import AFTER_STEP, traced_steps
from aiperf.train.trainer_config import COLLECTIVES
from morphism import encode
from tests.builders.order import CONF, IMAGES, epochs, follow, graph, order, train

TWICE = order(batch_size=10, last_epoch=2)
"""15 steps in each of two epochs."""


def profiles(words: list[Message]) -> list[StepsProfiled]:
    return [word for word in words if isinstance(word, StepsProfiled)]


@given(st.integers(0, 1000), st.integers(0, 5000))
def test_three_equal_parts_fit_into_the_epoch(wanted: int, steps: int) -> None:
    found = traced_steps(wanted, steps)

    assert len(found) == min(wanted, steps // 3)
    if found:
        assert min(len(found), AFTER_STEP) <= found.start <= AFTER_STEP
        assert found.stop + len(found) <= steps
        assert found.start == AFTER_STEP or found.stop + len(found) == steps


def test_only_the_first_epoch_is_traced_and_training_is_the_same(tmp_path: Path) -> None:
    plain = train(TWICE, tmp_path / "plain")
    words = train(TWICE, tmp_path / "traced", replace(CONF, profile_steps=2))

    (found,) = profiles(words)
    assert words.index(found) < words.index(epochs(words)[0])
    assert (found.first_step, found.steps, found.reference_steps) == (12, 2, 2)
    assert (found.device, found.ranks, found.exchange, found.exchange_bytes) == ("cpu", 1, {}, 0)
    assert 0 < sum(found.kernels.values()) <= found.seconds
    assert found.reference_seconds > 0 and found.profiler_seconds > 0
    assert found.numbers["convolution"].gradients > 0
    assert [(each.training_loss, each.accuracy) for each in epochs(words)] == [
        (each.training_loss, each.accuracy) for each in epochs(plain)
    ]


def test_the_time_of_the_profiler_is_not_input(tmp_path: Path) -> None:
    words = train(order(batch_size=10, last_epoch=1), tmp_path, replace(CONF, profile_steps=4))

    (found,), (epoch,) = profiles(words), epochs(words)
    assert epoch.advanced.input_seconds < found.profiler_seconds


@pytest.mark.parametrize(("steps", "batch"), [(0, 10), (3, 75)])
def test_no_profiler_runs_unless_steps_are_traced(
    steps: int, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch of two steps has no room for the three parts."""
    monkeypatch.delattr(loop, "StepTrace")

    words = train(order(batch_size=batch, last_epoch=1), tmp_path, replace(CONF, profile_steps=steps))

    assert len(epochs(words)) == 1 and profiles(words) == []


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_two_ranks_report_the_phases_of_their_exchange(collective: str, tmp_path: Path) -> None:
    if (why := module_of(collective).missing(on_cuda=False)) is not None:
        pytest.skip(f"no {collective}: {why}")
    conf = replace(CONF, ranks=2, collective=collective, profile_steps=3, fp16_compression=True)
    group = RankGroup(Recipe(conf, IMAGES, encode(graph()), tmp_path, 2), accelerators=0)
    try:
        group.start()
        (found,) = profiles(follow(group, order(batch_size=5, last_epoch=1)))
    finally:
        group.close()

    parameters = sum(kind.gradients for kind in found.numbers.values()) / 3
    assert (found.ranks, found.steps) == (2, 3)
    assert found.exchange_bytes >= 2 * parameters > 0
    assert found.kernels[ALL_REDUCE] > 0
    if collective == "torch":
        assert (found.exchange_source, list(found.exchange)) == ("DDP logging data", list(PHASES))
    else:
        assert found.exchange_source == "Horovod timeline"
        assert {"negotiation", "all-reduce"} <= found.exchange.keys()
    assert all(0 < seconds <= found.seconds for seconds in found.exchange.values())
