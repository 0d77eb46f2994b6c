"""What a run does before its table stands, where that takes its time: in one line of a terminal, elsewhere in whole lines."""

from __future__ import annotations

import re
from io import StringIO

import pytest

from aiperf.cli import phases
from aiperf.cli.phases import Phases
from tests.waiting import comes_true


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_where_there_is_no_terminal_a_phase_is_told_of_when_it_begins_and_when_it_ends_in_whole_lines() -> None:
    output = StringIO()
    shown = Phases(output)

    shown.begin("starting Ray")
    assert comes_true(lambda: "\n" in output.getvalue())
    shown.end()

    begun, ended = output.getvalue().splitlines()
    assert begun == "starting Ray …"
    assert re.fullmatch(r"starting Ray +[\d.]+ m?s", ended)
    assert "\x1b" not in output.getvalue() and "\r" not in output.getvalue()


def test_on_a_terminal_one_line_counts_the_seconds_and_keeps_the_time_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(phases, "TICK_SECONDS", 0.01)
    output = Screen()
    shown = Phases(output)

    shown.begin("starting Ray")
    assert comes_true(lambda: "… 1" in output.getvalue())
    shown.end()

    assert output.getvalue().count("\n") == 1
    last = output.getvalue().rstrip("\n").split("\r\x1b[K")[-1]
    assert re.fullmatch(r"starting Ray +[\d.]+ s", last)
    assert len(last) < 60


def test_a_terminal_that_can_do_nothing_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    output = Screen()
    shown = Phases(output)

    shown.begin("starting Ray")
    assert comes_true(lambda: "\n" in output.getvalue())
    shown.end()

    assert "\x1b" not in output.getvalue()


def test_what_takes_no_time_is_not_told_of_and_neither_is_its_failure() -> None:
    output = StringIO()
    shown = Phases(output)

    shown.begin("one")
    with pytest.raises(ValueError, match="broken"), shown.phase("two"):
        raise ValueError("broken")

    assert output.getvalue() == ""
