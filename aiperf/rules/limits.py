"""Options of the workload, schedule and limits of a run. The journal records them, and so determines its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted
from aiperf.option_limits import LONGEST_SECONDS, hold

NOT_PUBLISHED = "not the published workload"
"""Name of every run of HPC AI500 with other data, starting network, target, epochs or exponent."""
PACKAGED: Mapping[str, tuple[str, ...]] = {
    "reference": (
        "dataset=synthetic",
        "dataset.training_images=512",
        "dataset.validation_images=128",
        "start=resnet20",
        "schedule.duration_seconds=600",
        "schedule.warmup_seconds=60",
        "trainer.decay_epochs=128",
    ),
    "reference_224": (
        "dataset=synthetic",
        "dataset.training_images=8192",
        "dataset.validation_images=1024",
        "dataset.classes=1000",
        "dataset.image=224",
        "start=resnet50_v1",
        "schedule.duration_seconds=600",
        "schedule.warmup_seconds=60",
        "trainer.decay_epochs=128",
    ),
}
"""Packaged lists of trials, for processors and accelerators: the word for option `follow`, and the words that it implies."""
STEPS = 20
"""Minimum steps of an epoch, so that a large batch leaves enough updates."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload that HPC AI500 publishes, with the published quality."""

    dataset: str
    start: str
    images: Mapping[str, Any]
    """Values of RunStarted.dataset."""
    target_quality: float
    epochs: int
    exponents: tuple[int, ...]
    """The paper's text gives 5 for image classification, its list was made with 10."""
    whole: int | None = None
    """Images of both splits together, if the paper publishes no split."""
    fp32_batch: int | None = None
    """Batch of an accelerator with `trainer.precision=fp32` (default: that of the preset)."""


WORKLOADS: Mapping[str, Workload] = {
    "hpc_ai500_ic": Workload(
        "imagenet",
        "resnet50_v1_5",
        {"is_full_imagenet": True, "image": 224, "channels": 3, "noise": 0.0},
        0.763,
        90,
        (5, 10),
        fp32_batch=128,
    ),
    # 25 years of 1460 images
    "hpc_ai500_ewa": Workload(
        "weather",
        "faster_rcnn_r50",
        {"image": 768, "width": 1152, "channels": 16, "classes": 4},
        0.35,
        50,
        (10,),
        whole=36_500,
    ),
}
"""Published workloads by the name of their choice of `benchmark`."""


@dataclass
class BenchmarkConf:
    """Workload: the AutoML benchmark, which searches networks."""

    name: str = "aiperf"
    """'aiperf'."""


@dataclass
class HpcAi500Conf(BenchmarkConf):
    """A fixed network of HPC AI500, trained to a target quality (docs/hpc-ai500.md)."""

    target_quality: float | None = field(default=None, metadata={"least": 0.01, "most": 1})
    """Target. Default: the published one (top-1 0.763, mAP@0.5 0.35) with its data set and start. Otherwise required."""
    exponent: int = field(default=5, metadata={"least": 1, "most": 100})
    """Exponent n of valid FLOPS = FLOPS · (quality ÷ target)^n. Results also show the paper's other exponent."""

    def __post_init__(self) -> None:
        hold(self, "benchmark")

    def with_target(self, dataset: str, start: str | None) -> HpcAi500Conf:
        """Return these options with the configured or the published target. Raise BadConfiguration if there is neither."""
        published = WORKLOADS[self.name]
        if self.target_quality is not None:
            return self
        if (dataset, start) != (published.dataset, published.start):
            raise BadConfiguration(
                f"HPC AI500 publishes a target of {self.name} for dataset={published.dataset} start={published.start} only, "
                f"but found dataset={dataset} start={start or 'null'}: use them, or for such data give benchmark.target_quality"
            )
        return replace(self, target_quality=published.target_quality)


@dataclass
class HpcAi500IcConf(HpcAi500Conf):
    """Image classification of HPC AI500: ResNet-50 v1.5 on ImageNet to a top-1 accuracy of 0.763 (docs/hpc-ai500.md)."""

    name: str = "hpc_ai500_ic"
    """'hpc_ai500_ic'."""


@dataclass
class HpcAi500EwaConf(HpcAi500Conf):
    """Extreme weather of HPC AI500: Faster R-CNN on climate fields to a mAP@0.5 of 0.35 (docs/hpc-ai500.md)."""

    name: str = "hpc_ai500_ewa"
    """'hpc_ai500_ewa'."""
    exponent: int = field(default=10, metadata={"least": 1, "most": 100})
    """Exponent n of valid FLOPS = FLOPS · (quality ÷ target)^n. Results also show the paper's other exponent."""


def is_published_data(benchmark: str | None, dataset: Mapping[str, Any]) -> bool:
    """Return True if the data set, with the number and size of its images, is the one that HPC AI500 publishes."""
    published = WORKLOADS.get(benchmark or "")
    if published is None or dataset.get("name") != published.dataset:
        return False
    whole = sum(dataset.get(name) or 0 for name in ("training_images", "validation_images"))
    is_whole = published.whole in (None, whole)
    return is_whole and all(dataset.get(name) == value for name, value in published.images.items())


def is_published_workload(config: Mapping[str, Any], dataset: Mapping[str, Any], start: str | None) -> bool:
    """Return True if data set, start, target, epochs and exponent are those that HPC AI500 publishes for the benchmark."""
    benchmark = config.get("benchmark") or {}
    published = WORKLOADS.get(benchmark.get("name", ""))
    return (
        published is not None
        and is_published_data(benchmark["name"], dataset)
        and (start, benchmark["target_quality"]) == (published.start, published.target_quality)
        and list(config["schedule"]["epochs"]) == [published.epochs]
        and benchmark["exponent"] in published.exponents
    )


BENCHMARKS: tuple[type[BenchmarkConf], ...] = (BenchmarkConf, HpcAi500IcConf, HpcAi500EwaConf)
"""Choices of the group `benchmark`, see conf/benchmark/NAME.yaml."""


@dataclass
class ScheduleConf:
    """Duration of a run and lengths of its rounds."""

    duration_seconds: float = field(default=43200.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """Length of the run, declared before its start."""
    warmup_seconds: float = field(default=3600.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Start of the valid window."""
    epochs: list[int] = field(
        default_factory=lambda: [15, 30, 45, 60], metadata={"least": 1, "most": 1_000_000, "fewest": 1}
    )
    """Maximum epochs of a worker's round 1, 2, …. The last value applies to all later rounds."""
    patience: int = field(default=6, metadata={"least": 1, "most": 1_000_000, "unit": "epochs"})
    """Epochs without improvement after which a trial of round 1 ends."""
    patience_step: int = field(default=2, metadata={"least": 0, "most": 1_000_000, "unit": "epochs"})
    """Increase of the patience with each round."""
    largest_patience: int = field(default=20, metadata={"least": 1, "most": 1_000_000, "unit": "epochs"})
    """Upper bound of the patience."""
    improvement: float = field(default=0.001, metadata={"least": 0, "most": 10})
    """Smallest drop of the validation loss that counts as an improvement. The loss starts near ln(classes): 7 for 1000."""
    warmup_rounds: int = field(default=3, metadata={"least": 0, "most": 1_000_000})
    """Rounds before tuning begins."""

    def __post_init__(self) -> None:
        hold(self, "schedule")

    def check(self) -> None:
        """Raise BadConfiguration if `epochs` decreases, or if the warm-up is not shorter than the run."""
        if sorted(self.epochs) != list(self.epochs):
            raise BadConfiguration(
                f"schedule.epochs are the rounds' limits, none below the one before, but found {list(self.epochs)}: sort them"
            )
        if not self.warmup_seconds < self.duration_seconds:
            raise BadConfiguration(
                "a valid window lies between warm-up and end: schedule.warmup_seconds < schedule.duration_seconds, "
                f"but found {self.warmup_seconds:g} and {self.duration_seconds:g}: lengthen the run, or shorten its warm-up"
            )


@dataclass
class LimitsConf:
    """Limits of a run in addition to its duration."""

    spares: int = field(default=1, metadata={"least": 0, "most": 100})
    """Spare networks kept ready for each worker after the first trial of the run has finished."""
    attempts: int = field(default=3, metadata={"least": 1, "most": 1_000_000})
    """Maximum attempts of a trial that end with the loss of its worker. The trial then fails."""
    silence_seconds: float = field(default=600.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """Time without a message after which a training worker counts as lost."""
    rejections: int = field(default=100, metadata={"least": 1, "most": 1_000_000})
    """Consecutive rejected proposals after which a worker is skipped. It may request one more proposal for each trial that
    finishes. The run ends when all workers are skipped and no trial or proposal is in progress."""
    trials: int | None = field(default=None, metadata={"least": 1})
    """Number of finished trials after which the run ends. Default: no limit."""
    progress_seconds: float = field(default=5.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """Approximate length of an interval of work. It grows with the number of workers (progress_per_second)."""
    progress_per_second: float = field(default=50.0, metadata={"least": 0.01, "most": 1_000_000})
    """Approximate maximum of intervals per second of all workers together. Intervals lengthen with more workers."""

    def __post_init__(self) -> None:
        hold(self, "limits")


def inherits(config: Mapping[str, Any]) -> bool:
    """Return False if children begin with fresh weights (`trainer.inherit`). Older runs, without the option, all inherited."""
    trainer = config.get("trainer")
    return not isinstance(trainer, Mapping) or trainer.get("inherit", True) is True


def limits_of(started: RunStarted) -> LimitsConf:
    """Return the limits in the first line. Raise BadConfiguration if a value is out of range."""
    return msgspec.convert(started.config.get("limits", {}), LimitsConf)


def schedule_of(started: RunStarted) -> ScheduleConf:
    """Return the schedule in the first line. Raise BadConfiguration if it is out of range or contradicts itself."""
    schedule = msgspec.convert(started.config.get("schedule", {}), ScheduleConf)
    schedule.check()
    return schedule


def progress_seconds(limits: LimitsConf, workers: int) -> float:
    """Return the approximate seconds between two reports of one worker: max(5 s, workers/50 s) by default."""
    return max(limits.progress_seconds, workers / limits.progress_per_second)
