"""Everything that a report shows, as values: no text, no picture, no arithmetic left to do.

`gather.gather` computes a Report; the renderers only format it. report.json is this Report, field by field, as
report.schema.json describes it (tools/report_schema.py writes that from here). Times are seconds since the run began unless
a name says otherwise; shares are parts of one; None is "not measured".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiperf.accounting.availability import Availability
from aiperf.accounting.losses import Waterfall
from aiperf.accounting.no_score import NoScore
from aiperf.accounting.score import CurvePoint, Score
from aiperf.accounting.time_breakdown import TimeBreakdown
from aiperf.journal.events import FollowedRun
from aiperf.ranking.breaches import Breach
from aiperf.run_warning import RunWarning
from aiperf.statistics.convergence import Settled
from aiperf.system.description.of_run import SystemDescription
from aiperf.system.energy import EnergyFacts
from aiperf.system.telemetry import Telemetry
from aiperf.train.kept import KeptCheckpoints

SCHEMA = "aiperf-report"
"""The name of report.json's form."""
VERSION = 2
"""Of that form. Goes up when a field goes, or means another thing; a new field alone does not raise it."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What was decided before the run began, and how it ended."""

    name: str
    started_unix: float
    seed: int
    journal_schema: int
    """Of the journal that all of this was computed from."""
    config_hash: str
    config: dict[str, Any]
    dataset: dict[str, Any]
    start_network: str | None
    """The starting graph's name; 'another': it is none of those that are built in. None: this release cannot read it."""
    start_fingerprint: str | None
    """Of the starting graph; None: this release cannot read it."""
    duration_seconds: float
    warmup_seconds: float
    is_simulated: bool
    follows: FollowedRun | None
    """The run whose trials it trained instead of searching; None: it searched."""
    end: float
    """Where the run ended, or where its journal ends so far."""
    end_reason: str | None
    """RunEnded's; None: the journal has no end, the run is going on or its driver was killed."""
    resumes: int
    down_seconds: float
    """Wall time between a driver's end and the next one's beginning, over all resumes."""
    events: int
    torn_bytes: int
    """Of a last line that its driver did not finish, and that was dropped; 0: there was none."""
    proposal_rules: int
    """Version of the rules by which proposals follow from the history."""
    versions: dict[str, str]
    """Those of the last driver."""
    versions_changed: tuple[str, ...]
    """Names whose version a resumed driver found changed."""


@dataclass(frozen=True, slots=True)
class InWindow:
    """What a trial did inside the valid window, lost work that was done again included; what an edge cuts in proportion."""

    trained_images: float
    validated_images: float
    operations: float
    """Of training and validation."""
    tensor_operations: float
    """Of convolutions and matrix products alone."""
    busy_seconds: float
    """Accelerator-seconds in training and validation steps."""


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """One trial, from its proposal to its end."""

    number: int
    round: int
    searcher: str
    fingerprint: str
    """Of its architecture."""
    follows: int | None
    """Its like in the run that is followed, by the number there; None: it follows none."""
    parent: int | None
    """None: the starting graph with fresh weights."""
    morphs: tuple[dict[str, Any], ...]
    generation: int
    """Proposals from the starting graph to here, this one included."""
    batch_size: int
    kernel_size: int | None
    worker: int | None
    attempts: int
    started: float | None
    ended: float | None
    epochs: int
    """Epochs finished."""
    accuracy: float | None
    """Best measured validation accuracy, of the evaluations that count: those that ended by the declared end."""
    told_accuracy: float | None
    validation_loss: float | None
    """Of the last epoch."""
    outcome: str
    """'epochs', 'early stop', 'followed', 'failed', 'lost'; while the run goes on 'training', 'waiting'; after its end
    'cut off' (it was being trained) and 'never started'."""
    reason: str | None
    """Why it failed or was last lost."""
    precision: str | None
    forward_flops: int
    backward_flops: int
    parameters: int
    training_images: int
    """Images really processed, those of lost attempts included."""
    seconds: float
    """Time that progress was reported for."""
    in_window: InWindow


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One worker."""

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
    """Trials and attempts that it was given."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as preflight found it. Of repetitions the best; of several devices the weakest; of partners the best."""

    address: str
    host: str
    at: float
    excluded: bool
    """It got no worker."""
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    """What was not judged."""
    clock_offset_seconds: float | None
    """Ahead of the driver's host; it is taken out of the host's telemetry."""
    clock_error_seconds: float | None
    disk_write_bytes_per_second: float | None
    """To the run's folder."""
    disk_read_bytes_per_second: float | None
    matmul_flops: float | None
    memory_bytes_per_second: float | None
    pair_bytes_per_second: float | None
    """Bus bandwidth of an all-reduce with one partner."""
    bus_bytes_per_second: float | None
    """Bus bandwidth of the all-reduce of all nodes."""


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """Hosts that describe themselves alike, as one row."""

    hosts: int
    example: str
    """The first such host's name."""
    workers: int
    accelerators: int
    """Ranks of those workers; on a machine without accelerators, processes."""
    device: str
    device_memory_bytes: int
    collective: str
    machine: dict[str, Any]
    """The system description, without what differs between hosts alike."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the score was reached on, in one line's worth of facts."""

    devices: tuple[str, ...]
    """Models, each once."""
    accelerators: int
    """The most that were there at once; on a machine without accelerators, data-parallel processes."""
    are_accelerators: bool
    """Whether these are accelerators, and not processes on processors."""
    hosts: int
    """With a worker, over the whole run."""
    precisions: tuple[str, ...]
    collectives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instantaneous:
    """The work between each two neighbouring points of the curve inside the valid window, ÷ the time between them."""

    median: float
    """FLOPS, as are the others."""
    low: float
    """5 % of the parts are below."""
    high: float
    """5 % of the parts are above."""
    part_seconds: float
    """Length of a part."""


@dataclass(frozen=True, slots=True)
class ErrorPoint:
    """The validation error measured at the end of one epoch."""

    at: float
    trial: int
    error: float
    """1 − accuracy of that epoch."""
    best: float
    """The best so far, with this one."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a worker did without a break: one bar of the Gantt chart."""

    row: int
    start: float
    end: float
    kind: str
    """'prepare', 'train' or 'validate'."""
    trial: int
    is_odd: bool
    """Turns from trial to trial of a row, so that neighbours can be told apart."""


@dataclass(frozen=True, slots=True)
class Gantt:
    """Workers over time: bars for the first workers, and a grid of shares of busy time when there are more."""

    workers: tuple[int, ...]
    """Worker number of each row of bars."""
    hosts: tuple[str, ...]
    present: tuple[tuple[float, float], ...]
    """Of each row: when the worker joined, and was lost or the run ended."""
    bars: tuple[Bar, ...]
    merged_gap_seconds: float
    """Bars of the same kind and trial that lie closer together than this are drawn as one."""
    all_workers: int
    grid: tuple[tuple[float | None, ...], ...]
    """[row][column]: the share of accelerator time in which a group of workers was busy; None while none was there.
    Empty when every worker has its bars."""
    grid_rows: tuple[tuple[int, int], ...]
    """First and last worker number of each row of the grid."""
    end: float
    """Time at the right edge."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One trial in the tree of architectures, laid out."""

    trial: int | None
    """None: the starting graph."""
    parent: int | None
    """Index of the parent among the nodes; None for the starting graph."""
    generation: int
    row: float
    accuracy: float | None
    is_best: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of architectures, or its best part."""

    nodes: tuple[TreeNode, ...]
    """The starting graph first, parents before children."""
    trials: int
    """Trials of the run; above those shown, the best and their ancestors are."""
    shown: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """The best architecture, rebuilt from its lineage."""

    trial: int
    morphs: tuple[dict[str, Any], ...]
    """All of its lineage, from the starting graph on."""
    graph: dict[str, Any] | None
    """In the format of docs/graph-format.md; None where it could not be rebuilt."""
    why_not: str | None
    """Why it could not be rebuilt."""
    added: tuple[str, ...]
    """Names of its nodes that the starting graph has not, or has with other numbers."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """How the search went."""

    requested: int
    made: int
    rejected: int
    median_seconds: float | None
    largest_seconds: float | None
    pruned: int
    """Points that tuning tried and that lay over the budget; from rules 4 on none is tried."""
    batch_reductions: int
    """Times a trial went on with a smaller batch after running out of memory."""
    startup_trials: int
    """Trials whose batch and kernel size were drawn at random, since tuning knew of too little."""
    startup_share: float | None
    """Of the accelerators' busy time, that which such trials took. None: nothing was done, or the journal does not say which
    they are."""


@dataclass(frozen=True, slots=True)
class PeakAgain:
    """The matrix product of a worker's processors, measured when it came up and after the run's end; of one rank."""

    worker: int
    host: str
    precision: str
    first_flops: float
    """FLOPS; what MFU is held against."""
    again_flops: float
    """FLOPS."""
    change: float
    """The second ÷ the first − 1."""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Model FLOPS utilisation by tensor count: convolutions and matrix products alone, inside the valid window.

    Work that a loss made worthless counts here, since the accelerator did it.
    """

    tensor_flops: float
    """Operations in the window."""
    busy_seconds: float
    """Accelerator-seconds busy in the window."""
    accelerator_seconds: float
    """Accelerator-seconds there were in the window."""
    peak_flops: float | None
    """Dense peak of one accelerator at the precision used; None: unknown, or not the same for all."""
    peak_source: str | None
    peak_clock_mhz: float | None
    """That the dense peak is printed for; None: a measured peak, or its maker names no clock."""
    mfu: float | None
    """tensor_flops / (accelerator_seconds · peak)."""
    mfu_busy: float | None
    """tensor_flops / (busy_seconds · peak): while it was stepping."""
    gap_median_seconds: float | None
    """Between two trials of one worker: end of the one's progress to the beginning of the next one's."""
    gap_p95_seconds: float | None
    communication_share: float | None
    """Of the busy time: exchange of gradients that the backward pass did not hide."""
    input_share: float | None
    """Of the accelerator time: waiting for images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it."""

    schema: str = SCHEMA
    version: int = VERSION
    run: RunFacts
    hardware: Hardware
    score: Score
    no_score: NoScore | None
    """Why there is no valid score, and what to do next; None: there is one."""
    breaches: tuple[Breach, ...]
    """What keeps the run out of the ranking."""
    divisions: tuple[str, ...]
    """Of the divisions that are built in those none of whose rules it breaks: in these it may be compared."""
    warnings: tuple[RunWarning, ...]
    """Those of the score and those of the telemetry, most critical first."""
    curve: tuple[CurvePoint, ...]
    instantaneous: Instantaneous | None
    """None: the window holds no point of the curve."""
    settled: tuple[Settled, ...]
    """Since when the running score stayed near where it ended."""
    errors: tuple[ErrorPoint, ...]
    """Thinned by `gather.thinned`: every improvement, and evenly spaced others."""
    error_points: int
    """Before thinning."""
    time_breakdown: TimeBreakdown
    losses: Waterfall | None
    """From the dense peak to the score. None: no valid window, no accelerator, or nothing to begin at."""
    availability: Availability
    """Accelerators over time; its adjusted figure is no score."""
    utilisation: Utilisation
    proposals: Proposals
    trials: tuple[TrialFacts, ...]
    best: int | None
    """The trial with the best measured accuracy."""
    front: tuple[int, ...]
    """Trials that no trial with as few operations an image equals in accuracy (the Pareto front), the cheapest first."""
    workers: tuple[WorkerFacts, ...]
    nodes: tuple[NodeFacts, ...]
    """As preflight found them; empty: it was not done."""
    systems: tuple[SystemFacts, ...]
    system: SystemDescription
    """Nodes as they described themselves, what differs between them, and what the site said of the system."""
    gantt: Gantt
    tree: Tree
    architecture: Architecture | None
    telemetry: Telemetry | None
    peaks_again: tuple[PeakAgain, ...] = ()
    """Of workers without accelerators; empty: not measured again."""
    checkpoints: KeptCheckpoints | None = None
    """What stands of the checkpoints after the end; None: nobody has said."""
    """None: not measured, or nothing was recorded in the window."""
    energy: EnergyFacts | None
    """By counters, samples and external meters, with FLOPS/W and its level. None: no power was measured."""
