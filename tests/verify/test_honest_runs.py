"""Tests that honest runs verify on any machine: recorded real runs, and simulated runs with every fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.verify import verify
from tests.audit.random_runs import play, random_case

GOLDEN = Path(__file__).parents[1] / "golden"
JOURNALS = sorted(GOLDEN.glob("*.jsonl"))
PRESENT = GOLDEN / "resumed-v4.jsonl"
"""By the present rules."""


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_a_recorded_run_contradicts_itself_nowhere(journal: Path) -> None:
    found = verify(journal, sample=None)

    assert found.findings == ()
    assert found.is_sound and found.is_whole
    assert found.lines == len(journal.read_bytes().splitlines())


def test_every_proposal_of_a_recorded_run_is_reproduced() -> None:
    checks = {check.name: check for check in verify(PRESENT, sample=None).checks}

    proposals = checks["proposals"]
    assert proposals.examined == proposals.of == 15
    assert (proposals.contradictions, proposals.untold, proposals.not_checked) == (0, 0, None)
    assert checks["graphs"].examined == 15 and checks["decisions"].examined > 25


@pytest.mark.parametrize("seed", range(6))
def test_a_simulated_run_with_faults_contradicts_itself_nowhere(seed: int, tmp_path: Path) -> None:
    case = random_case(seed)
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(play(case).journal)

    # proposals of the cheapest searcher, used in place of the configured one, cannot be reproduced
    found = verify(journal, sample=20 if case.searches else 0)

    assert found.findings == ()


def test_the_command_lists_its_checks_and_exits_with_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["verify", str(PRESENT), "--json"]) == 0

    printed = json.loads(capsys.readouterr().out)
    assert printed["is_sound"] and printed["lines"] == 134
    assert {"reading", "intervals", "images", "decisions", "graphs", "proposals"} <= {
        check["name"] for check in printed["checks"]
    }


def test_a_file_that_is_no_journal_cannot_be_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path)]) == 2

    assert "the folder of a run must contain a journal.jsonl" in capsys.readouterr().err


def test_a_following_run_is_sound_and_lists_unchecked_parts(tmp_path: Path) -> None:
    words = ["+cluster=simulated", "cluster.workers=2", "searcher=random", "hpo=off", "dataset=digits"]
    window = ["schedule.duration_seconds=200", "schedule.warmup_seconds=20"]
    assert main([*words, *window, f"runs={tmp_path / 'one'}"]) == 0
    (one,) = (tmp_path / "one").iterdir()
    assert main([*words, *window, f"runs={tmp_path / 'other'}", f"follow={one}"]) == 0
    (other,) = (tmp_path / "other").iterdir()

    found, following = verify(one), verify(other)

    assert found.findings == following.findings == ()
    (left_out,) = (check.not_checked for check in following.checks if check.name == "proposals")
    assert left_out is not None and "the journal of the run whose list it trained" in left_out
