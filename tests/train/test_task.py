"""Classification as a task: its quality does not depend on the ranks that evaluate the images."""

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.data.batches import Batch
from aiperf.journal.events import Halves, RunStarted
from aiperf.rules.search_space import metric_of
from aiperf.train.task import Classification, LanguageModel, Task, ValidationSums
from morphism import Graph, start
from tests.builders.journal import started

TASK, GRAPH = Classification(label_smoothing=0.1), start("digits_small", classes=3)
SPEAKER, SPEECH = LanguageModel(label_smoothing=0.0), start("llama_tiny", image=6, classes=11)


@settings(max_examples=10)
@given(st.permutations(range(12)), st.integers(0, 12), st.integers(1, 5), st.integers(0, 99))
def test_quality_is_independent_of_ranks_and_batch(order: list[int], first: int, size: int, seed: int) -> None:
    """Sums of two ranks are added before the quality is computed, and a sample stays in its half."""
    draw = torch.Generator().manual_seed(seed)
    images, targets = torch.randn(12, 1, 8, 8, generator=draw), torch.randint(3, (12,), generator=draw)
    network = TASK.initial_network(GRAPH, seed).eval()
    whole, *ranks = (TASK.validation_sums(network, 12) for _ in range(3))

    def add(sums: ValidationSums, numbers: list[int]) -> None:
        sums.add(network, Batch(images[numbers], targets[numbers], len(numbers), 12, np.array(numbers)))

    with torch.inference_mode():
        is_right = network(images).argmax(1) == targets
        add(whole, [*range(12)])
        for rank, numbers in zip(ranks, (order[:first], order[first:]), strict=True):
            for start in range(0, len(numbers), size):
                add(rank, numbers[start : start + size])

    alone = TASK.quality(whole.read(), 12)
    together = TASK.quality([sum(own) for own in zip(*(rank.read() for rank in ranks), strict=True)], 12)

    assert alone.value == together.value == is_right.double().mean().item()
    assert alone.loss == pytest.approx(together.loss, rel=1e-5)
    even, odd = int(is_right[::2].sum()), int(is_right[1::2].sum())
    assert alone.halves == together.halves == Halves(even_correct=even, even_samples=6, odd_correct=odd, odd_samples=6)


@settings(max_examples=5, deadline=None)
@given(st.permutations(range(8)), st.integers(0, 8), st.integers(1, 5), st.integers(0, 99))
def test_next_tokens_are_counted_alike_by_any_ranks(order: list[int], first: int, size: int, seed: int) -> None:
    tokens = torch.randint(11, (8, 7), generator=torch.Generator().manual_seed(seed))
    images, targets = tokens[:, :-1], tokens[:, 1:]
    network = SPEAKER.initial_network(SPEECH, seed).eval()
    sums = [SPEAKER.validation_sums(network, 8) for _ in range(2)]

    with torch.inference_mode():
        logits = network(images)
        for rank, numbers in zip(sums, (order[:first], order[first:]), strict=True):
            for begin in range(0, len(numbers), size):
                mine = numbers[begin : begin + size]
                rank.add(network, Batch(images[mine], targets[mine], len(mine), 8, np.array(mine)))
    together = SPEAKER.quality([sum(own) for own in zip(*(rank.read() for rank in sums), strict=True)], 8)

    expected = torch.nn.functional.cross_entropy(logits.permute(0, 2, 1), targets).item()
    assert together.value == (logits.argmax(2) == targets).double().mean().item()
    assert together.loss == pytest.approx(expected, rel=1e-5)
    assert SPEAKER.loss(network, Batch(images, targets, 8, 8, np.arange(8))).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("task", "graph"), [(TASK, GRAPH), (SPEAKER, SPEECH)])
def test_a_task_has_the_metric_of_its_networks(task: Task, graph: Graph) -> None:
    assert task.metric == metric_of(graph)


def test_one_sample_has_no_halves() -> None:
    assert TASK.quality([0.5, 1.0, 1.0, 1.0], 1).halves is None


def test_initial_weights_are_a_function_of_the_seed() -> None:
    first, same, other = (TASK.initial_network(GRAPH, seed).state_dict() for seed in (1, 1, 2))

    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert all(values.isfinite().all() for values in first.values())


def test_a_journal_without_a_metric_is_of_top1() -> None:
    line = msgspec.to_builtins(started())
    assert line.pop("metric") == metric_of(GRAPH)

    assert msgspec.convert(line, RunStarted).metric == "top1"
