"""Rules of the trainer without a network: configuration, learning rate, reports, batches, heartbeats."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.train.attempt_messages import EpochClock, Reports, StepTimes
from aiperf.train.collectives.collective import choose, dense_view
from aiperf.train.memory_limits import largest_batch
from aiperf.train.precision import Precision
from aiperf.train.precision import choose as choose_precision
from aiperf.train.trainer_config import TrainerConf, learning_rate, ranks_of_worker
from morphism import cost, start
from searchers.batch_sizes import BATCH_STEP, COARSE_FROM, LARGEST_BATCH, LEAST, largest, nearest, rounded_down, smaller

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("collective", "mpi"),
        ("precision", "fp8"),
        ("compile", "yes"),
        ("cuda_graphs", "always"),
        ("ranks", 0),
        ("hang_seconds", 0.0),
        ("momentum", 1.0),
        ("ceiling_share", 1.5),
        ("nice", 20),
    ],
)
def test_an_impossible_choice_is_named_with_its_value(option: str, value: object) -> None:
    with pytest.raises(BadConfiguration, match=rf"trainer\.{option} .*found {value!r}"):
        TrainerConf(**{option: value})  # type: ignore[arg-type]


def test_more_than_one_rank_without_a_collective_is_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"collective='none' cannot be combined with trainer.ranks="):
        TrainerConf(collective="none", ranks=2)


def test_a_worker_has_a_rank_per_accelerator_or_two_on_a_cpu() -> None:
    assert ranks_of_worker(TrainerConf(), accelerators=8, cores=128) == 8
    assert ranks_of_worker(TrainerConf(), accelerators=0, cores=16) == 2
    assert ranks_of_worker(TrainerConf(), accelerators=0, cores=1) == 1
    assert ranks_of_worker(TrainerConf(collective="none"), accelerators=0, cores=16) == 1


def test_one_rank_needs_no_collective_and_none_cannot_join_two() -> None:
    assert choose("auto", 1, on_cuda=False) == "none"
    assert choose("torch", 2, on_cuda=False) == "torch"
    with pytest.raises(BadConfiguration, match="collective=torch"):
        choose("none", 2, on_cuda=False)


@given(st.integers(1, 59))
def test_the_learning_rate_falls_by_the_same_amount_each_epoch(epoch: int) -> None:
    conf = TrainerConf()

    assert learning_rate(conf, 1, 256) == 0.1
    fall = learning_rate(conf, epoch, 256) - learning_rate(conf, epoch + 1, 256)
    assert fall == pytest.approx(0.1 / 60)


def test_the_learning_rate_never_reaches_zero() -> None:
    assert learning_rate(TrainerConf(decay_epochs=10), 500, 256) > 0


@given(st.integers(9, 8192))
def test_smaller_batches_are_batch_sizes_down_to_8(batch: int) -> None:
    reduced = smaller(batch)

    assert reduced is not None
    assert reduced == rounded_down(reduced)
    assert LEAST <= reduced < batch
    assert smaller(LEAST) is None


@pytest.mark.parametrize("megabytes", [20, 300, 5000])
def test_the_ceiling_of_a_cpu_is_the_largest_modelled_batch(megabytes: int) -> None:
    graph, precision = start("resnet20"), Precision("fp32", "cpu")
    limit = megabytes * 2**20

    ceiling = largest_batch(graph, CPU, precision, TrainerConf(), limit)

    allowed = limit * TrainerConf().ceiling_share
    assert cost(graph).training_memory(ceiling, 4) <= allowed
    grain = max(BATCH_STEP if ceiling >= COARSE_FROM else LEAST, ceiling // 32) + BATCH_STEP
    assert cost(graph).training_memory(ceiling + grain, 4) > allowed


def test_a_starting_graph_that_never_fits_is_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"batch 8.*943718 may be used.*start="):
        largest_batch(start("resnet20"), CPU, Precision("fp32", "cpu"), TrainerConf(), 2**20)


@given(st.integers(0, 9000))
def test_the_largest_batch_is_found_to_3_percent_and_always_fits(most: int) -> None:
    found = largest(lambda batch: batch <= most)

    assert found == rounded_down(found) and found <= min(most, LARGEST_BATCH)
    step = BATCH_STEP if found >= COARSE_FROM else LEAST
    assert min(most, LARGEST_BATCH) - found < max(step, found // 32) + step


@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 9000))
def test_batches_from_128_on_are_multiples_of_32(lowest: int, width: int, drawn: int) -> None:
    highest = lowest + width
    drawn = lowest + drawn % (width + 1)

    found = nearest(drawn, lowest, highest, BATCH_STEP)

    assert lowest <= found <= highest
    possible = [size for size in range(COARSE_FROM, highest + 1, BATCH_STEP) if size >= lowest]
    if drawn < COARSE_FROM:
        assert found == drawn
    elif possible:
        assert found in possible and abs(found - drawn) == min(abs(size - drawn) for size in possible)
    else:
        assert found == lowest
    assert nearest(drawn, lowest, highest, LEAST) == drawn


def test_no_precision_is_narrower_than_16_bits() -> None:
    for name in ("fp32", "tf32", "bf16", "fp16"):
        precision = Precision(name, "cpu")
        assert precision.dtype.itemsize == precision.bytes_per_element >= 2


def test_tf32_is_refused_where_there_are_no_tensor_cores() -> None:
    with pytest.raises(BadConfiguration, match="tf32"):
        choose_precision("tf32", CPU)


def test_only_fp16_scales_its_loss() -> None:
    assert Precision("fp16", "cpu").scaler() is not None
    assert Precision("bf16", "cpu").scaler() is None


spans = st.lists(
    st.tuples(st.floats(0, 0.5), st.floats(0.001, 2.0), st.integers(1, 64), st.floats(0, 1)), min_size=1, max_size=30
)


@given(spans, st.floats(0.01, 5.0), st.lists(st.floats(0, 20), max_size=3))
def test_reported_sums_never_fall_and_end_exact(
    steps: list[tuple[float, float, int, float]], every: float, edges: list[float]
) -> None:
    clock = EpochClock(Reports(1, 1, every, tuple(edges)), epoch=1, batch_size=8, images=sum(step[2] for step in steps))
    clock.begin_pass(1.0)
    now, words = 1.0, []
    for wait, seconds, images, share in steps:
        span = StepTimes(now + wait, now + wait + seconds, images, True, share * seconds)
        words.append(clock.step(span))
        now = span.end
    final = clock.finish(now, sum(step[2] for step in steps), 0)

    assert final.training_images == sum(step[2] for step in steps)
    assert final.busy_seconds == pytest.approx(sum(step[1] for step in steps))
    assert final.input_seconds == pytest.approx(sum(step[0] for step in steps), abs=1e-9)
    assert final.busy_seconds + final.input_seconds == pytest.approx(now - 1.0)
    assert final.communication_seconds <= final.busy_seconds + 1e-9
    said = [word for word in words if word is not None] + [final]
    for earlier, later in pairwise(said):
        assert later.training_images >= earlier.training_images
        assert later.busy_seconds >= earlier.busy_seconds


def test_the_first_step_to_end_after_an_edge_reports_at_once() -> None:
    clock = EpochClock(Reports(1, 1, 100.0, (2.5,)), epoch=1, batch_size=10, images=50)
    clock.begin_pass(0.0)

    said = [clock.step(StepTimes(float(n), n + 1.0, 10, True)) for n in range(5)]

    assert [word is not None for word in said] == [False, False, True, False, False]
    assert said[2] is not None
    assert said[2].training_images == 30


@given(st.floats(0.5, 30.0), st.integers(1, 200))
def test_intervals_of_an_epoch_have_similar_lengths(every: float, steps: int) -> None:
    clock = EpochClock(Reports(1, 1, every, ()), epoch=1, batch_size=10, images=10 * steps)
    clock.begin_pass(0.0)

    said = [n + 1.0 for n in range(steps) if clock.step(StepTimes(float(n), n + 1.0, 10, True)) is not None]

    ends = [0.0, *said, float(steps)]
    lengths = [later - earlier for earlier, later in pairwise(ends)]
    assert all(length >= every / 2 for length in lengths[-1:] if len(said))
    assert all(length <= 1.5 * every + 2.0 for length in lengths)


@given(st.sampled_from([(3, 4, 5, 6), (8, 1, 3, 3), (1, 7, 1, 1), (2, 3, 1, 5)]))
def test_a_channels_last_gradient_is_exchanged_where_it_lies(shape: tuple[int, ...]) -> None:
    gradient = torch.randn(shape).contiguous(memory_format=torch.channels_last)

    view = dense_view(gradient)
    view += 1.0

    assert view.is_contiguous()
    assert view.data_ptr() == gradient.data_ptr()


def test_a_gradient_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="must be contiguous or channels_last"):
        dense_view(torch.zeros(4, 4)[:, ::2])
