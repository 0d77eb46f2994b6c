"""The lists of bad inputs, as data: a line an input, `name | command | answer`.

`command` is what is typed after `python -m aiperf`, as a shell splits it; `@NAME` before it has a maker fill the folder first,
and `NAME=value` in capitals, after that, is set in its environment.
`answer` holds the words that must stand in what is printed, several parted by ` + `; `status N` among them says with which exit
status the command ends, where that is not 2 (it could not be done). `#` begins a comment, which heads a group.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
COULD_NOT = 2
"""The exit status of what could not be done."""


@dataclass(frozen=True, slots=True)
class BadInput:
    """One input, and what must be answered."""

    name: str
    words: tuple[str, ...]
    answer: tuple[str, ...]
    status: int = COULD_NOT
    maker: str | None = None
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the command answered, and what it left."""

    status: int | None
    """None: it had not ended within the limit."""
    said: str
    left: tuple[str, ...] = ()
    """Files that were not there before, or that are others now."""
    processes: tuple[str, ...] = ()
    """That outlived it."""


def bad_inputs() -> list[BadInput]:
    """Those of all lists here."""
    return [each for path in sorted(FOLDER.glob("*.txt")) for each in of_list(path.read_text("utf-8"), path.name)]


def of_list(text: str, name: str) -> list[BadInput]:
    """Those of one list."""
    return [
        _of_line(line, f"{name}:{number}")
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]


def _of_line(line: str, place: str) -> BadInput:
    parts = [part.strip() for part in line.split(" | ")]
    assert len(parts) == 3, f"a line is `name | command | answer`, but found {line!r} at {place}"
    name, command, answers = parts
    words = shlex.split(command)
    maker = words.pop(0).removeprefix("@") if command.startswith("@") else None
    environment = []
    while words and re.match(r"[A-Z][A-Z_]*=", words[0]):
        variable, _, value = words.pop(0).partition("=")
        environment.append((variable, value))
    answer = tuple(each.strip() for each in answers.split(" + "))
    statuses = [int(found[1]) for each in answer if (found := re.fullmatch(r"status (\d+)", each))]
    told = tuple(each for each in answer if not re.fullmatch(r"status \d+", each))
    assert told and all(told), f"an answer holds words, but found {line!r} at {place}"
    return BadInput(name, tuple(words), told, statuses[0] if statuses else COULD_NOT, maker, tuple(environment))


def faults(bad: BadInput, answer: Answer) -> list[str]:
    """What is wrong with an answer; nothing where it is as it must be."""
    if answer.status is None:
        return ["it hung"]
    found = []
    if answer.status != bad.status or answer.status == 0:
        found.append(f"it ended with status {answer.status}, not {bad.status}")
    for words in ("Traceback (most recent call last)", "Error executing job", "HYDRA_FULL_ERROR"):
        if words in answer.said:
            found.append(f"it said {words!r}")
    found += [f"it did not say {words!r}" for words in bad.answer if words not in answer.said]
    found += [f"it left {name}" for name in answer.left]
    found += [f"it left a process: {command}" for command in answer.processes]
    return found
