"""All results of a report as values (dataclasses), without text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar

from aiperf.accounting.accelerator_time import Availability, TimeBreakdown
from aiperf.accounting.error_figures import ErrorFigures
from aiperf.accounting.losses import Waterfall
from aiperf.accounting.score import CurvePoint, Score, Settled
from aiperf.accounting.score_texts import NoScore
from aiperf.accounting.step_breakdown import StepBreakdown
from aiperf.accounting.valid_flops import FixedNetworkResult
from aiperf.accounting.work_log import SealedEpoch
from aiperf.journal.events import FollowedRun, Metric
from aiperf.ranking.breaches import RuleViolation
from aiperf.report.fold import ExchangeFacts, TrialResults
from aiperf.run_warning import RunWarning
from aiperf.system.energy import EnergyFacts
from aiperf.system.of_run import SystemDescription
from aiperf.system.summary import Telemetry
from aiperf.train.checkpoints.checkpoint_files import KeptCheckpoints

SCHEMA = "aiperf-report"
"""Name of the format of report.json."""
VERSION = 3
"""Version of the format. It increases if a field is removed or changes its meaning, but not for a new field."""


_Facts = TypeVar("_Facts")


def facts_of(kind: Callable[..., _Facts], *records: object, **computed: Any) -> _Facts:
    """Return facts. A field that is not computed takes the value of the first record that has a field of its name."""
    sources = _sources(kind, *map(type, records))
    return kind(**{name: getattr(records[at], name) for name, at in sources if name not in computed}, **computed)


@cache
def _sources(kind: Any, *records: type) -> list[tuple[str, int]]:
    """Return the fields that a record has, each with the index of the first such record."""
    owners = ((field.name, [hasattr(record, field.name) for record in records]) for field in fields(kind))
    return [(name, has.index(True)) for name, has in owners if True in has]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Properties of a run that were fixed before its start, and its end."""

    name: str
    started_unix: float
    seed: int
    journal_schema: int
    """Schema of the journal that the report was computed from."""
    config_hash: str
    config: dict[str, Any]
    dataset: dict[str, Any]
    metric: Metric
    """Metric of the quality."""
    start_network: str | None
    """Name of the starting graph, or 'another' for a graph that is not built in. None if this release cannot read it."""
    start_fingerprint: str | None
    """Fingerprint of the starting graph. None if this release cannot read it."""
    duration_seconds: float
    warmup_seconds: float
    is_simulated: bool
    follows: FollowedRun | None
    """Run whose trials were trained instead of a search. None if the run searched."""
    end: float
    """End of the run, or of its journal so far."""
    end_reason: str | None
    """Reason in RunEnded. None without RunEnded: the run continues, or its driver was killed."""
    resumes: int
    down_seconds: float
    """Wall time without a driver before all resumes."""
    events: int
    torn_bytes: int
    """Size of an incomplete last line that was dropped. 0 without one."""
    proposal_rules: int
    """Version of the rules that derive proposals from the history."""
    versions: dict[str, str]
    """Versions of the last driver."""
    versions_changed: tuple[str, ...]
    """Names of packages whose versions changed at a resume."""


@dataclass(frozen=True, slots=True)
class InWindow:
    """Work of a trial inside the valid window, including repeated work. Intervals across an edge count in proportion."""

    trained_images: float
    validated_images: float
    operations: float
    """Operations of training and validation."""
    tensor_operations: float
    """Operations of convolutions and matrix products only."""
    busy_seconds: float
    """Accelerator-seconds in training and validation steps."""


@dataclass(slots=True, kw_only=True)
class TrialFacts(TrialResults):
    """One trial (training of one network), from its proposal to its end."""

    round: int
    searcher: str
    fingerprint: str
    """Fingerprint of the architecture."""
    follows: int | None
    """Number of the same trial in the followed run. None without a followed run."""
    parent: int | None
    """Trial that it grew from. None for the starting graph with new weights."""
    morphs: tuple[dict[str, Any], ...]
    kernel_size: int | None
    tuned_by: str
    """Source of batch and kernel size: 'default', 'startup' (at random, before TPE starts) or 'tpe'. '' if not recorded."""
    worker: int | None
    attempts: int
    started: float | None
    ended: float | None
    outcome: str
    """'epochs', 'early stop', 'followed', 'failed', 'lost', during a run also 'training' and 'waiting', after its end
    'cut off' (in training at the end) and 'never started'."""
    reason: str | None
    """Reason of the failure or of the last loss."""
    forward_flops: int
    backward_flops: int
    parameters: int
    training_images: int
    """Number of processed images, including those of lost attempts."""
    seconds: float
    """Total time of the reported intervals."""
    in_window: InWindow


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """Description and presence of one worker (group of accelerators that trains one network at a time)."""

    number: int
    host: str
    ranks: int
    device: str
    device_memory_bytes: int
    collective: str
    joined: float
    lost: float | None
    lost_reason: str | None
    trials: int
    """Number of attempts on this worker."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Results of a node in preflight, the check before a run: best repetition, weakest device, best partner."""

    address: str
    host: str
    at: float
    excluded: bool
    """True if the node got no worker."""
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    """Remarks without influence on the verdict."""
    clock_offset_seconds: float | None
    """Clock offset ahead of the driver's host. The host's telemetry is corrected by it."""
    clock_error_seconds: float | None
    disk_write_bytes_per_second: float | None
    """Rate of writing to the run's folder."""
    disk_read_bytes_per_second: float | None
    matmul_flops: float | None
    memory_bytes_per_second: float | None
    pair_bytes_per_second: float | None
    """Bus bandwidth of an all-reduce with one partner."""
    bus_bytes_per_second: float | None
    """Bus bandwidth of the all-reduce of all nodes."""


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """Hosts with equal descriptions, as one row."""

    hosts: int
    example: str
    """Name of the first of these hosts."""
    workers: int
    accelerators: int
    """Number of ranks, which are processes on a machine without accelerators."""
    device: str
    device_memory_bytes: int
    collective: str
    machine: dict[str, Any]
    """System description without parts that differ between equal hosts."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Summary of the hardware of the score."""

    devices: tuple[str, ...]
    """Models, each once."""
    accelerators: int
    """Largest number of accelerators present at once, or of data-parallel processes on a machine without accelerators."""
    are_accelerators: bool
    """True for accelerators, False for processes on processors."""
    hosts: int
    """Number of hosts with a worker, over the whole run."""
    precisions: tuple[str, ...]
    collectives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instantaneous:
    """Work ÷ time between neighbouring points of the curve inside the valid window."""

    median: float
    """Median in FLOPS."""
    low: float
    """5th percentile in FLOPS."""
    high: float
    """95th percentile in FLOPS."""
    part_seconds: float
    """Time between neighbouring points."""


@dataclass(frozen=True, slots=True)
class ErrorPoint:
    """Validation error at the end of one epoch."""

    at: float
    trial: int
    error: float
    """1 − accuracy of that epoch."""
    best: float
    """Smallest error so far, including this one."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Uninterrupted activity of a worker: one bar of the chart of workers over time."""

    row: int
    start: float
    end: float
    kind: str
    """'prepare', 'train' or 'validate'."""
    trial: int
    is_odd: bool
    """Alternates from trial to trial of a row, so that neighbours have different shades."""


@dataclass(frozen=True, slots=True)
class Gantt:
    """Activities of the workers over time: bars for the first workers, and a grid of shares of busy time for many workers."""

    workers: tuple[int, ...]
    """Worker number of each row of bars."""
    hosts: tuple[str, ...]
    present: tuple[tuple[float, float], ...]
    """Start and end of the presence of each row's worker."""
    bars: tuple[Bar, ...]
    merged_gap_seconds: float
    """Bars of one kind and trial with a smaller gap are drawn as one."""
    all_workers: int
    grid: tuple[tuple[float | None, ...], ...]
    """[row][column]: busy share of the accelerator time of a group of workers, None without workers.
    Empty if every worker has bars."""
    grid_rows: tuple[tuple[int, int], ...]
    """First and last worker number of each row of the grid."""
    end: float
    """Time at the right edge."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """Trial in the tree of networks, with its position."""

    trial: int | None
    """Number of the trial. None for the starting graph."""
    parent: int | None
    """Index of the parent in the nodes. None for the starting graph."""
    generation: int
    row: float
    accuracy: float | None
    is_best: bool


@dataclass(frozen=True, slots=True)
class ArchitectureTree:
    """Tree of networks, or its best part."""

    nodes: tuple[TreeNode, ...]
    """The starting graph first, parents before children."""
    trials: int
    """Number of trials of the run. If it is larger than `shown`, the tree has the best trials and their ancestors."""
    shown: int


@dataclass(frozen=True, slots=True)
class BestArchitecture:
    """Best network, rebuilt from its changes since the starting network."""

    trial: int
    morphs: tuple[dict[str, Any], ...]
    """Morphs of the whole lineage, beginning at the starting graph."""
    graph: dict[str, Any] | None
    """Graph in the format of docs/graph-format.md. None if it could not be rebuilt."""
    why_not: str | None
    """Reason if the graph could not be rebuilt, else None."""
    added: tuple[str, ...]
    """Names of nodes that the starting graph does not have, or has with other parameters."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Counts and times of the search."""

    requested: int
    made: int
    rejected: int
    median_seconds: float | None
    largest_seconds: float | None
    pruned: int
    """Number of tuning points over the budget. Always 0 since rules 4."""
    batch_reductions: int
    """Number of reductions of a batch size after a lack of memory."""
    startup_trials: int
    """Number of trials with random batch and kernel size, before TPE starts."""
    startup_share: float | None
    """Share of these trials in the accelerators' busy time. None without work, or if the journal does not record how
    trials were tuned."""
    reached_share: float | None = None
    """Forward operations of the largest started network ÷ those of the budget. None without a child of the starting graph."""
    reached_after: float | None = None
    """Seconds from the start of the run to the first start of a network of this size."""


@dataclass(frozen=True, slots=True)
class TrainingFloor:
    """Shortest time of the training and validation steps in the window, from the operations and bytes of each layer.

    Times are accelerator-seconds of the examined trials. Caches are left out.
    """

    peak_flops: float
    """Peak of one accelerator at the used precision."""
    memory_bytes_per_second: float
    """Memory bandwidth of one accelerator."""
    memory_source: str
    """'data sheet' or 'preflight'."""
    trials: int
    """Number of examined trials: those with the most time."""
    trials_in_window: int
    busy_seconds: float
    arithmetic_seconds: float
    """Operations ÷ peak."""
    memory_seconds: float
    """Further time that layers bound by memory take at least. No tuning recovers it."""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Model FLOPS utilization (MFU) inside the valid window, by operations of convolutions and matrix products.

    Repeated work counts here, because the accelerators did it.
    """

    tensor_flops: float
    """Operations in the window."""
    busy_seconds: float
    """Busy accelerator-seconds in the window."""
    accelerator_seconds: float
    """Largest number of accelerators present at once × length of the window."""
    peak_flops: float | None
    """Dense peak of one accelerator at the used precision. None if unknown, or not equal for all."""
    peak_source: str | None
    is_peak_measured: bool
    """True if the peak is the rate of a measured matrix product, not a published dense peak."""
    is_peak_declared: bool
    """True if the user declared the peak (option system.peak). The run then has no place in an order by MFU."""
    peak_clock_mhz: float | None
    """Clock of the published dense peak. None for a measured peak, or if the vendor names no clock."""
    mfu: float | None
    """tensor_flops / (accelerator_seconds · peak)."""
    mfu_busy: float | None
    """tensor_flops / (busy_seconds · peak)."""
    gap_median_seconds: float | None
    """Median time between the work of two attempts on one worker."""
    gap_p95_seconds: float | None
    communication_share: float | None
    """Share of the busy time: exchange of gradients that the backward pass did not hide."""
    input_share: float | None
    """Share of the accelerator time: waiting for images."""


@dataclass(frozen=True, slots=True)
class PredictedLine:
    """One activity of the time breakdown, predicted and measured, as shares of all accelerator time."""

    name: str
    predicted: float
    measured: float
    same_work: float
    """Measured time for the predicted operations, as a share of the predicted time: measured × predicted score ÷ score."""

    @property
    def gap(self) -> float:
        """Measured less predicted time for the same operations, as a share of all predicted accelerator time."""
        return self.same_work - self.predicted


@dataclass(frozen=True, slots=True)
class PredictionFacts:
    """Score that was predicted before the run (docs/prediction.md)."""

    flops_per_second: float
    interval: tuple[float, float]
    """95 % interval of the prediction."""
    workers: int
    is_extrapolated: bool
    source: str
    """Run of the profile."""
    lines: tuple[PredictedLine, ...]
    """In the order of the time breakdown. Empty without a valid window."""
    largest_gap: str | None
    """Name of the line with the largest gap for the same operations. None without lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results of a run."""

    schema: str = SCHEMA
    version: int = VERSION
    run: RunFacts
    hardware: Hardware
    score: Score
    no_score: NoScore | None
    """Reason and remedy of a missing valid score. None with a valid score."""
    breaches: tuple[RuleViolation, ...]
    """Rules that keep the run out of the ranking."""
    divisions: tuple[str, ...]
    """Built-in divisions without a broken rule. The run may be compared in these."""
    warnings: tuple[RunWarning, ...]
    """All warnings, most critical first."""
    curve: tuple[CurvePoint, ...]
    instantaneous: Instantaneous | None
    """None if the window has no point of the curve."""
    settled: tuple[Settled, ...]
    """Times from which the running score stayed close to the final score."""
    errors: tuple[ErrorPoint, ...]
    """Every improvement, and evenly spaced other epochs (`gather.thinned`)."""
    error_points: int
    """Number of evaluated epochs before thinning."""
    error_figures: ErrorFigures
    """Figures of the error beside the regulated score."""
    time_breakdown: TimeBreakdown
    losses: Waterfall | None
    """Losses from the peak to the score. None without a valid window, an accelerator or a peak."""
    availability: Availability
    """Accelerators over time. The adjusted figure is not a score."""
    utilisation: Utilisation
    proposals: Proposals
    trials: tuple[TrialFacts, ...]
    best: int | None
    """Trial with the best measured accuracy."""
    front: tuple[int, ...]
    """Trials on the Pareto front of operations per image and accuracy, cheapest first."""
    workers: tuple[WorkerFacts, ...]
    nodes: tuple[NodeFacts, ...]
    """Preflight results. Empty without preflight."""
    systems: tuple[SystemFacts, ...]
    system: SystemDescription
    """Descriptions of the nodes, their differences, and the site's form."""
    gantt: Gantt
    tree: ArchitectureTree
    architecture: BestArchitecture | None
    telemetry: Telemetry | None
    """Telemetry of devices and hosts. None if nothing was recorded in the window."""
    fixed_network: FixedNetworkResult | None = None
    """Quality and valid FLOPS of a run with a target quality. None for the AutoML benchmark."""
    attempts_lost_share: float = 0.0
    """Share of the attempts that were lost while the driver was up."""
    trials_given_up_share: float = 0.0
    """Share of the settled trials that failed."""
    proposals_ended_share: float = 0.0
    """Share of the proposals that ended while their worker lived. 0 for at most three."""
    worker_class: str = "another"
    """'accelerator' (one for each worker), 'node' (all of a node) or 'another'."""
    training_floor: TrainingFloor | None = None
    """Shortest time of the steps. None without a known peak and memory bandwidth."""
    padding_share: float | None = None
    """Share of the window's counted operations that multiply zero padding, over the 200 trials with the most work. None
    without work, or without a readable graph."""
    exchange: ExchangeFacts | None = None
    """Exchange of gradients. None for workers of one rank, or without a measured bus bandwidth."""
    checkpoints: KeptCheckpoints | None = None
    """Remaining and removed checkpoints after the end. None if not examined."""
    weights: SealedEpoch | None = None
    """Epoch that gives the quality, with the SHA-256 of its checkpoint. None if the journal has none."""
    prediction: PredictionFacts | None = None
    """Predicted score of the run, next to the measured one. None if the run was not predicted."""
    step: StepBreakdown | None = None
    """Time breakdown of a step of the first trial that was traced. None without `trainer.profile_steps`."""
    energy: EnergyFacts | None
    """Energy by counters, samples and external meters, with FLOPS/W and its level. None if no power was measured."""
