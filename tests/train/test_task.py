"""Classification as a task: its quality does not depend on the ranks that evaluate the images."""

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.data.batches import Batch
from aiperf.journal.events import RunStarted
from aiperf.rules.search_space import metric_of
from aiperf.train.task import Classification
from morphism import start
from tests.builders.journal import started

TASK, GRAPH = Classification(label_smoothing=0.1), start("digits_small", classes=3)


def batch_of(images: torch.Tensor, targets: torch.Tensor) -> Batch:
    return Batch(images, targets, len(images), len(images))


@settings(max_examples=10)
@given(st.integers(1, 11), st.integers(0, 99))
def test_quality_is_independent_of_the_ranks(first: int, seed: int) -> None:
    """Sums of two ranks are added before the quality is computed."""
    draw = torch.Generator().manual_seed(seed)
    images, targets = torch.randn(12, 1, 8, 8, generator=draw), torch.randint(3, (12,), generator=draw)
    network = TASK.initial_network(GRAPH, seed).eval()
    whole, *ranks = (TASK.validation_sums(network, 12) for _ in range(3))
    with torch.inference_mode():
        logits = network(images)
        whole.add(network, batch_of(images, targets))
        ranks[0].add(network, batch_of(images[:first], targets[:first]))
        ranks[1].add(network, batch_of(images[first:], targets[first:]))

    alone = TASK.quality(whole.read(), 12)
    together = TASK.quality([sum(own) for own in zip(*(rank.read() for rank in ranks), strict=True)], 12)

    assert alone.value == together.value == (logits.argmax(1) == targets).double().mean().item()
    assert alone.loss == pytest.approx(together.loss, rel=1e-5)


def test_initial_weights_are_a_function_of_the_seed() -> None:
    first, same, other = (TASK.initial_network(GRAPH, seed).state_dict() for seed in (1, 1, 2))

    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert all(values.isfinite().all() for values in first.values())


def test_a_journal_without_a_metric_is_of_top1() -> None:
    line = msgspec.to_builtins(started())
    assert line.pop("metric") == metric_of(GRAPH)

    assert msgspec.convert(line, RunStarted).metric == "top1"
