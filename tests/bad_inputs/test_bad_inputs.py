"""Whatever is typed wrongly is answered: by words that say what is wrong, with a status that is not 0, and nothing is left.

Each input is carried out by the real command in a process of its own, in an empty folder. In `make test` that process is a fork
of one which has imported the command line already (`server.py`): 150 Pythons that each import it anew would take minutes of two
cores. The fork leaves out what importing does in each (a line that fails only in a fresh interpreter, an import that is missing
without another before it), the interpreter's own start and its exit handlers. So a few lines that the day draws are run as
whole processes besides, and all of them in a slow test. The lines that cost most (a plan that is made, a list of runs)
are slow ones too, where they only vary others by another value.
"""

from __future__ import annotations

import datetime
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bad_inputs.lines import Answer, BadInput, bad_inputs, faults, of_list
from tests.bad_inputs.makers import makers

INPUTS = bad_inputs()
WHOLE = (sys.executable, "-m", "aiperf")
BY_DAY = 3
"""Inputs that are run as whole processes in each `make test`."""


class Server:
    """Carries inputs out."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bad_inputs.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, bad: BadInput, place: Path, program: Sequence[str] | None = None) -> Answer:
        """What the command answers to one, in a folder of its own in `place`; `program`: in the place of a fork."""
        folder = place / "here"
        folder.mkdir()
        if bad.maker is not None:
            makers()[bad.maker](folder)
        before = _listing(place)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, bad.words, str(folder), bad.environment]) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        left = sorted({name for name, _ in _listing(place) ^ before} - {"here.said"})
        return Answer(told["status"], told["said"], tuple(left), tuple(told["processes"]))

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()


def _listing(place: Path) -> set[tuple[str, tuple[int, int]]]:
    found = ((path, path.lstat()) for path in place.rglob("*"))
    return {
        (str(path.relative_to(place)), (seen.st_mode, seen.st_size if path.is_file() else 0)) for path, seen in found
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def _is_dear(bad: BadInput) -> bool:
    return bad.name.startswith("dry run ") or bad.words[:1] == ("rank",)


@pytest.mark.parametrize(
    "bad", [pytest.param(bad, id=bad.name, marks=[pytest.mark.slow] * _is_dear(bad)) for bad in INPUTS]
)
def test_a_bad_input_is_answered_with_words_and_leaves_nothing(server: Server, tmp_path: Path, bad: BadInput) -> None:
    answer = server.answer(bad, tmp_path)

    assert faults(bad, answer) == [], answer.said


def test_a_few_that_the_day_draws_are_answered_so_by_a_whole_process(server: Server, tmp_path: Path) -> None:
    for number, bad in enumerate(random.Random(datetime.date.today().toordinal()).sample(INPUTS, BY_DAY)):
        place = tmp_path / str(number)
        place.mkdir()

        answer = server.answer(bad, place, WHOLE)

        assert faults(bad, answer) == [], (bad.name, answer.said)


@pytest.mark.slow
@pytest.mark.parametrize("bad", INPUTS, ids=lambda bad: bad.name)
def test_each_is_answered_so_by_a_whole_process(server: Server, tmp_path: Path, bad: BadInput) -> None:
    answer = server.answer(bad, tmp_path, WHOLE)

    assert faults(bad, answer) == [], answer.said


def test_every_input_has_a_name_of_its_own_and_a_maker_that_there_is() -> None:
    names = [bad.name for bad in INPUTS]

    assert sorted(set(names)) == sorted(names)
    assert {bad.maker for bad in INPUTS if bad.maker is not None} <= makers().keys()


GOOD = Answer(2, "aiperf: there is no option 'foo'")
BAD = BadInput("an unknown option", ("+foo=1",), ("there is no option 'foo'",))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (replace(GOOD, status=None), "it hung"),
        (replace(GOOD, status=0), "status 0"),
        (replace(GOOD, status=1), "status 1, not 2"),
        (replace(GOOD, said="Traceback (most recent call last):\nthere is no option 'foo'"), "it said 'Traceback"),
        (replace(GOOD, said="no"), "it did not say"),
        (replace(GOOD, left=("here/runs",)), "it left here/runs"),
        (replace(GOOD, processes=("gcs_server",)), "it left a process: gcs_server"),
    ],
)
def test_whatever_an_answer_must_not_be_is_found(answer: Answer, fault: str) -> None:
    assert faults(BAD, GOOD) == []

    assert any(fault in each for each in faults(BAD, answer))


def test_what_a_command_leaves_and_what_outlives_it_is_seen(server: Server, tmp_path: Path) -> None:
    leaving = BadInput("", ("mkdir runs; setsid sleep 600 & exit 3",), ("",), 3)

    answer = server.answer(leaving, tmp_path, ("sh", "-c"))

    assert answer == Answer(3, "", ("here/runs",), ("sleep 600 ",))


def test_a_line_of_a_list_is_read_as_a_shell_reads_it() -> None:
    (bad,) = of_list(
        "# a group\n\nspaces | @a_text_file HERE='c d' name='a b' | law + offence + status 1\n", "list.txt"
    )

    assert bad == BadInput("spaces", ("name=a b",), ("law", "offence"), 1, "a_text_file", (("HERE", "c d"),))


def test_the_list_holds_the_many_ways_in_which_a_first_hour_goes_wrong() -> None:
    assert len(INPUTS) >= 150
