"""Valid FLOPS: the paper's figures, and the figures of a run with a target quality from its journal."""

from __future__ import annotations

import math
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from aiperf.accounting.valid_flops import (
    FixedNetworkResult,
    Target,
    fixed_network_result,
    sampling_share,
    target_of,
    valid_flops,
)
from aiperf.accounting.work_log import work_log
from aiperf.config import as_plain, configure
from aiperf.errors import BadConfiguration
from aiperf.journal.events import AnyEvent, EpochFinished, RunStarted
from aiperf.report.gather import gather
from aiperf.report.sections import sections
from aiperf.report.write import closing_lines
from aiperf.rules.limits import NOT_PUBLISHED, is_published_workload
from tests.builders.journal import (
    LIMITS,
    SCHEDULE,
    begun,
    ended,
    evaluated,
    finished,
    interval,
    joined,
    proposed,
    requested,
    started,
)


@pytest.mark.parametrize(
    ("flops", "quality", "exponent", "expected"),
    [
        (36.8, 0.751, 10, 31.405),  # published: 31.41
        (36.8, 0.751, 5, 33.996),
        (1.6, 0.746, 10, 1.277),  # published: 1.27
        (1.6, 0.746, 5, 1.430),
    ],
)
def test_valid_flops_equal_the_published_list(flops: float, quality: float, exponent: int, expected: float) -> None:
    assert valid_flops(flops, quality, 0.763, exponent) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("exponent", "expected"), [(5, 0.024), (10, 0.049)])
def test_sampling_of_50000_images_moves_valid_flops(exponent: int, expected: float) -> None:
    assert sampling_share(0.763, 50_000, exponent) == pytest.approx(expected, abs=5e-4)


QUALITIES = (0.2, 0.9, 0.8)
BENCHMARK = {"name": "hpc_ai500_ic", "target_quality": 0.85, "exponent": 5}


def one_network(benchmark: dict[str, Any] | None = BENCHMARK) -> list[AnyEvent]:
    """Journal of one trial of three epochs, with 100 training and 50 validation images in 10 s each."""
    config = {"limits": LIMITS | {"trials": 1}, "schedule": SCHEDULE} | (
        {} if benchmark is None else {"benchmark": benchmark}
    )
    events: list[AnyEvent] = [started(warmup=0.0, config=config), joined(), requested(0), proposed(0), begun(0, 2.0)]
    for epoch, quality in enumerate(QUALITIES, 1):
        events.append(interval(0, epoch * 10.0 - 8.0, epoch * 10.0, 100, 50, epoch=epoch, busy=4.0))
        events.append(evaluated(0, epoch * 10.0, quality, epoch=epoch))
    return [*events, finished(0, 30.0, 0.9), ended(31.0, "trials")]


def result_of(events: list[AnyEvent]) -> FixedNetworkResult:
    epochs = [event for event in events if isinstance(event, EpochFinished)]
    found = fixed_network_result(work_log(events), Target(0.85, 5), epochs, 1e6, is_published_workload=False)
    assert found is not None
    return found


def test_quality_is_the_last_epochs_and_the_best_is_shown() -> None:
    found = result_of(one_network())

    assert (found.quality, found.best_quality, found.target_quality) == (0.8, 0.9, 0.85)
    assert (found.seconds_to_quality, found.epochs_to_quality) == (20.0, 2)


def test_flops_are_counted_from_the_start_to_the_last_epoch() -> None:
    events = one_network()
    operations = work_log(events).trials[0].operations
    per_epoch = 100 * operations.training + 50 * operations.validation

    found = result_of(events)

    flops = 3 * per_epoch / 30.0
    assert found.flops_per_second_to_last_epoch == pytest.approx(flops, rel=1e-12)
    assert found.valid_flops_per_second == pytest.approx(flops * (0.8 / 0.85) ** 5, rel=1e-12)
    assert found.valid_flops_other == {10: pytest.approx(flops * (0.8 / 0.85) ** 10, rel=1e-12)}
    assert found.peak_share_fp32 == pytest.approx(flops / 1e6)


def test_training_flops_are_the_papers_product_n_r_c() -> None:
    events = one_network()
    kept = work_log(events)

    by_paper = 300 / 12.0 * kept.trials[0].operations.training  # N · R images per second over all ranks, times C

    assert result_of(events).training_flops_per_second == pytest.approx(by_paper, rel=1e-9)


def test_interval_of_equal_epochs_is_the_sampling_error() -> None:
    found = result_of(one_network())

    assert found.valid_flops_interval is not None and found.quality_sampling_share is not None
    value, share = found.valid_flops_per_second, found.quality_sampling_share
    assert share == pytest.approx(1.96 * 5 * math.sqrt(0.2 / (0.8 * 50)), rel=1e-3)
    assert found.valid_flops_interval[1] == pytest.approx(value * (1 + share), rel=1e-6)
    assert found.valid_flops_interval_basis == "spread of 3 epochs and sampling of the quality"


@pytest.mark.parametrize(
    ("epochs", "slow", "metric", "reason"),
    [
        (2, 1.0, "top1", "three epochs are needed, but there are 2"),
        (3, 1.0, "map50", "the sampling error of this quality has no formula"),
        (3, 9.0, "top1", "spread of 3 epochs and sampling of the quality is as wide as the value"),
    ],
)
def test_missing_interval_has_its_reason(epochs: int, slow: float, metric: str, reason: str) -> None:
    """`slow`: length of the first epoch ÷ length of the others, as with a compilation."""
    first, *events = one_network()
    assert isinstance(first, RunStarted)
    starts = [0.0, *(10.0 * (slow + epoch) for epoch in range(3))]
    moved: list[AnyEvent] = [msgspec.structs.replace(first, metric=metric), *events[:4]]
    for epoch, (at, end) in enumerate(pairwise(starts[: epochs + 1]), 1):
        moved.append(interval(0, max(at, 2.0), end, 100, 50, epoch=epoch, busy=4.0))
        moved.append(evaluated(0, end, 0.8, epoch=epoch))

    found = result_of(moved)
    assert found.valid_flops_interval is None
    assert reason in found.valid_flops_interval_basis


def test_target_that_no_epoch_reached_has_no_time() -> None:
    events = one_network()
    epochs = [event for event in events if isinstance(event, EpochFinished)]
    found = fixed_network_result(work_log(events), Target(0.95, 10), epochs, None, is_published_workload=False)

    assert found is not None and found.seconds_to_quality is None and found.epochs_to_quality is None
    assert list(found.valid_flops_other) == [5] and found.peak_share_fp32 is None


def test_automl_run_shows_no_valid_flops() -> None:
    fixed, automl = gather(one_network()), gather(one_network(None))

    assert fixed.fixed_network is not None and automl.fixed_network is None
    assert "fixed-network" in {section.name for section in sections(fixed)}
    assert "fixed-network" not in {section.name for section in sections(automl)}
    assert any("valid FLOPS" in line and NOT_PUBLISHED in line for line in closing_lines(fixed))
    assert not any("valid FLOPS" in line for line in closing_lines(automl))
    same = {"warnings": ()}
    assert asdict(automl.score) | same == asdict(fixed.score) | same


def test_automl_benchmark_adds_nothing_to_the_journal() -> None:
    plain = as_plain(configure(["benchmark=aiperf"]))

    assert plain == as_plain(configure([])) and "benchmark" not in plain and target_of(plain) is None


def test_image_classification_is_one_trial_of_90_epochs() -> None:
    conf = configure(["benchmark=hpc_ai500_ic"])

    assert target_of(as_plain(conf)) == Target(0.763, 5)
    assert (conf.dataset.name, conf.start, conf.hpo.name) == ("imagenet", "resnet50_v1_5", "off")
    assert (conf.limits.trials, conf.limits.spares, conf.schedule.warmup_seconds) == (1, 0, 0)
    assert conf.schedule.epochs == [90] and conf.trainer.decay_epochs == 90
    assert (conf.trainer.momentum, conf.trainer.weight_decay) == (0.875, 1 / 32768)
    assert conf.accelerators_per_worker == "all"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset=digits"], "give benchmark.target_quality"),
        (["start=resnet50_v1"], "give benchmark.target_quality"),
        (["benchmark.target_quality=0"], "benchmark.target_quality"),
        (["benchmark.target_quality=1.5"], "benchmark.target_quality"),
        (["benchmark.exponent=2.5"], "benchmark.exponent"),
        (["benchmark.exponent=0"], "benchmark.exponent"),
    ],
)
def test_wrong_target_or_exponent_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(BadConfiguration, match=message):
        configure(["benchmark=hpc_ai500_ic", *words])


def test_a_target_without_a_fixed_network_is_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"benchmark\.target_quality goes with benchmark=hpc_ai500_ic"):
        configure(["benchmark.target_quality=0.9"])


def test_run_with_a_preset_closes_with_its_level_not_with_another_ranking() -> None:
    config = as_plain(configure(["benchmark=hpc_ai500_ic", "trainer.momentum=0.9", "schedule.epochs=[3]"]))
    first, *rest = one_network(config["benchmark"])
    assert isinstance(first, RunStarted)
    lines = closing_lines(gather([msgspec.structs.replace(first, config=config), *rest]))

    assert any(line.startswith("Strictest level of HPC AI500: none: ") for line in lines)
    assert any(line.endswith("--division hpc_ai500") for line in lines)
    assert not any("rules of a ranked run" in line for line in lines)


def test_other_data_or_another_start_is_not_published() -> None:
    published = {
        "name": "imagenet",
        "is_full_imagenet": True,
        "image": 224,
        "channels": 3,
        "noise": 0.0,
        "classes": 1000,
    }

    for exponent in (5, 10):  # the paper's text, and its list
        config = as_plain(configure(["benchmark=hpc_ai500_ic", f"benchmark.exponent={exponent}"]))
        assert is_published_workload(config, published, "resnet50_v1_5")
    assert not is_published_workload(config, published, "resnet50_v1")
    assert not is_published_workload(config, published | {"is_full_imagenet": False}, "resnet50_v1_5")
    assert not is_published_workload(config, published | {"image": 160}, "resnet50_v1_5")
