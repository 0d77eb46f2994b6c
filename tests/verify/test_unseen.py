"""Tests that each kind of `unseen.py` stays unseen, and that its named evidence shows it."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random

import pytest

from aiperf.verify import verify
from tests.builders.forged_journal import Line, lines_of, write
from tests.verify.unseen import KINDS

GOLDEN = Path(__file__).parents[1] / "golden"
REAL = lines_of(GOLDEN / "resumed-v5.jsonl")


def forged(name: str) -> list[Line]:
    """The real journal, forged by this kind."""
    lines = copy.deepcopy(REAL)
    KINDS[name].edit(lines, Random(name))
    assert lines != REAL
    return lines


@pytest.mark.parametrize("name", KINDS)
def test_a_journal_alone_does_not_show_it(tmp_path: Path, name: str) -> None:
    found = verify(write(tmp_path, forged(name)), sample=0)

    assert found.findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_reproducing_every_proposal_does_not_detect_it(tmp_path: Path, name: str) -> None:
    found = verify(write(tmp_path, forged(name)), sample=None)

    assert found.is_sound


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.shown_by == "announcement"])
def test_an_announcement_before_the_run_shows_it(name: str) -> None:
    """It holds the configuration's hash, which changes with every option."""
    assert forged(name)[0]["config_hash"] != REAL[0]["config_hash"]
