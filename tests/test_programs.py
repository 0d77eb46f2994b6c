"""Calls of other programs: locale, limits, and errors in words."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aiperf.files import open_regular, read_bounded
from aiperf.programs import ProgramFailed, ask, own_messages


def test_programs_print_in_the_c_locale() -> None:
    environment = os.environ | {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"}
    assert ask(["sh", "-c", 'echo "$LC_ALL $LANGUAGE"'], seconds=10, environment=environment).output == "C \n"


def test_an_answer_has_status_output_and_errors() -> None:
    answer = ask(["sh", "-c", "cat; echo why >&2; exit 3"], seconds=10, content=b"in\xff")
    assert (answer.status, answer.output, answer.words) == (3, "in\\xff", "why")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["aiperf-no-such-program"], "is not installed"),
        (["/"], "cannot be started"),
        (["sh", "-c", "sleep 60 & sleep 60"], "did not end within 0.5 s"),
        (["cat", "/dev/zero"], "printed more than 1000 bytes"),
    ],
)
def test_limits_end_a_program_with_its_children(command: list[str], reason: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ProgramFailed, match=reason):
        ask(command, seconds=0.5, largest=1000)
    assert time.monotonic() - begun < 5


def test_a_program_that_does_not_read_its_input_ends() -> None:
    assert ask(["true"], seconds=10, content=b"x" * 1_000_000).status == 0
    with pytest.raises(ProgramFailed, match="did not end"):
        ask(["sleep", "60"], seconds=0.2, content=b"x" * 1_000_000)


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert read_bounded(tmp_path / "file", 10) == b"x" * 10
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="no file"):
            open_regular(path)
    with pytest.raises(OSError, match="at most 9 bytes"):
        read_bounded(tmp_path / "file", 9)


FRAME = f"{'-' * 74}\n"
RULE = "a set ends with ]; found 'a['"


@pytest.mark.parametrize(
    ("messages", "own"),
    [
        (f"{RULE}\n", RULE),
        (f"{RULE}\n{FRAME}Primary job terminated, but\n{FRAME}{FRAME}mpirun detected\n{FRAME}", RULE),
        (f"{FRAME}No protocol specified\n{FRAME}{RULE}\n{FRAME}mpirun detected\n{FRAME}", RULE),
        (f"{FRAME}not enough slots\n{FRAME}", f"{FRAME}not enough slots\n{FRAME}".strip()),
        ("", ""),
    ],
)
def test_reports_of_mpirun_do_not_hide_a_programs_message(messages: str, own: str) -> None:
    assert own_messages(messages) == own
