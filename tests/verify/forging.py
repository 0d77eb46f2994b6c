"""Forging of journals by an insider, who knows the format, edits related values too and computes new hash chains.

Each kind is a function of the lines (JSON values without chains) that changes them in place at a random place. It keeps the
properties that a reader checks first (order of times, numbers, positions, sums within the data set). It is then detected by the
broken law and not by a mistake of the forger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from aiperf.journal.first_line import config_hash
from tests.builders.forged_journal import Line

Edit = Callable[[list[Line], Random], None]


@dataclass(frozen=True, slots=True)
class Forgery:
    """One kind of forgery."""

    edit: Edit
    found_by: frozenset[str]
    """Checks. At least one of them detects the forgery, at every place."""


Kinds = dict[str, Forgery]


def naming(kinds: Kinds) -> Callable[..., Callable[[Edit], Edit]]:
    """Return a decorator that adds a kind with its name and the checks that detect it."""

    def kind(name: str, *found_by: str) -> Callable[[Edit], Edit]:
        def named(edit: Edit) -> Edit:
            kinds[name] = Forgery(edit, frozenset(found_by))
            return edit

        return named

    return kind


def places(lines: list[Line], event: str, **fields: Any) -> list[int]:
    """Return the indexes of the lines of this event with these fields."""
    return [
        place
        for place, line in enumerate(lines)
        if line["event"] == event and all(line.get(name) == value for name, value in fields.items())
    ]


def drawn(lines: list[Line], rng: Random, event: str, **fields: Any) -> int:
    """Return a random index of a line of this event with these fields."""
    return rng.choice(places(lines, event, **fields))


def works(lines: list[Line]) -> list[int]:
    """Return the indexes of the lines that end an interval with training images."""
    return [place for place, line in enumerate(lines) if (work := work_of(line)) and work["training_images"]]


def work_of(line: Line) -> dict[str, Any] | None:
    """Return the interval of a line."""
    if line["event"] == "Progress":
        return line
    return line.get("interval") if line["event"] == "EpochFinished" else None


def of_trial(lines: list[Line], number: int) -> Iterator[Line]:
    """Yield all lines of a trial, including its request and proposal."""
    for line in lines:
        if line.get("trial") == number or (line["event"] in PROPOSING and line["number"] == number):
            yield line


PROPOSING = ("ProposalRequested", "TrialProposed", "TrialRejected")


def reposition(lines: list[Line]) -> None:
    """Correct the positions of proposals after lines were added or removed: the number of lines before the request."""
    positions: dict[int, int] = {}
    for place, line in enumerate(lines):
        if line["event"] == "ProposalRequested":
            positions[line["number"]] = line["position"] = place
        elif line["event"] == "TrialProposed":
            line["position"] = positions.get(line["number"], line["position"])


def configure(lines: list[Line], change: Callable[[dict[str, Any]], object]) -> None:
    """Change the configuration and its hash."""
    change(lines[0]["config"])
    lines[0]["config_hash"] = config_hash(lines[0]["config"])


def shift(line: Line, seconds: float) -> None:
    """Move a line and its interval in time."""
    line["at"] += seconds
    work = work_of(line)
    if work is not None:
        work["start"] += seconds
        work["end"] = work["end"] + seconds if work["end"] != line["at"] - seconds else line["at"]


def result_of(lines: list[Line], trial: int) -> Line:
    """Return the line of a trial's end."""
    return lines[places(lines, "TrialFinished", trial=trial)[0]]


def update_result(lines: list[Line], trial: int) -> None:
    """Set a trial's best and reported accuracy from its epochs, by the rules."""
    for place in places(lines, "TrialFinished", trial=trial):
        curve = [
            line["accuracy"] for line in lines[:place] if line["event"] == "EpochFinished" and line["trial"] == trial
        ]
        first = lines[0]["config"]["schedule"]["epochs"][0]
        assert first < 5, "the reported accuracy of fewer than 5 epochs is the best of them"
        lines[place].update(accuracy=max(curve), reported_accuracy=max(curve[:first]))
