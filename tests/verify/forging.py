"""How journals are forged: by an insider, who knows the format, edits what goes with a change and chains the lines anew.

Each kind is a function of the lines (as JSON values, without chains) that changes them in place at a place drawn at random. It
sees to what a reader looks at first (order of time, numbers, positions, sums within the data set), so that what finds it is the
law that it breaks and no carelessness of the forger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from aiperf.journal.first_line import config_hash
from tests.journal.forged import Line

Edit = Callable[[list[Line], Random], None]


@dataclass(frozen=True, slots=True)
class Forgery:
    """One kind."""

    edit: Edit
    found_by: frozenset[str]
    """Checks of which at least one finds it, wherever it was done."""


Kinds = dict[str, Forgery]


def naming(kinds: Kinds) -> Callable[..., Callable[[Edit], Edit]]:
    """A decorator that puts a kind among these: its name, and the checks that find it."""

    def kind(name: str, *found_by: str) -> Callable[[Edit], Edit]:
        def named(edit: Edit) -> Edit:
            kinds[name] = Forgery(edit, frozenset(found_by))
            return edit

        return named

    return kind


def places(lines: list[Line], event: str, **fields: Any) -> list[int]:
    """Indexes of the lines of this event with these fields."""
    return [
        place
        for place, line in enumerate(lines)
        if line["event"] == event and all(line.get(name) == value for name, value in fields.items())
    ]


def drawn(lines: list[Line], rng: Random, event: str, **fields: Any) -> int:
    """One of them."""
    return rng.choice(places(lines, event, **fields))


def works(lines: list[Line]) -> list[int]:
    """Indexes of the lines that end an interval of some images."""
    return [place for place, line in enumerate(lines) if (work := work_of(line)) and work["training_images"]]


def work_of(line: Line) -> dict[str, Any] | None:
    """The interval of a line."""
    if line["event"] == "Progress":
        return line
    return line.get("interval") if line["event"] == "EpochFinished" else None


def of_trial(lines: list[Line], number: int) -> Iterator[Line]:
    """All lines that name a trial, its request and proposal among them."""
    for line in lines:
        if line.get("trial") == number or (line["event"] in PROPOSING and line["number"] == number):
            yield line


PROPOSING = ("ProposalRequested", "TrialProposed", "TrialRejected")


def reposition(lines: list[Line]) -> None:
    """Positions of proposals are the lines before their request: whoever adds or takes lines sets them right."""
    positions: dict[int, int] = {}
    for place, line in enumerate(lines):
        if line["event"] == "ProposalRequested":
            positions[line["number"]] = line["position"] = place
        elif line["event"] == "TrialProposed":
            line["position"] = positions.get(line["number"], line["position"])


def configure(lines: list[Line], change: Callable[[dict[str, Any]], object]) -> None:
    """Another configuration, with its hash."""
    change(lines[0]["config"])
    lines[0]["config_hash"] = config_hash(lines[0]["config"])


def shift(line: Line, seconds: float) -> None:
    """A line and its interval, at another time."""
    line["at"] += seconds
    work = work_of(line)
    if work is not None:
        work["start"] += seconds
        work["end"] = work["end"] + seconds if work["end"] != line["at"] - seconds else line["at"]


def result_of(lines: list[Line], trial: int) -> Line:
    """The end of a trial."""
    return lines[places(lines, "TrialFinished", trial=trial)[0]]


def best_again(lines: list[Line], trial: int) -> None:
    """The end of a trial says the best of its epochs, and tells the search what its curve gives, as the rules have it."""
    for place in places(lines, "TrialFinished", trial=trial):
        curve = [
            line["accuracy"] for line in lines[:place] if line["event"] == "EpochFinished" and line["trial"] == trial
        ]
        first = lines[0]["config"]["schedule"]["epochs"][0]
        assert first < 5, "with fewer than 5 epochs the best of them is told"
        lines[place].update(accuracy=max(curve), reported_accuracy=max(curve[:first]))
