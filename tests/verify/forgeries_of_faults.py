"""Forgeries of faults in a simulated run: rejected proposals, failed trials, lost workers."""

from __future__ import annotations

import copy
from random import Random

from tests.builders.forged_journal import Line
from tests.verify.forging import PROPOSING, Kinds, drawn, naming, of_trial, reposition

KINDS: Kinds = {}
kind = naming(KINDS)


def renumber(lines: list[Line], removed: int) -> None:
    """Close the gap in the numbers after a removed proposal."""
    for line in lines:
        for name in ("number", "trial", "parent"):
            if line.get(name) is not None and line[name] > removed:
                line[name] -= 1
    reposition(lines)


@kind("a rejected proposal taken out", "decisions")
def rejection_taken_out(lines: list[Line], rng: Random) -> None:
    removed = lines[drawn(lines, rng, "TrialRejected")]["number"]
    lines[:] = [line for line in lines if not (line["event"] in PROPOSING and line["number"] == removed)]
    renumber(lines, removed)


@kind("a failed trial taken out", "decisions", "reading", "states")
def failure_taken_out(lines: list[Line], rng: Random) -> None:
    removed = lines[drawn(lines, rng, "TrialFailed")]["trial"]
    taken = [id(line) for line in of_trial(lines, removed)]
    lines[:] = [line for line in lines if id(line) not in taken]
    renumber(lines, removed)


@kind("a failed trial recorded as finished", "results", "decisions", "reading")
def failure_recorded_as_finished(lines: list[Line], rng: Random) -> None:
    place = drawn(lines, rng, "TrialFailed")
    line = lines[place]
    curve = [one["accuracy"] for one in of_trial(lines[:place], line["trial"]) if one["event"] == "EpochFinished"]
    attempt = max(one["attempt"] for one in of_trial(lines[:place], line["trial"]) if "attempt" in one)
    lines[place] = {
        "event": "TrialFinished",
        "at": line["at"],
        "trial": line["trial"],
        "attempt": attempt,
        "reason": "epochs",
        "accuracy": max(curve, default=0.0),
        "reported_accuracy": max(curve, default=0.0),
    }


@kind("a rejection recorded as a proposed trial", "graphs", "reading", "decisions")
def rejection_undone(lines: list[Line], rng: Random) -> None:
    """The searcher's rejection is replaced by another trial's proposal."""
    place = drawn(lines, rng, "TrialRejected", by="searcher")
    request = next(
        line for line in lines if line["event"] == "ProposalRequested" and line["number"] == lines[place]["number"]
    )
    proposal = copy.deepcopy(lines[drawn(lines, rng, "TrialProposed")])
    proposal.update({name: request[name] for name in ("number", "position", "seed")}, at=lines[place]["at"])
    lines[place] = proposal


@kind("the loss of a worker taken out", "reading", "decisions", "states")
def worker_loss_taken_out(lines: list[Line], rng: Random) -> None:
    del lines[drawn(lines, rng, "WorkerLost")]
    reposition(lines)


@kind("the loss of an attempt recorded as the worker's", "decisions", "reading", "states")
def blame_moved(lines: list[Line], rng: Random) -> None:
    place = drawn(lines, rng, "TrialLost")
    lost = lines[place]
    started = [one for one in of_trial(lines[:place], lost["trial"]) if one["event"] == "TrialStarted"][-1]
    lines[place] = {
        "event": "WorkerLost",
        "at": lost["at"],
        "worker": started["worker"],
        "cause": "reported",
        "reason": "",
    }


@kind("called real", "images")
def called_real(lines: list[Line], rng: Random) -> None:
    """A simulated run is recorded as a real one."""
    lines[0]["simulated"] = False
