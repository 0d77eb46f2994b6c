"""Minimum time of the training steps of a run by the roofline of each layer, and the share of padding in its operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, get_args

import msgspec

from aiperf.accounting import network_roofline
from aiperf.errors import BadConfiguration, conflict
from aiperf.report.architecture import graphs_of_trials
from aiperf.report.facts import TrainingFloor, TrialFacts
from aiperf.report.fold import Collected
from aiperf.report.nodes import nodes
from aiperf.system.peaks import DataType, memory_bandwidth
from aiperf.train.trainer_config import ELEMENT_BYTES
from morphism.cost import padded_flops

MOST_TRIALS = 200
_Rate = Annotated[float, msgspec.Meta(ge=1, le=1e24)]


class HostRoofs(msgspec.Struct, frozen=True):
    """Highest measured FLOPS and memory bandwidth of one host without accelerators: the output of `bops peak --json`."""

    model: str
    cores: Annotated[int, msgspec.Meta(ge=1, le=10**6)]
    per_core: dict[str, _Rate]
    """Operations per second of one core by kind of burst."""
    memory_bytes_per_second: _Rate

    @property
    def multiply_adds(self) -> dict[str, float]:
        """FLOPS of all cores by data type."""
        rates = self.per_core.items()
        return {kind.removeprefix("fma_"): rate * self.cores for kind, rate in rates if kind.startswith("fma_")}


def training_floor(
    run: Collected, trials: Sequence[TrialFacts], peak_flops: float | None, roofs: HostRoofs | None = None
) -> TrainingFloor | None:
    """Minimum time of the window's steps, by layer costs. None without work, peak, bandwidth or a readable network."""
    if roofs is None:
        bandwidth, source = _bandwidth(run)
    else:
        peak_flops, bandwidth, source = _of_rank(run, roofs, {trial.precision or "" for trial in trials})
    busy = [trial for trial in trials if trial.in_window.busy_seconds > 0 and trial.precision in get_args(DataType)]
    if peak_flops is None or bandwidth is None or not busy:
        return None
    arithmetic, floors, seconds = [], [], []
    longest = sorted(busy, key=lambda each: -each.in_window.busy_seconds)[:MOST_TRIALS]
    graphs = graphs_of_trials(run, [trial.number for trial in longest])
    for trial in longest:
        if (graph := graphs.get(trial.number)) is None:
            continue
        size = ELEMENT_BYTES[trial.precision or ""]
        counts = (True, trial.in_window.trained_images), (False, trial.in_window.validated_images)
        for is_training, images in counts:
            operations, floor = network_roofline.floor(
                network_roofline.layers(graph, trial.batch_size, size, peak_flops, bandwidth, is_training=is_training)
            )
            arithmetic.append(images / trial.batch_size * operations / peak_flops)
            floors.append(images / trial.batch_size * floor)
        seconds.append(trial.in_window.busy_seconds)
    if not seconds:
        return None
    least = math.fsum(arithmetic)
    return TrainingFloor(
        peak_flops=peak_flops,
        memory_bytes_per_second=bandwidth,
        memory_source=source,
        trials=len(seconds),
        trials_in_window=len(busy),
        busy_seconds=math.fsum(seconds),
        arithmetic_seconds=least,
        memory_seconds=math.fsum(floors) - least,
    )


def padding_share(run: Collected, trials: Sequence[TrialFacts]) -> float | None:
    """Share of the window's counted operations that multiply zero padding. None without work or a readable graph."""
    padded, counted = [], []
    largest = sorted(trials, key=lambda each: -each.in_window.operations)[:MOST_TRIALS]
    graphs = graphs_of_trials(run, [trial.number for trial in largest if trial.in_window.operations > 0])
    for trial in largest:
        work = trial.in_window
        if (graph := graphs.get(trial.number)) is not None:
            forward, backward = padded_flops(graph)
            padded.append(work.trained_images * (forward + backward) + work.validated_images * forward)
            counted.append(work.operations)
    return math.fsum(padded) / math.fsum(counted) if counted else None


def _of_rank(run: Collected, roofs: HostRoofs, precisions: set[str]) -> tuple[float, float, str]:
    shares = {joined.ranks / max(1, len(joined.hosts)) for joined in run.workers.values()}
    used = precisions & set(get_args(DataType))
    if any(joined.machine.get("accelerators") for joined in run.workers.values()):
        raise conflict("--roofs", "a run on accelerators, whose roofs are in system/peaks.json", "Leave it out")
    if len(shares) != 1 or len(used) != 1 or not used <= roofs.multiply_adds.keys():
        raise BadConfiguration(
            "--roofs needs equally many ranks on each host and one precision that the file has a rate for, but found "
            f"{sorted(shares)} ranks and {sorted(used)}: leave --roofs out, or report a run with equal workers"
        )
    ranks = shares.pop()
    return roofs.multiply_adds[used.pop()] / ranks, roofs.memory_bytes_per_second / ranks, "--roofs"


def _bandwidth(run: Collected) -> tuple[float | None, str]:
    """Return the memory bandwidth of one rank and its source: the table of accelerators, or preflight's triad."""
    workers = list(run.workers.values())
    published = {memory_bandwidth(joined.device, None) for joined in workers}
    if len(published) == 1 and None not in published:
        return published.pop(), "data sheet"
    measured = [node.memory_bytes_per_second for node in nodes(run.checks) if not node.excluded]
    known = [each for each in measured if each is not None]
    if not workers or not known or len(known) < len(measured):
        return None, ""
    # without accelerators the ranks of a worker share the memory of their host
    shares = {1 if joined.machine.get("accelerators") else joined.ranks for joined in workers}
    return (min(known) / shares.pop(), "preflight") if len(shares) == 1 else (None, "")
