"""Each wrong input gives a message with the fault and a status other than 0, and leaves no files.

The real command executes each input in a new process, in an empty folder. In `make test` that process is a fork of a process
that has imported the command line (`server.py`), since 150 imports would take minutes of two cores. A fork does not test the
imports, the start of the interpreter and its exit handlers. So a few inputs, drawn by the date, also run in a new interpreter,
and all of them in a slow test. Expensive inputs (a plan, a list of runs) that only repeat others with another value have only
this one.
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

from tests.bad_inputs.lines import Answer, BadInput, bad_inputs, faults_of, of_list
from tests.bad_inputs.makers import makers

INPUTS = bad_inputs()
WHOLE = (sys.executable, "-m", "aiperf")
BY_DAY = 3
"""Number of inputs that each `make test` runs in a new interpreter."""


class Server:
    """Client of the process that executes inputs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bad_inputs.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, bad: BadInput, place: Path, program: Sequence[str] | None = None) -> Answer:
        """Execute one input in a new folder in `place`. `program`: replaces the fork."""
        folder = place / "folder"
        folder.mkdir(exist_ok=True)  # a test may have filled it
        if bad.maker is not None:
            makers()[bad.maker](folder)
        before = _listing(place)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, bad.words, str(folder), bad.environment]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        left = sorted({name for name, _ in _listing(place) ^ before} - {"folder.output"})
        return Answer(answer["status"], answer["output"], tuple(left), tuple(answer["processes"]))

    def close(self) -> None:
        """End the process."""
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


def _is_slow(bad: BadInput) -> bool:
    return bad.name.startswith("dry run ") or bad.words[:1] == ("rank",)


@pytest.mark.parametrize("bad", [bad for bad in INPUTS if not _is_slow(bad)], ids=lambda bad: bad.name)
def test_a_bad_input_gives_its_message_and_leaves_no_files(server: Server, tmp_path: Path, bad: BadInput) -> None:
    answer = server.answer(bad, tmp_path)

    assert faults_of(bad, answer) == [], answer.output


def test_some_inputs_of_the_day_fail_equally_in_a_new_process(server: Server, tmp_path: Path) -> None:
    for number, bad in enumerate(random.Random(datetime.date.today().toordinal()).sample(INPUTS, BY_DAY)):
        place = tmp_path / str(number)
        place.mkdir()

        answer = server.answer(bad, place, WHOLE)

        assert faults_of(bad, answer) == [], (bad.name, answer.output)


@pytest.mark.slow
@pytest.mark.parametrize("bad", INPUTS, ids=lambda bad: bad.name)
def test_each_input_fails_equally_in_a_new_process(server: Server, tmp_path: Path, bad: BadInput) -> None:
    answer = server.answer(bad, tmp_path, WHOLE)

    assert faults_of(bad, answer) == [], answer.output


def test_input_names_are_unique_and_makers_exist() -> None:
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
        (replace(GOOD, output="Traceback (most recent call last):\nthere is no option 'foo'"), "it printed 'Traceback"),
        (replace(GOOD, output="no"), "it did not print"),
        (replace(GOOD, left=("folder/runs",)), "it left folder/runs"),
        (replace(GOOD, processes=("gcs_server",)), "it left a process: gcs_server"),
    ],
)
def test_each_fault_of_an_answer_is_detected(answer: Answer, fault: str) -> None:
    assert faults_of(BAD, GOOD) == []

    assert any(fault in each for each in faults_of(BAD, answer))


def test_left_files_and_processes_are_detected(server: Server, tmp_path: Path) -> None:
    leaving = BadInput("", ("mkdir runs; setsid sleep 600 & exit 3",), ("",), 3)

    answer = server.answer(leaving, tmp_path, ("sh", "-c"))

    assert answer == Answer(3, "", ("folder/runs",), ("sleep 600 ",))


def test_a_line_of_a_list_is_read_like_a_shell_command() -> None:
    (bad,) = of_list(
        "# a group\n\nspaces | @a_text_file HERE='c d' name='a b' | law + offence + status 1\n", "list.txt"
    )

    assert bad == BadInput("spaces", ("name=a b",), ("law", "offence"), 1, "a_text_file", (("HERE", "c d"),))


def test_there_are_at_least_150_inputs() -> None:
    assert len(INPUTS) >= 150
