"""What the rules of a division look at, from the fold of a journal: the one way from a run to its Candidate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from aiperf.accounting.score import Score, score, window
from aiperf.accounting.windows import Window, share_inside
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.ranking.candidate import NO_END, Candidate, chosen
from aiperf.report.architecture import starting_graph
from aiperf.report.fold import Collected, collect
from aiperf.report.utilisation import utilisation
from aiperf.rules.following import FOLLOW
from aiperf.rules.search_space import recorded
from aiperf.train.batch_sizes import bounds
from morphism import STARTS, Budget, Graph, IllegalGraph, start
from searchers.history import Space


def candidate_of(events: Iterable[AnyEvent]) -> Candidate:
    """That of a journal's events, read once and in order."""
    run = collect(events)
    inside = window(run.work_log)
    return candidate(run, inside, score(run.work_log), utilisation(run, inside).mfu_busy)


def candidate(run: Collected, inside: Window, result: Score, largest_mfu: float | None) -> Candidate:
    """That of a journal that was read, with its window, its score and its utilisation."""
    started, ended, work_log = run.started, run.work_log.ended, run.work_log
    config = started.config
    late = [run.trials[number] for number, record in work_log.trials.items() if record.proposed_for > 3]
    searcher, tuner = (chosen(config, part) or usual for part, usual in _USUAL.items())
    searcher = searcher if run.started.follows is None else FOLLOW
    graph = starting_graph(started.start_graph)
    return Candidate(
        is_simulated=started.simulated,
        config=config,
        images=_images(started),
        start_network=None if graph is None else _name_of(graph, started.dataset),
        searchers=frozenset(trial.proposal.searcher for trial in run.trials.values()) | {searcher},
        is_tuned=tuner == _USUAL["hpo"] and (not late or any(trial.proposal.kernel_size is not None for trial in late)),
        duration_seconds=started.duration_seconds,
        warmup_seconds=started.warmup_seconds,
        window_seconds=result.window_seconds,
        rolled_back_lines=sum(lines for _, lines in work_log.rollbacks),
        resumes=len(run.resumes),
        workers_lost=work_log.lost_workers,
        end=work_log.at if ended is None else ended.at,
        end_reason=NO_END if ended is None else ended.reason,
        devices=frozenset(joined.device for joined in run.workers.values()),
        precisions=frozenset(preparation.precision for preparation in work_log.preparations),
        error=result.error,
        largest_mfu=largest_mfu,
        nodes_checked=len({check.address for check in run.checks}),
        nodes_excluded=len({check.address for check in run.checks if check.excluded}),
        beside_master=_beside_master(run, inside),
        space_differences=None if graph is None else _space_differences(started, graph),
        lines=_lines(run, searcher),
    )


_USUAL = {"searcher": "morphism", "hpo": "tpe"}
"""What a configuration that does not say what was chosen is taken to have: that it does not say is told by its options."""
_OF_THE_FIRST_LINE = (
    "is_simulated", "images", "start_network", "duration_seconds", "warmup_seconds", "window_seconds", "space_differences",
)  # fmt: skip


def _lines(run: Collected, searcher: str) -> dict[tuple[str, str], int]:
    shown = {(fact, ""): 1 for fact in _OF_THE_FIRST_LINE}
    return shown | run.lines | {("searchers", searcher): 1}


def _images(started: RunStarted) -> dict[str, Any]:
    """What the first line says of the images. A name that is not the configured one is neither of the two."""
    told, configured = started.dataset.get("name"), chosen(started.config, "dataset")
    differing = {} if configured in (None, told) else {"name": f"{told}, configured as {configured}"}
    return {"noise": 0.0, **started.dataset, **differing}


def _name_of(graph: Graph, images: Mapping[str, Any]) -> str:
    """Under which name a starting graph for such images is this one; 'another': under none."""
    made_for = (images.get("image"), images.get("channels"), images.get("classes"))
    return next((name for name in STARTS if _fingerprint(name, *made_for) == graph.fingerprint), "another")


@cache
def _fingerprint(name: str, image: int | None, channels: int | None, classes: int | None) -> str | None:
    try:
        return start(name, image=image, channels=channels, classes=classes).fingerprint
    except (IllegalGraph, TypeError):  # such images make no network, or are no numbers
        return None


def _space_differences(started: RunStarted, graph: Graph) -> frozenset[str] | None:
    """Each entry of the recorded space that is not what the plan makes of the first line's options, graph and workers.

    None: the line does not hold all of these, as older journals do not.
    """
    config, shape = started.config, started.shape
    try:
        budget, batch = config["budget"], config["batch"]
        rounds, told = config["schedule"]["warmup_rounds"], config["space"]
        if shape is None:
            return None
        default, largest = bounds(
            batch["default"], batch["smallest"], batch["largest"], started.dataset["training_images"], shape.ranks
        )
        space = Space(
            start=graph,
            budget=Budget.of(
                graph,
                factor=budget["factor"],
                memory_bytes=int(budget["memory_share"] * shape.memory_bytes),
                batch=budget["batch"],
            ),
            default_batch_size=default,
            smallest_batch_size=batch["smallest"],
            largest_batch_size=largest,
            tuning_from_round=rounds + 1,
        )
        return frozenset(_differing(recorded(space), told, "space."))
    except ValueError as error:  # these options make none
        return frozenset({str(error)})
    except (KeyError, TypeError):
        return None


def _differing(right: Mapping[str, Any], told: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, value in right.items():
        found = told[name]
        if isinstance(value, dict):
            yield from _differing(value, found, f"{prefix}{name}.")
        elif found != value:
            yield f"{prefix}{name} is {found}, and {value} follows"


def _beside_master(run: Collected, inside: Window) -> frozenset[str] | None:
    """Hosts of drivers on which a worker did work inside the window; None: not every description says which host it is of."""
    drivers = [run.started.machine, *(resume.machine for resume in run.resumes)]
    columns = run.work_log.intervals
    at_work = np.unique(columns.worker[share_inside(columns.start, columns.end, inside) > 0]).tolist()
    workers = [run.workers[number].machine for number in at_work]
    if not all(one.get("host") for one in (*drivers, *workers)):
        return None
    return frozenset(str(one["host"]) for one in workers if any(_is_one_host(one, driver) for driver in drivers))


def _is_one_host(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """By the kernel's boot, which containers of a host share, whatever they are called; by name where a boot is not known."""
    boots = one.get("boot_id"), other.get("boot_id")
    return boots[0] == boots[1] if all(boots) else one["host"] == other["host"]
