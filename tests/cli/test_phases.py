"""Progress lines of the phases before the live table, on a terminal and elsewhere."""

from __future__ import annotations

import re
from io import StringIO

import pytest

from aiperf.cli import phases
from aiperf.cli.phases import Phases
from tests.rigs.processes import comes_true


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_a_phase_has_a_first_and_a_last_line() -> None:
    output = StringIO()
    shown = Phases(output)

    shown.begin("starting Ray")
    assert comes_true(lambda: "\n" in output.getvalue())
    shown.end()

    begun, ended = output.getvalue().splitlines()
    assert begun == "starting Ray …"
    assert re.fullmatch(r"starting Ray +[\d.]+ m?s", ended)
    assert "\x1b" not in output.getvalue() and "\r" not in output.getvalue()


def test_on_a_terminal_one_line_counts_the_seconds_of_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_dumb_terminal_gets_complete_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    output = Screen()
    shown = Phases(output)

    shown.begin("starting Ray")
    assert comes_true(lambda: "\n" in output.getvalue())
    shown.end()

    assert "\x1b" not in output.getvalue()


def test_a_short_phase_is_not_printed_even_if_it_fails() -> None:
    output = StringIO()
    shown = Phases(output)

    shown.begin("one")
    with pytest.raises(ValueError, match="broken"), shown.phase("two"):
        raise ValueError("broken")

    assert output.getvalue() == ""
