"""Values of a run that the rules of a division (set of rules for comparable runs) check, computed from its journal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
import numpy as np

from aiperf.accounting.intervals import Window, share_inside
from aiperf.accounting.score import Score, score
from aiperf.accounting.work_log import window
from aiperf.data.description import SAMPLE, HashedFiles
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.ranking.candidate import NO_END, Candidate, chosen
from aiperf.report.architecture import starting_network
from aiperf.report.facts import facts_of
from aiperf.report.fold import Collected, collect
from aiperf.report.utilisation import utilisation
from aiperf.rules.followed import FOLLOW, packaged, unlike
from aiperf.rules.limits import PACKAGED
from aiperf.rules.search_space import planned, recorded, step_of_release
from morphism import DETECTORS, STARTS, Architecture, IllegalGraph, start_of


def candidate_of(events: Iterable[AnyEvent]) -> Candidate:
    """Return the values of a run that the rules of a division check, such as its error and its lost workers."""
    run = collect(events)
    inside = window(run.work_log)
    return candidate(run, inside, score(run.work_log), utilisation(run, inside).mfu_busy)


def candidate(run: Collected, inside: Window, result: Score, largest_mfu: float | None) -> Candidate:
    """Return the values of a run that the rules of a division check. None if unknown."""
    started, ended, work_log = run.started, run.work_log.ended, run.work_log
    config = started.config
    late = [run.trials[number] for number, record in work_log.trials.items() if record.proposed_for > 3]
    searcher, tuner = (chosen(config, part) or usual for part, usual in _USUAL.items())
    searcher = searcher if run.started.follows is None else FOLLOW
    network = starting_network(started.start_graph)
    return facts_of(
        Candidate,
        started,
        result,
        is_simulated=started.simulated,
        images=_images(started),
        start_network=None if network is None else _name_of(network, started.dataset),
        searchers=frozenset(trial.proposal.searcher for trial in run.trials.values()) | {searcher},
        is_tuned=tuner == _USUAL["hpo"] and (not late or any(trial.proposal.kernel_size is not None for trial in late)),
        rolled_back_lines=sum(lines for _, lines in work_log.rollbacks),
        resumes=len(run.resumes),
        workers_lost=work_log.lost_workers,
        end=work_log.at if ended is None else ended.at,
        end_reason=NO_END if ended is None else ended.reason,
        devices=frozenset(joined.device for joined in run.workers.values()),
        precisions=frozenset(preparation.precision for preparation in work_log.preparations),
        largest_mfu=largest_mfu,
        nodes_checked=len({check.address for check in run.checks}),
        nodes_excluded=_excluded(run),
        beside_master=_beside_master(run, inside),
        space_differences=None if network is None else _space_differences(started, network),
        announcement=_announcement(config),
        nonce=started.nonce,
        contents=_contents(run),
        attempts=len(run.begun_worker),
        attempts_lost=work_log.lost_attempts + work_log.attempts_lost_with_workers,
        trials_settled=len(work_log.finished) + work_log.failed,
        trials_given_up=work_log.failed,
        proposals_requested=len(run.asked),
        proposals_ended=len(run.ended),
        worker_class=_worker_class(run),
        sequence=_sequence(started),
        changed_trials=0 if started.follows is None else run.rejected + run.batch_reductions,
        ended_early=work_log.lost_attempts + work_log.attempts_lost_with_workers + work_log.failed_unlost,
        lines=_lines(run, searcher),
    )


def _excluded(run: Collected) -> int | None:
    excluded = [check for check in run.checks if check.excluded]
    return None if any(check.kind is None for check in excluded) else len({check.address for check in excluded})


def _contents(run: Collected) -> str | None:
    contents, copies = run.started.dataset.get("contents"), []
    for check in run.checks:
        try:
            copy = msgspec.convert(check.readings.get("data", {}).get("facts"), HashedFiles)
        except msgspec.ValidationError:
            copy = None
        if not check.excluded or (copy is not None and copy.is_shared):
            copies.append(copy)
    known = [copy for copy in copies if copy is not None]
    if contents is None or not known or None in copies:
        return None
    if any(copy.changed or copy.contents != contents for copy in known):
        return "changed"
    together = sum(copy.hashed for copy in known if copy.is_shared)
    hashed = ((together if copy.is_shared else copy.hashed, min(SAMPLE, copy.files)) for copy in known)
    return "shown" if all(number >= wanted for number, wanted in hashed) else None


def _sequence(started: RunStarted) -> str | None:
    if started.follows is None:
        return None
    lists = {work.sha256: work for work in map(packaged, PACKAGED)}
    work = lists.get(started.follows.sequence)
    return "another" if work is None or any(unlike(work, started)) else started.follows.sequence


def _worker_class(run: Collected) -> str:
    each = run.started.config.get("accelerators_per_worker")
    if each == 1 or (each is None and run.workers and all(joined.ranks == 1 for joined in run.workers.values())):
        return "accelerator"
    present: dict[str, float] = {}
    for one in sorted(run.work_log.presences, key=lambda one: one.joined):
        machine = run.workers[one.worker].machine
        host = str(machine.get("boot_id") or machine.get("host") or one.host)
        if one.joined < present.get(host, 0.0):
            return "another"  # two workers share a node
        present[host] = math.inf if one.left is None else one.left
    return "node" if each is None else "another"


_USUAL = {"searcher": "morphism", "hpo": "tpe"}
"""Assumed choices of a configuration without these options. Rules on options report the missing options."""
_OF_THE_FIRST_LINE = (
    "is_simulated", "images", "start_network", "duration_seconds", "warmup_seconds", "window_seconds", "space_differences",
    "proposal_rules", "seed_source", "contents", "is_system_named", "sequence",
)  # fmt: skip


def _lines(run: Collected, searcher: str) -> dict[tuple[str, str], int]:
    shown = {(fact, ""): 1 for fact in _OF_THE_FIRST_LINE}
    return shown | run.lines | {("searchers", searcher): 1}


def _announcement(config: Mapping[str, Any]) -> str | None:
    named = config.get("announcement")
    return named if isinstance(named, str) and re.fullmatch("[0-9a-f]{64}", named) else None


def _images(started: RunStarted) -> dict[str, Any]:
    """Return the data set of the first line. If its name differs from the configured one, the name states both."""
    recorded_name, configured = started.dataset.get("name"), chosen(started.config, "dataset")
    differing = {} if configured in (None, recorded_name) else {"name": f"{recorded_name}, configured as {configured}"}
    return {"noise": 0.0, **started.dataset, **differing}


def _name_of(network: Architecture, images: Mapping[str, Any]) -> str:
    """Return the name of a built-in starting network for such images, or 'another'."""
    made_for = tuple(images.get(name) for name in ("image", "width", "channels", "classes"))
    names = (*STARTS, *DETECTORS)
    return next((name for name in names if _fingerprint(name, *made_for) == network.fingerprint), "another")


@cache
def _fingerprint(name: str, image: Any, width: Any, channels: Any, classes: Any) -> str | None:
    try:
        return start_of(name, image=image, width=width, channels=channels, classes=classes).fingerprint
    except (IllegalGraph, TypeError):  # No network exists for such images, or a value is no number.
        return None


def _space_differences(started: RunStarted, network: Architecture) -> frozenset[str] | None:
    """Entries of the recorded search space that differ from that of the first line's options. None if the line lacks some."""
    config, shape = started.config, started.shape
    try:
        if shape is None or "space" not in config:
            return None
        images, step = started.dataset["training_images"], step_of_release(config["space"])
        space = planned(config, network, images, shape.ranks, shape.memory_bytes, step)
        return frozenset(_differing(recorded(space), config["space"], "space."))
    except ValueError as error:  # No space exists for these options.
        return frozenset({str(error)})
    except (KeyError, TypeError):
        return None


def _differing(expected: Mapping[str, Any], actual: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, value in expected.items():
        other = actual[name]
        if isinstance(value, dict):
            yield from _differing(value, other, f"{prefix}{name}.")
        elif other != value:
            yield f"{prefix}{name} is {other}, expected {value}"


def _beside_master(run: Collected, inside: Window) -> frozenset[str] | None:
    """Return the drivers' hosts on which a worker worked inside the window. None if a description has no host."""
    drivers = [run.started.machine, *(resume.machine for resume in run.resumes)]
    columns = run.work_log.intervals
    at_work = np.unique(columns.worker[share_inside(columns.start, columns.end, inside) > 0]).tolist()
    workers = [run.workers[number].machine for number in at_work]
    if not all(one.get("host") for one in (*drivers, *workers)):
        return None
    return frozenset(str(one["host"]) for one in workers if any(_is_one_host(one, driver) for driver in drivers))


def _is_one_host(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Compare two hosts by boot id, which all containers of a host share, or by name if a boot id is unknown."""
    boots = one.get("boot_id"), other.get("boot_id")
    return boots[0] == boots[1] if all(boots) else one["host"] == other["host"]
