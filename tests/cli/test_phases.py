"""Progress lines of the phases before the live table, on a terminal and elsewhere."""

from __future__ import annotations

import re
import time
from io import StringIO

import pytest
from rich.console import Console

from aiperf.cli.phases import WORTH_A_LINE_SECONDS, Phases
from tests.rigs.processes import comes_true


def test_without_a_terminal_a_phase_has_a_first_and_a_last_line() -> None:
    output = StringIO()

    with Phases(Console(file=output)).phase("starting Ray"):
        assert output.getvalue() == "starting Ray …\n"
        time.sleep(WORTH_A_LINE_SECONDS)

    _, ended = output.getvalue().splitlines()
    assert re.fullmatch(r"starting Ray +[\d.]+ m?s", ended)
    assert "\x1b" not in output.getvalue() and "\r" not in output.getvalue()


def test_on_a_terminal_one_line_counts_the_seconds_of_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    output = StringIO()
    shown = Phases(Console(file=output, force_terminal=True, width=80))

    shown.begin("starting Ray")
    assert comes_true(lambda: "0:00:01" in output.getvalue())
    shown.end()

    last = output.getvalue().rstrip("\n").splitlines()[-1]
    assert re.search(r"starting Ray +[\d.]+ s$", last)


def test_a_dumb_terminal_gets_complete_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    output = StringIO()

    Phases(Console(file=output, force_terminal=True)).begin("starting Ray")

    assert output.getvalue() == "starting Ray …\n"


def test_a_short_phase_has_no_last_line_even_if_it_fails() -> None:
    output = StringIO()
    shown = Phases(Console(file=output))

    shown.begin("one")
    with pytest.raises(ValueError, match="broken"), shown.phase("two"):
        raise ValueError("broken")

    assert output.getvalue() == "one …\ntwo …\n"
