"""Where the accelerators' time went, line by line; the lines add up to the whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aiperf.books import Books
from aiperf.score import Window, capacity, share_inside


@dataclass(frozen=True, slots=True)
class Line:
    """Accelerator seconds of one kind."""

    name: str
    seconds: float
    share: float
    """Of the whole."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """All accelerator time of a window: the most accelerators ever present at once × its length."""

    whole_seconds: float
    lines: tuple[Line, ...]


_MEANINGS = {
    "training": "forward, backward and update steps",
    "communication": "exchange of gradients that the backward pass did not hide",
    "validation": "validation steps",
    "input": "waiting for images",
    "checkpoint": "training stood still for a checkpoint",
    "loop": "between steps: everything else while a trial was trained",
    "start": "building a trial's network and bringing its weights there",
    "compile": "compiling, and measuring whether it pays",
    "gap": "a worker was there and had no trial, or had just been given one",
    "absent": "not yet there, lost, or the driver was down",
}


def ledger(books: Books, inside: Window) -> Ledger:
    """The lines of a window."""
    columns = books.intervals
    start, end = np.array(columns.start), np.array(columns.end)
    weight = share_inside(start, end, inside) * np.array(columns.ranks, dtype=np.float64)

    def seconds(amount: Iterable[float]) -> float:
        return math.fsum((np.array(amount) * weight).tolist())

    busy, communication, validation = map(seconds, (columns.busy, columns.communication, columns.validation))
    input_, checkpoint = seconds(columns.input), seconds(columns.checkpoint)
    trained = math.fsum(((end - start) * weight).tolist())
    ranks = {presence.worker: presence.ranks for presence in books.presences}
    started = compiled = 0.0
    for preparation in books.preparations:
        length = preparation.at - preparation.started
        overlap = min(preparation.at, inside.end) - max(preparation.started, inside.start)
        if length > 0 and overlap > 0:
            part = overlap / length * ranks[preparation.worker]
            started += min(preparation.start_seconds, length) * part
            compiled += min(preparation.compile_seconds, max(0.0, length - preparation.start_seconds)) * part
    whole = capacity(books) * inside.seconds
    present = math.fsum(
        presence.ranks
        * max(
            0.0,
            min(math.inf if presence.left is None else presence.left, inside.end) - max(presence.joined, inside.start),
        )
        for presence in books.presences
    )
    amounts = {
        "training": busy - communication - validation,
        "communication": communication,
        "validation": validation,
        "input": input_,
        "checkpoint": checkpoint,
        "loop": trained - busy - input_ - checkpoint,
        "start": started,
        "compile": compiled,
        "gap": present - trained - started - compiled,
        "absent": whole - present,
    }
    return Ledger(
        whole,
        tuple(
            Line(name, amount, amount / whole if whole > 0 else 0.0, _MEANINGS[name])
            for name, amount in amounts.items()
        ),
    )
