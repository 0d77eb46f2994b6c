"""Valid FLOPS of a run that trains one fixed network to a target quality (HPC AI500).

VFLOPS = FLOPS · (quality ÷ target)^n. Source: HPC AI500 V2.0 (Jiang et al., IEEE CLUSTER 2021, arXiv:2102.12848), equations 1
and 2. Decisions on open points: docs/hpc-ai500.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aiperf.accounting.intervals import Window
from aiperf.accounting.score import NORMAL_QUANTILE, window_work
from aiperf.accounting.work_log import SealedEpoch, WorkLog
from aiperf.journal.events import EpochFinished
from aiperf.units import ACCURACIES

EXPONENTS = (5, 10)
"""Exponents of the paper: its text gives 5 for image classification, and its published list was made with 10."""


@dataclass(frozen=True, slots=True)
class Target:
    """Target quality of a run's workload, and exponent of its valid FLOPS."""

    quality: float
    exponent: int


@dataclass(frozen=True, slots=True)
class EpochQuality:
    """Quality of the network at the end of an epoch, 0..1."""

    epoch: int
    at: float
    """Seconds since the start of the run."""
    quality: float


@dataclass(frozen=True, slots=True)
class FixedNetworkResult:
    """Results of a run that trains one network to a target quality. None marks an undefined value, never zero."""

    quality: float
    """Quality at the end of the last epoch: the best of many epochs would be chosen on the validation images."""
    best_quality: float
    target_quality: float
    valid_flops_per_second: float
    valid_flops_exponent: int
    valid_flops_other: dict[int, float]
    """Valid FLOPS by each of the paper's other exponents."""
    valid_flops_interval: tuple[float, float] | None
    """95 % interval by the delta method, from the spread of the epochs and the sampling error of the quality."""
    valid_flops_interval_basis: str
    """What the interval was made of, or the reason for a missing interval."""
    quality_sampling_share: float | None
    """Half width of the 95 % interval of valid FLOPS from the sampling error of the quality alone, as a share.
    None for a quality of 0, and for mAP, whose sampling error has no formula."""
    seconds_to_quality: float | None
    """Seconds to the end of the first epoch that reached the target."""
    epochs_to_quality: int | None
    """Epochs until then."""
    flops_per_second_to_last_epoch: float
    """Counted operations from the start of the run to the end of its last epoch ÷ that time, with evaluation and downtime."""
    training_flops_per_second: float | None
    """Training operations ÷ time in training steps: the paper's N·R·C (section 5.2), but without waiting for input."""
    peak_share_fp32: float | None
    """`flops_per_second_to_last_epoch` ÷ FP32 peak of all accelerators, also for other precisions.
    None without a known peak."""
    is_published_workload: bool
    """False if data set, starting network, target, epochs or exponent is not the published one."""
    epochs: tuple[EpochQuality, ...]
    """Epochs in their order. A repeated epoch has its last quality."""


def target_of(config: Mapping[str, Any]) -> Target | None:
    """Return quality and exponent in the configuration. None for a run that searches."""
    chosen = config.get("benchmark")
    return None if chosen is None else Target(chosen["target_quality"], chosen["exponent"])


def quality_epoch(work_log: WorkLog) -> SealedEpoch | None:
    """Return the evaluation that gives the run's quality: the best one with a sealed checkpoint, of a fixed network the last.

    None if the journal seals no checkpoint of it, so that nothing shows the quality.
    """
    assert work_log.started is not None
    is_fixed = target_of(work_log.started.config) is not None
    return work_log.last_sealed if is_fixed else next(reversed(work_log.sealed), None)


def valid_flops(flops_per_second: float, quality: float, target: float, exponent: int) -> float:
    """Return the valid FLOPS: FLOPS × (quality ÷ target)^exponent. `quality` and `target`: 0..1, `target` above 0.

    >>> round(valid_flops(36.8, 0.751, 0.763, 10), 3), round(valid_flops(1.6, 0.746, 0.763, 5), 3)
    (31.405, 1.43)
    """
    return flops_per_second * (quality / target) ** exponent


def exchange_exponent(first: tuple[float, float], second: tuple[float, float]) -> float | None:
    """Return the exponent at which two runs of one workload have equal valid FLOPS: ln(F1/F2) ÷ ln(q2/q1).

    F is the FLOPS of a run and q its quality. `first`, `second`: valid FLOPS of a run with exponent 5 and with exponent 10,
    from which F and q follow. None for equal qualities or a value of 0.

    >>> runs = [tuple(valid_flops(flops, quality, 0.763, n) for n in EXPONENTS) for flops, quality in ((2, 0.5), (1, 0.7))]
    >>> round(exchange_exponent(*runs), 3) == round(math.log(2) / math.log(0.7 / 0.5), 3)
    True
    """
    if min(*first, *second) <= 0:
        return None
    low, high = (math.log(one / other) for one, other in zip(first, second, strict=True))
    if math.isclose(low, high, abs_tol=1e-12):
        return None
    return EXPONENTS[0] + low * (EXPONENTS[1] - EXPONENTS[0]) / (low - high)


def sampling_share(quality: float, images: int, exponent: int) -> float | None:
    """Return the relative half width of the 95 % interval of quality^exponent (delta method). None for a quality of 0."""
    if quality <= 0:
        return None
    return NORMAL_QUANTILE * exponent * math.sqrt((1.0 - quality) / (quality * images))


def fixed_network_result(
    work_log: WorkLog,
    target: Target | None,
    epochs: Sequence[EpochFinished],
    fp32_peak: float | None,
    *,
    is_published_workload: bool,
) -> FixedNetworkResult | None:
    """None without a target, before the first evaluation, or if that was at 0 s. `fp32_peak`: of all accelerators."""
    assert work_log.started is not None
    if target is None or not epochs:
        return None
    last = max(epochs, key=lambda event: (event.epoch, event.at))
    if not last.at:
        return None
    first = next((event for event in epochs if event.accuracy >= target.quality), None)
    flops = window_work(work_log, Window(0.0, last.at)) / last.at
    by_sampling = None
    if work_log.started.metric in ACCURACIES:
        by_sampling = sampling_share(last.accuracy, int(work_log.started.dataset["validation_images"]), target.exponent)
    value = valid_flops(flops, last.accuracy, target.quality, target.exponent)
    by_epochs = _epoch_share(work_log, epochs, flops)
    basis = f"spread of {len(epochs)} epochs and sampling of the quality"
    interval = _interval(value, by_epochs, by_sampling)
    if by_epochs is None:
        basis = f"three epochs are needed, but there are {len(epochs)}"
    elif by_sampling is None:
        basis = "the sampling error of this quality has no formula"
    elif interval is not None and interval[0] <= 0:
        basis = f"the 95 % interval of {basis} is as wide as the value: train more epochs"
        interval = None
    return FixedNetworkResult(
        quality=last.accuracy,
        best_quality=max(event.accuracy for event in epochs),
        target_quality=target.quality,
        valid_flops_per_second=value,
        valid_flops_exponent=target.exponent,
        valid_flops_other={
            exponent: valid_flops(flops, last.accuracy, target.quality, exponent)
            for exponent in EXPONENTS
            if exponent != target.exponent
        },
        valid_flops_interval=interval,
        valid_flops_interval_basis=basis,
        quality_sampling_share=by_sampling,
        seconds_to_quality=None if first is None else first.at,
        epochs_to_quality=None if first is None else first.epoch,
        flops_per_second_to_last_epoch=flops,
        training_flops_per_second=_training_rate(work_log),
        peak_share_fp32=None if fp32_peak is None else flops / fp32_peak,
        is_published_workload=is_published_workload,
        epochs=tuple(
            EpochQuality(event.epoch, event.at, event.accuracy)
            for _, event in sorted({event.epoch: event for event in epochs}.items())
        ),
    )


def _interval(value: float, *shares: float | None) -> tuple[float, float] | None:
    """Half widths are independent relative errors. None if one is unknown."""
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return None
    half = value * math.hypot(*known)
    return value - half, value + half


def _epoch_share(work_log: WorkLog, epochs: Sequence[EpochFinished], flops: float) -> float | None:
    """Relative half width of FLOPS, with the epochs as the sample of a ratio. None for fewer than three."""
    edges = [0.0, *(event.at for event in epochs)]
    parts = [Window(start, end) for start, end in pairwise(edges) if end > start]
    if len(parts) < 3 or flops <= 0:
        return None
    from scipy.special import stdtrit  # imported late: takes 0.1 s

    rest = math.fsum((window_work(work_log, part) - flops * part.seconds) ** 2 for part in parts)
    freedom = len(parts) - 1
    error = math.sqrt(rest * len(parts) / freedom) / edges[-1]
    return float(stdtrit(freedom, 0.975)) * error / flops


def _training_rate(work_log: WorkLog) -> float | None:
    columns = work_log.intervals
    counted = columns.flops > 0
    operations = [work_log.trials[trial].operations.training for trial in columns.trial[counted].tolist()]
    images = columns.training_images[counted].tolist()
    seconds = math.fsum((columns.clock("busy")[counted] - columns.clock("validation")[counted]).tolist())
    return sum(map(int.__mul__, images, operations)) / seconds if seconds > 0 else None
