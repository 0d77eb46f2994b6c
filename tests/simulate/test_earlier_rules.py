"""Runs by each version of the proposal rules that this release can repeat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from aiperf.config import BatchConf
from aiperf.journal.events import AnyEvent, RunStarted, TrialProposed
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import NAME, read
from aiperf.rules.search_space import space_of
from aiperf.simulate.session import drive, open_run, world_of
from searchers.propose import REPEATABLE_RULES
from searchers.searcher_config import RandomConf, TpeConf
from tests.builders.landscapes import Setting, configured
from tests.builders.verified_proposals import verify_proposals


def of_rules(first: RunStarted, rules: int) -> RunStarted:
    return msgspec.structs.replace(first, proposal_rules=rules)


@pytest.mark.parametrize("rules", REPEATABLE_RULES)
def test_proposals_are_recomputed_by_their_own_rules(rules: int, tmp_path: Path) -> None:
    setting = Setting(workers=3, trials=30, factor=32.0, warmup_rounds=2)
    opening = open_run(replace(configured(setting, RandomConf(), seed=0), hpo=TpeConf(startup_trials=2)))
    world, first = world_of(opening), of_rules(opening.first, rules)
    world.space = space_of(first)
    drive(world, first, tmp_path / NAME)
    _, *events = read(tmp_path / NAME)

    def unequal(recomputed_by: int) -> int:
        journal: list[AnyEvent] = [of_rules(first, recomputed_by), *events]
        return sum(not one.is_equal for one in verify_proposals(journal, world.proposer))

    assert unequal(rules) == 0
    assert all(unequal(other) > 0 for other in REPEATABLE_RULES if other != rules)


def of_step(first: RunStarted, step: int | None) -> RunStarted:
    """First line with this batch step. None: as before journals recorded one."""
    space = {name: value for name, value in first.config["space"].items() if name != "batch_step"}
    space |= {} if step is None else {"batch_step": step}
    config = {**first.config, "space": space}
    return msgspec.structs.replace(first, config=config, config_hash=config_hash(config))


@pytest.mark.parametrize("step", [None, 32, 64])
def test_proposals_are_recomputed_by_their_own_batch_step(step: int | None, tmp_path: Path) -> None:
    setting = Setting(workers=3, trials=30, factor=32.0, warmup_rounds=2)
    conf = replace(configured(setting, RandomConf(), seed=0), hpo=TpeConf(startup_trials=2))
    opening = open_run(replace(conf, batch=BatchConf(default=448, smallest=96, largest=448)))
    world, first = world_of(opening), of_step(opening.first, step)
    world.space = space_of(first)
    drive(world, first, tmp_path / NAME)
    _, *events = read(tmp_path / NAME)
    sizes = {event.batch_size for event in events if isinstance(event, TrialProposed)}

    def unequal(recomputed_by: int | None) -> int:
        return sum(
            not one.is_equal for one in verify_proposals([of_step(first, recomputed_by), *events], world.proposer)
        )

    assert max(sizes) >= 256 and all(size % (step or 8) == 0 for size in sizes if size >= 128)
    assert unequal(step) == 0
    assert all(unequal(other) > 0 for other in (None, 32, 64) if other != step)
    assert unequal(8) == unequal(None)
