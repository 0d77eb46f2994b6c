"""Tests that each kind of forgery of a real journal, with a new hash chain, is found by the check of its law."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random

import pytest

from aiperf.errors import JournalDamaged, OtherRules
from aiperf.system.host import cpu_model
from aiperf.verify import Verification, verify
from searchers.propose import RULES
from tests.audit.random_runs import play, random_case
from tests.builders.forged_journal import Line, lines_of, write
from tests.verify import forgeries_of_events, forgeries_of_faults, forgeries_of_plans, forgeries_of_work
from tests.verify.forging import Forgery

GOLDEN = Path(__file__).parents[1] / "golden"


def of_this_processor(lines: list[Line]) -> list[Line]:
    """As if the run's hosts had had this machine's processor: on another one an unequal proposal contradicts nothing."""
    there = lines[0]["machine"]["cpu_model"]
    moved: list[Line] = json.loads(json.dumps(lines).replace(json.dumps(there), json.dumps(cpu_model())))
    return moved


REAL = of_this_processor(lines_of(GOLDEN / "resumed-v5.jsonl"))
"""Real Ray, two ranks, images of digits. A driver and a rank were killed. TPE tuned eight proposals."""
KINDS = {**forgeries_of_work.KINDS, **forgeries_of_plans.KINDS, **forgeries_of_events.KINDS}
FEW, MANY = 2, 25
"""Numbers of places at which each kind is tried."""


def forged(kind: Forgery, name: str, seed: int) -> list[Line]:
    """Return the real journal, forged at a place drawn by the kind's name and the seed."""
    lines = copy.deepcopy(REAL)
    kind.edit(lines, Random(f"{name} {seed}"))
    assert lines != REAL
    return lines


def found_in(folder: Path, lines: list[Line], *, proposals: bool) -> Verification:
    """Verify forged lines. `proposals`: True to recompute every proposal, which takes most of the time."""
    return verify(write(folder, lines), sample=None if proposals else 0)


def is_found(folder: Path, name: str, seed: int) -> None:
    kind = KINDS[name]

    found = found_in(folder / f"{seed}", forged(kind, name, seed), proposals="proposals" in kind.found_by)

    by = {finding.check for finding in found.findings if finding.certainty == "contradiction"}
    assert not found.is_sound
    assert by & kind.found_by, f"seed {seed}: found by {sorted(by)} alone: {found.findings}"
    assert all(finding.law and finding.found for finding in found.findings)


def test_the_original_of_the_forgeries_is_sound(tmp_path: Path) -> None:
    found = found_in(tmp_path, REAL, proposals=True)

    assert found.findings == ()
    assert found.sample == tuple(range(14))


@pytest.fixture(scope="module")
def faulty() -> list[Line]:
    """A simulated run of the configured search, in which workers, attempts and trials were lost and proposals rejected."""
    lines = [json.loads(line) for line in play(random_case(29)).journal.splitlines()]
    for line in lines:
        del line["chain"]
    return lines


@pytest.mark.parametrize("name", forgeries_of_faults.KINDS)
def test_forged_faults_are_detected(tmp_path: Path, faulty: list[Line], name: str) -> None:
    kind = forgeries_of_faults.KINDS[name]
    for seed in range(FEW):
        lines = copy.deepcopy(faulty)
        kind.edit(lines, Random(f"{name} {seed}"))

        found = found_in(tmp_path / f"{seed}", lines, proposals=False)

        assert {finding.check for finding in found.findings} & kind.found_by, f"seed {seed}: {found.findings}"


def test_the_simulated_run_is_sound_before_it_is_forged(tmp_path: Path, faulty: list[Line]) -> None:
    assert found_in(tmp_path, faulty, proposals=False).findings == ()
    kinds = {line["event"] for line in faulty}
    assert kinds >= {"TrialRejected", "TrialFailed", "TrialLost", "WorkerLost"}


def test_at_least_sixty_kinds_are_found() -> None:
    assert len({**KINDS, **forgeries_of_faults.KINDS}) >= 60


@pytest.mark.parametrize("rules", [1, 2, 3, 6, 9])
def test_a_journal_of_other_rules_is_refused(tmp_path: Path, rules: int) -> None:
    lines = copy.deepcopy(REAL)
    lines[0]["proposal_rules"] = rules

    with pytest.raises(OtherRules, match=f"by version {rules}, this aiperf has versions 4 and {RULES}"):
        verify(write(tmp_path, lines))


@pytest.mark.parametrize("schema", [0, 2, 3, 4])
def test_a_journal_of_another_schema_is_refused(tmp_path: Path, schema: int) -> None:
    lines = copy.deepcopy(REAL)
    lines[0]["schema"] = schema

    with pytest.raises(JournalDamaged, match=f"this release reads journals of schema 1. .* has schema {schema}"):
        verify(write(tmp_path, lines))


@pytest.mark.parametrize("name", KINDS)
def test_a_forgery_is_found_by_the_law_that_it_breaks(tmp_path: Path, name: str) -> None:
    for seed in range(FEW):
        is_found(tmp_path, name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_forgery_is_found_wherever_it_is_done(tmp_path: Path, name: str) -> None:
    for seed in range(FEW, MANY):
        is_found(tmp_path, name, seed)
