"""Proposals have the recorded hashes: caches between proposals save work and change no proposal.

An intended change of proposals increases searchers.RULES and records new hashes, which
`python -m tests.builders.fixed_arithmetic tests.searchers.test_golden_proposals` prints.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from benchmarks import proposal_speed
from searchers.history import (
    Cause,
    CeilingKnown,
    FailedTrial,
    Finished,
    History,
    Proposal,
    ReducedBatch,
    Request,
    Searcher,
    WeightsDropped,
    WithdrawnTrial,
)
from searchers.propose import REPEATABLE_RULES, propose
from searchers.searcher_config import EvolutionConf, MorphismConf, RandomConf, TpeConf
from tests.builders.fixed_arithmetic import recorded_anew
from tests.builders.history import Run, proposed, space

HASHES = Path(__file__).parents[1] / "golden" / "proposals.json"
SEARCHERS: dict[str, Searcher] = {
    "morphism": MorphismConf().build(),
    "evolution": EvolutionConf().build(),
    "random": RandomConf().build(),
}


def eventful(name: str, is_old: bool) -> Iterator[Proposal]:
    """Proposals of small runs in which trials finish out of order, fail by each cause, shrink, and lose their weights."""
    for seed in range(3):
        random = Random(f"{name} {seed}")
        at = replace(space(tuning_from_round=2), learns_from_untuned=is_old)
        run = Run(SEARCHERS[name], TpeConf().build(), at, seed)
        for step in range(120):
            flying = sorted(run.history.in_flight)
            if len(flying) < 3 or random.random() < 0.4:
                run.ask(1 + step // 12)
                yield run.requests[-1][2]
                continue
            number, drawn = flying[int(random.random() * len(flying))], random.random()
            if drawn < 0.7:
                run.observe(Finished(number, round(0.5 + 0.4 * random.random(), 2)))
            elif drawn < 0.8:
                causes: tuple[Cause, ...] = ("machine", "divergence", "memory", "network")
                run.observe(FailedTrial(number, causes[int(random.random() * len(causes))]))
            elif drawn < 0.9:
                run.observe(
                    ReducedBatch(number, run.history.batch_size(number), max(1, run.history.batch_size(number) // 2))
                )
            elif drawn < 0.94:
                run.observe(WithdrawnTrial(number))
            elif drawn < 0.98 and run.history.parents():
                run.observe(WeightsDropped(run.history.parents()[0]))
            else:
                run.observe(CeilingKnown(40 + int(random.random() * 100)))


def invented(finished: int) -> Iterator[Proposal]:
    """Return guided proposals from ResNet-50 after a number of finished trials, requested as in benchmarks.proposal_speed."""
    history, tuner = History(proposal_speed.space()), TpeConf().build()
    history.observe(proposal_speed.invented(finished))
    for done in range(20):
        request = Request(len(history.trials), proposal_speed.ROUND, 1)
        proposal = propose(SEARCHERS["morphism"], history, request, tuner)
        yield proposal
        oldest = next(iter(history.in_flight))
        history.observe([proposed(history, proposal, request), Finished(oldest, 0.7 + (done * 37 % 11) / 100)])


ASKED: dict[str, Callable[[], Iterator[Proposal]]] = {
    **{
        f"{name}, rules {rules}": partial(eventful, name, rules < 5) for name in SEARCHERS for rules in REPEATABLE_RULES
    },
    **{f"resnet50 after {finished}": partial(invented, finished) for finished in (10, 150)},
}


def hashed(name: str) -> str:
    """Return a hash of every field of the proposals, and their number."""
    proposals = list(ASKED[name]())
    return f"{len(proposals)} {hashlib.sha256(repr(proposals).encode()).hexdigest()}"


@pytest.fixture(scope="module")
def anew() -> dict[str, str]:
    return recorded_anew("tests.searchers.test_golden_proposals")


@pytest.mark.parametrize("name", ASKED)
def test_proposals_equal_the_recorded_ones(anew: dict[str, str], name: str) -> None:
    assert anew[name] == json.loads(HASHES.read_text())[name]


if __name__ == "__main__":
    json.dump({name: hashed(name) for name in ASKED}, sys.stdout, indent=1)
    print()
