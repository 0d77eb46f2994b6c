"""Forgeries that the journal alone does not reveal, since its lines are still consistent, each with the evidence that does.

They document the limits of `verify`. A forgery that a later check detects moves to `forgeries_of_*.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.builders.forged_journal import Line
from tests.verify.forging import Edit, configure, of_trial, places, reposition, shift, update_result, work_of


@dataclass(frozen=True, slots=True)
class Unseen:
    """One kind of undetected forgery."""

    edit: Edit
    why: str
    """Reason why the journal does not reveal it."""
    shown_by: str
    """Evidence: 'announcement' before the run, 'witness' of the journal's last hash or signature, or 'nothing'."""


KINDS: dict[str, Unseen] = {}


def kind(name: str, why: str, shown_by: str) -> Callable[[Edit], Edit]:
    """Return a decorator that registers a kind with the reason why it is not detected."""

    def named(edit: Edit) -> Edit:
        KINDS[name] = Unseen(edit, why, shown_by)
        return edit

    return named


@kind("the last result raised along the grid", "no later decision looks at it", "witness")
def last_result_raised(lines: list[Line], rng: Random) -> None:
    place = places(lines, "EpochFinished")[-1]
    images = lines[0]["dataset"]["validation_images"]
    lines[place]["accuracy"] += rng.randint(1, 20) / images
    lines[place]["accuracy"] = round(lines[place]["accuracy"] * images) / images
    update_result(lines, lines[place]["trial"])


@kind("a validation loss changed within what its accuracy allows", "only the end of a trial looks at it", "witness")
def loss_changed(lines: list[Line], rng: Random) -> None:
    trial = lines[places(lines, "TrialFinished")[-1]]["trial"]
    line = lines[places(lines, "EpochFinished", trial=trial)[0]]
    line["validation_loss"] = max(line["validation_loss"] * 0.98, (1 - line["accuracy"]) * math.log(2) * 1.01)


@kind("momentum, weight decay or label smoothing changed", "nothing that is recorded follows from them", "announcement")
def optimiser_changed(lines: list[Line], rng: Random) -> None:
    name = rng.choice(["momentum", "weight_decay", "label_smoothing"])
    configure(lines, lambda config: config["trainer"].update({name: config["trainer"][name] * 0.9}))


@kind("the warm-up shortened to where no worker trained", "no message was due at its end", "announcement")
def warmup_shortened(lines: list[Line], rng: Random) -> None:
    lines[0]["warmup_seconds"] = seconds = rng.uniform(0.0, 9.0)
    configure(lines, lambda config: config["schedule"].update(warmup_seconds=seconds))


@kind("busy time raised within its intervals", "it is the worker's own report", "witness")
def busier(lines: list[Line], rng: Random) -> None:
    for line in lines:
        work = work_of(line)
        if work is not None:
            left = (
                work["end"] - work["start"] - work["busy_seconds"] - work["input_seconds"] - work["checkpoint_seconds"]
            )
            work["busy_seconds"] += max(0.0, left) * 0.9


@kind("the beginning moved to another day", "times are counted from it", "witness")
def beginning_moved(lines: list[Line], rng: Random) -> None:
    lines[0]["started_unix"] -= rng.uniform(1.0, 1e6)


@kind("the driver's downtime shortened, with the boot's clock", "both clocks are the forger's", "witness")
def downtime_shortened(lines: list[Line], rng: Random) -> None:
    (resume,) = places(lines, "RunResumed")
    seconds = rng.uniform(5.0, lines[resume]["down_seconds"] - 1.0)
    for line in lines[resume:]:
        shift(line, -seconds)
    lines[resume]["down_seconds"] = lines[resume]["at"] - lines[resume - 1]["at"]
    lines[resume]["boot_seconds"] = lines[0]["boot_seconds"] + lines[resume]["at"]
    duration = lines[0]["duration_seconds"] - seconds
    lines[0]["duration_seconds"] = duration
    configure(lines, lambda config: config["schedule"].update(duration_seconds=duration))


@kind("a resume recorded as the loss of a worker", "a worker may be lost at any time, and another one joins", "witness")
def resume_hidden(lines: list[Line], rng: Random) -> None:
    (resume,) = places(lines, "RunResumed")
    worker = next(line["worker"] for line in reversed(lines[:resume]) if "worker" in line)
    at = lines[resume]["at"]
    lines[resume] = {"event": "WorkerLost", "at": at, "worker": worker, "cause": "reported", "reason": "gone"}


@kind("a lost attempt recorded as a slow start", "no rule determines the duration of a start", "witness")
def loss_hidden(lines: list[Line], rng: Random) -> None:
    lost = places(lines, "TrialLost")[0]
    trial, attempt = lines[lost]["trial"], lines[lost]["attempt"]
    restart = places(lines, "TrialStarted", trial=trial, attempt=attempt + 1)[0]
    first = places(lines, "TrialPrepared", trial=trial, attempt=attempt)[0]
    for line in of_trial(lines[restart + 1 :], trial):
        if "attempt" in line:
            line["attempt"] -= 1
    for place in sorted((first, lost, restart), reverse=True):
        del lines[place]
    reposition(lines)


@kind("all machines exchanged everywhere", "the driver's record is the only source", "witness")
def machines_exchanged(lines: list[Line], rng: Random) -> None:
    """With another processor name, different proposals also count as not reproducible on this machine."""
    for line in lines:
        for part in (line, line.get("machine") or {}):
            for name in ("cpu_model", "device"):
                if part.get(name):
                    part[name] = "AMD EPYC 9654 96-Core Processor"


@kind("the processor's measured peak raised", "it is the worker's own measurement", "witness")
def peak_raised(lines: list[Line], rng: Random) -> None:
    for place in places(lines, "WorkerJoined"):
        measured = lines[place]["machine"]["measured_matmul_flops"]
        for name in measured:
            measured[name] *= 3


@kind("the precision of all attempts changed", "the choice is the worker's own report", "witness")
def precision_changed(lines: list[Line], rng: Random) -> None:
    for place in places(lines, "TrialPrepared"):
        lines[place]["precision"] = "fp32"


@kind("the data set's fingerprint changed everywhere", "it can be computed only from the images", "witness")
def data_exchanged(lines: list[Line], rng: Random) -> None:
    other = f"{rng.getrandbits(256):064x}"
    lines[0]["dataset"]["fingerprint"] = other
    for place in places(lines, "NodeChecked"):
        lines[place]["readings"]["data"]["facts"]["fingerprint"] = other


@kind(
    "cut short, and declared that short from the beginning",
    "a length is what the first line declares",
    "announcement",
)
def declared_shorter(lines: list[Line], rng: Random) -> None:
    ends = [place for place in places(lines, "TrialFinished") if place > len(lines) // 2]
    place = rng.choice(ends[:-1])
    # the end replaces the decisions of the same turn
    duration = lines[place]["at"]
    lines[place + 1 :] = [{"event": "RunEnded", "at": duration, "reason": "duration"}]
    lines[0]["duration_seconds"] = duration
    configure(lines, lambda config: config["schedule"].update(duration_seconds=duration))


@kind("another's journal under a new name", "the first line is the only source of the name", "witness")
def renamed(lines: list[Line], rng: Random) -> None:
    lines[0]["run"] = "20990101-000000-mine"


@kind("a node left out by invented readings", "the node's own probe is the only source of its readings", "witness")
def node_excluded(lines: list[Line], rng: Random) -> None:
    place = places(lines, "NodeChecked")[0]
    lines[place]["kind"] = "a node"
    readings = {**lines[place]["readings"], "memory": {"probe": "memory", "unit": "B/s", "failed": "it hung"}}
    slow = {**lines[place], "readings": readings, "address": "10.9.9.9", "host": "slow", "excluded": True}
    slow["faults"] = [*slow["faults"], "memory: it hung"]
    lines.insert(place + 1, slow)
    reposition(lines)
