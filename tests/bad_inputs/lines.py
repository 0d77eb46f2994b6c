"""Lists of bad inputs. Each line is one input: `name | command | answer`.

`command`: words after `python -m aiperf`, as a shell splits them. `@NAME` before them calls a maker, which fills the folder.
`NAME=value` in capitals after that sets a variable of the environment. `<CR>`, `<NBSP>`, `<BOM>` and `<DIGITS>`: `written_out`.
`answer`: texts that the output must contain, separated by ` + `. `status N` is the exit status, default: 2.
`#` begins a comment.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
COULD_NOT = 2
"""Exit status of a command that could not be executed."""


@dataclass(frozen=True, slots=True)
class BadInput:
    """One input with its expected answer."""

    name: str
    words: tuple[str, ...]
    answer: tuple[str, ...]
    status: int = COULD_NOT
    maker: str | None = None
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Output of a command, and the files and processes that it left."""

    status: int | None
    """None if the command exceeded the time limit."""
    output: str
    left: tuple[str, ...] = ()
    """New and changed files."""
    processes: tuple[str, ...] = ()
    """Processes that still ran after the end of the command."""


def bad_inputs() -> list[BadInput]:
    """Return the inputs of all lists in this folder."""
    return [each for path in sorted(FOLDER.glob("*.txt")) for each in of_list(path.read_text("utf-8"), path.name)]


def of_list(text: str, name: str) -> list[BadInput]:
    """Return the inputs of one list."""
    return [
        _of_line(line, f"{name}:{number}")
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]


def _of_line(line: str, place: str) -> BadInput:
    parts = [part.strip() for part in line.split(" | ")]
    assert len(parts) == 3, f"a line is `name | command | answer`, but found {line!r} at {place}"
    name, command, answers = parts
    words = [written_out(word) for word in shlex.split(command)]
    maker = words.pop(0).removeprefix("@") if command.startswith("@") else None
    environment = []
    while words and re.match(r"[A-Z][A-Z_]*=", words[0]):
        variable, _, value = words.pop(0).partition("=")
        environment.append((variable, value))
    answer = tuple(each.strip() for each in answers.split(" + "))
    statuses = [int(found[1]) for each in answer if (found := re.fullmatch(r"status (\d+)", each))]
    texts = tuple(each for each in answer if not re.fullmatch(r"status \d+", each))
    assert texts and all(texts), f"an answer has texts, but found {line!r} at {place}"
    return BadInput(name, tuple(words), texts, statuses[0] if statuses else COULD_NOT, maker, tuple(environment))


def written_out(word: str) -> str:
    for mark, text in (("<CR>", "\r"), ("<NBSP>", "\u00a0"), ("<BOM>", "\ufeff"), ("<DIGITS>", 4301 * "9")):
        word = word.replace(mark, text)
    return word


def faults_of(bad: BadInput, answer: Answer) -> list[str]:
    """Return the faults of an answer."""
    if answer.status is None:
        return ["it hung"]
    faults = []
    if answer.status != bad.status or answer.status == 0:
        faults.append(f"it ended with status {answer.status}, not {bad.status}")
    for words in ("Traceback (most recent call last)", "Error executing job", "HYDRA_FULL_ERROR"):
        if words in answer.output:
            faults.append(f"it printed {words!r}")
    faults += [f"it did not print {words!r}" for words in bad.answer if words not in answer.output]
    faults += [f"it left {name}" for name in answer.left]
    faults += [f"it left a process: {command}" for command in answer.processes]
    return faults
