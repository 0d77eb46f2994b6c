"""Tests of verifying a run of a list, with and without the journal of the run whose trials it lists."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aiperf.journal.events import AnyEvent, TrialProposed
from aiperf.journal.journal import NAME, Journal
from aiperf.verify import CheckResult, Verification, verify
from tests.simulate.test_following import simulated


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[AnyEvent]]:
    """A run, one that follows it, and the latter's events."""
    place = tmp_path_factory.mktemp("following")
    simulated(place / "earlier", workers=4)
    again = simulated(place / "again", place / "earlier", workers=3, hours=3.0)
    return place / "earlier", place / "again", again


def check(found: Verification, name: str) -> CheckResult:
    (one,) = [each for each in found.checks if each.name == name]
    return one


def test_all_of_an_honest_following_run_is_reproduced(
    runs: tuple[Path, Path, list[AnyEvent]],
) -> None:
    earlier, again, events = runs

    found = verify(again, followed=earlier)

    assert found.findings == () and found.is_sound
    assert check(found, "proposals").examined == sum(isinstance(event, TrialProposed) for event in events) > 5
    assert check(found, "decisions").examined > 10


def test_without_the_followed_journal_unchecked_parts_are_listed(runs: tuple[Path, Path, list[AnyEvent]]) -> None:
    _, again, _ = runs

    found = verify(again)

    assert found.is_sound
    assert "--followed RUN" in str(check(found, "proposals").not_checked)


def test_another_run_is_not_taken_for_the_followed_one(runs: tuple[Path, Path, list[AnyEvent]], tmp_path: Path) -> None:
    _, again, _ = runs
    simulated(tmp_path / "other", workers=4, seed=1)

    found = verify(again, followed=tmp_path / "other")

    assert "the list must be that of 'simulated', with the hash" in str(check(found, "proposals").not_checked)


@pytest.mark.parametrize("what", ["seed", "batch"])
def test_a_proposal_that_is_not_the_followed_one_is_found(
    what: str, runs: tuple[Path, Path, list[AnyEvent]], tmp_path: Path
) -> None:
    earlier, _, events = runs
    at, victim = [(at, event) for at, event in enumerate(events) if isinstance(event, TrialProposed)][-1]
    assert victim.follows is not None
    changed = {
        "seed": msgspec.structs.replace(victim, follows=msgspec.structs.replace(victim.follows, seed=1)),
        "batch": msgspec.structs.replace(victim, batch_size=victim.batch_size // 2),
    }
    with Journal(tmp_path / NAME, durable=False) as journal:
        journal.append([*events[:at], changed[what]])

    found = verify(tmp_path, followed=earlier)

    assert [f"proposal {victim.number}" in finding.found for finding in check(found, "proposals").findings] == [True]
