"""What the configuration of a ranked run says, option by option: a table of values and bounds, each with its source.

Every option of a run is in one of three tables: required here, judged by what came of it, or free. A test holds them against
the configuration that there is, so that a new option cannot be forgotten. docs/benchmark.md prints the tables
(`python -m tools.ranking_doc`). Values are written out here, and taken from no default: a default that is changed by mistake
must not change the rule with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Plain = str | int | float | bool | None | list[Any]


@dataclass(frozen=True, slots=True)
class Equals:
    """Just this value."""

    value: Plain

    def holds(self, found: Plain) -> bool:
        """1 is not True, and 20 is 20.0."""
        return found == self.value and isinstance(found, bool) == isinstance(self.value, bool)

    def __str__(self) -> str:
        return written(self.value)


@dataclass(frozen=True, slots=True)
class AtMost:
    """A number up to this one."""

    bound: float

    def holds(self, found: Plain) -> bool:
        """A text, a list or none is no number."""
        return isinstance(found, int | float) and not isinstance(found, bool) and found <= self.bound

    def __str__(self) -> str:
        return f"at most {written(self.bound)}"


@dataclass(frozen=True, slots=True)
class Required:
    """One option of a ranked run."""

    option: str
    """As it is written on the command line."""
    law: Equals | AtMost
    source: str
    """P: the paper, C: the predecessor's code, D: decided here (docs/benchmark.md)."""

    @property
    def group(self) -> str:
        """The part of the configuration that it belongs to."""
        return self.option.partition(".")[0]


REQUIRED = (
    Required("dataset.augment", Equals(True), "D"),
    Required("dataset.corrupt_limit", AtMost(10), "D"),
    Required("schedule.epochs", Equals([15, 30, 45, 60]), "C, P"),
    Required("schedule.patience", Equals(6), "C"),
    Required("schedule.patience_step", Equals(2), "C"),
    Required("schedule.largest_patience", Equals(20), "C"),
    Required("schedule.improvement", Equals(0.001), "C"),
    Required("schedule.warmup_rounds", Equals(3), "P"),
    Required("searcher.parents", Equals(6), "D"),
    Required("searcher.candidates", Equals(128), "D"),
    Required("searcher.morphs", Equals(2), "D"),
    Required("searcher.beta", Equals(2.0), "D"),
    Required("hpo.startup_trials", Equals(10), "D"),
    Required("hpo.candidates", Equals(24), "D"),
    Required("trainer.learning_rate", Equals(0.1), "P"),
    Required("trainer.decay_epochs", Equals(60), "P"),
    Required("trainer.momentum", Equals(0.9), "C"),
    Required("trainer.weight_decay", Equals(5e-5), "D"),
    Required("trainer.label_smoothing", Equals(0.1), "C"),
    Required("trainer.scale_learning_rate", Equals(False), "D"),
    Required("trainer.memory_limit_bytes", Equals(None), "D"),
    Required("trainer.ceiling_share", Equals(0.9), "D"),
    Required("budget.factor", Equals(4.0), "D"),
    Required("budget.memory_share", Equals(0.9), "D"),
    Required("budget.memory_bytes", Equals(None), "D"),
    Required("budget.batch", Equals(32), "D"),
    Required("batch.default", Equals(448), "P"),
    Required("batch.smallest", Equals(None), "D"),
    Required("batch.largest", Equals(None), "D"),
    Required("limits.spares", Equals(1), "D"),
    Required("limits.attempts", Equals(3), "D"),
    Required("limits.trials", Equals(None), "D"),
    Required("limits.progress_seconds", Equals(5.0), "D"),
    Required("limits.progress_per_second", Equals(50.0), "D"),
    Required("preflight.most_excluded", AtMost(0.1), "D"),
    Required("executor", Equals("ray"), "D"),
    Required("space.tuning_from_round", Equals(4), "P"),
)

JUDGED = {
    "dataset.name": "all of ImageNet, by its numbers of images, classes and pixels",
    "schedule.duration_seconds": "a valid window of 1 h or more, and the declared length run to its end",
    "schedule.warmup_seconds": "warm-up of 1 h",
    "searcher.name": "network morphism, by the choice and by every proposal",
    "hpo.name": "TPE, by the choice and by the proposals from round 4 on",
    "trainer.precision": "the precision that each attempt said it had",
    "start": "the fingerprint of the starting graph",
    "cluster": "a simulated run never; whatever else it names is where the run was",
    "resume": "nothing that happened is taken back",
    "resume_until": "nothing that happened is taken back",
    "space.default_batch_size": "worked out from batch.default and the images",
    "space.smallest_batch_size": "worked out from batch.smallest",
    "space.largest_batch_size": "worked out from batch.largest, the images and the ranks",
    "space.budget.forward_flops": "worked out from budget.factor and the starting graph",
    "space.budget.parameters": "worked out from budget.factor and the starting graph",
    "space.budget.memory_bytes": "worked out from budget.memory_share and the workers",
    "space.budget.batch": "worked out from budget.batch",
    "space.budget.bytes_per_element": "of the precision that the budget is reckoned in",
}
"""Options that a rule on what came of them looks after."""

FREE = {
    "dataset.root": "where the images lie",
    "dataset.index": "where it stands what lies there",
    "dataset.fingerprint": "a set of another one is refused, whoever says which",
    "dataset.cache": "how images reach the trainer; the same images in the same order",
    "dataset.workers": "threads of decoding",
    "dataset.prefetch_batches": "depth of a queue",
    "dataset.decoder": "which library decodes; the paper leaves the format of the data open",
    "dataset.format": "the paper leaves the format of the data open",
    "trainer.collective": "synchronous all-reduce in any of its forms",
    "trainer.ranks": "processes of a worker: accelerators left idle cost the run's own score",
    "trainer.threads": "of a rank's arithmetic",
    "trainer.nice": "priority of processes",
    "trainer.channels_last": "how arrays lie in memory",
    "trainer.compile": "how the same arithmetic is carried out; the paper leaves the framework open",
    "trainer.cuda_graphs": "how the same arithmetic is carried out",
    "trainer.fused": "how the same arithmetic is carried out",
    "trainer.fp16_compression": "16-bit gradients on the wire are within the least precision",
    "trainer.reference_batch": "without effect while trainer.scale_learning_rate is off",
    "trainer.warmup_epochs": "without effect while trainer.scale_learning_rate is off",
    "trainer.hang_seconds": "when a rank is taken for hung: too soon or too late costs the run's own score",
    "trainer.start_seconds": "when a rank is taken for hung: too soon or too late costs the run's own score",
    "trainer.keep_checkpoints_seconds": "what is kept on disk",
    "limits.silence_seconds": "when a worker is taken for gone: too soon or too late costs the run's own score",
    "limits.rejections": "when a worker asks less often: its idle time is in the score",
    "preflight.probes": "what was measured of the nodes stands in the journal, and the report says so where nothing was",
    "preflight.broken": "a node kept in spite of a fault costs the run's own score; the share of those excluded is judged",
    "preflight.seconds": "when a node is taken for hung before the clock starts",
    "preflight.clock_seconds": "which nodes are excluded: their share is judged",
    "preflight.free_bytes": "which nodes are excluded: their share is judged",
    "preflight.disk_bytes_per_second": "which nodes are excluded: their share is judged",
    "preflight.slow_share": "which nodes are excluded: their share is judged",
    "preflight.slow_network_share": "which nodes are excluded: their share is judged",
    "storage.journal": "on which disk the same lines stand first",
    "storage.telemetry": "on which disk the same samples stand first",
    "name": "of the run's folder",
    "runs": "folder of all runs",
    "seed": "declared beforehand, like the length",
    "metrics_port": "what is shown of a run while it goes on",
    "accelerators_per_worker": "the paper has both: all of a node, and one",
    "dry_run": "starts no run",
    "announcement": "names the run's announcement, which `inspect` holds it to",
    "announcement_log": "where the announcement stands",
}
"""Options that may be as they like, each with the reason."""

CHOSEN = {"dataset": "imagenet", "searcher": "morphism", "hpo": "tpe"}
"""Parts of the configuration whose options are those of a choice: of another choice, the breach is the choice alone."""


@dataclass(frozen=True, slots=True)
class Found:
    """An option that is not as the table has it."""

    required: Required
    value: Plain
    is_missing: bool
    """The journal does not hold it: it cannot be told whether the rule is kept."""


def offences(config: Mapping[str, Any]) -> Iterator[Found]:
    """Every option of REQUIRED that a journal's configuration has otherwise, or not at all."""
    others = {group for group, name in CHOSEN.items() if (config.get(group) or {}).get("name", name) != name}
    told = options(config)
    for required in REQUIRED:
        if required.group in others:
            continue
        found = told.get(required.option, _MISSING)
        if found is _MISSING:
            yield Found(required, None, is_missing=True)
        elif not required.law.holds(found):
            yield Found(required, found, is_missing=False)


_MISSING: Any = object()


def options(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration by dotted names: {'schedule': {'patience': 6}} has 'schedule.patience'."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= options(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def written(value: Plain) -> str:
    """As on the command line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list():
            return f"[{','.join(map(written, value))}]"
        case _:
            return str(value)
