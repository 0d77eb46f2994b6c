"""A proposal is a function of history, number and seed."""

import json
import os
import subprocess
import sys
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from searchers.history import Finished, Request, Searcher
from searchers.propose import propose
from searchers.searcher_config import EvolutionConf, MorphismConf, RandomConf, TpeConf
from tests.builders.history import Run, runs, space

SEARCHERS: list[Searcher] = [MorphismConf().build(), EvolutionConf().build(), RandomConf().build()]
TPE = TpeConf().build()


@pytest.mark.parametrize("searcher", SEARCHERS, ids=lambda searcher: searcher.name)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_equal_observations_give_equal_proposals_in_any_order(searcher: Searcher, data: st.DataObject) -> None:
    run = data.draw(runs(searcher, TPE, space(tuning_from_round=3)))

    # each from an empty history, and in another order than requested
    for seen, request, proposal in Random(0).sample(run.requests, len(run.requests)):
        assert propose(searcher, run.replayed(seen), request, TPE) == proposal

    # and all from one history that other questions were put to in between
    history = run.replayed(0)
    sent = 0
    for seen, request, proposal in run.requests:
        history.observe(run.observations[sent:seen])
        sent = seen
        propose(searcher, history, Request(request.number + 1000, request.round, request.seed + 1), TPE)
        assert propose(searcher, history, request, TPE) == proposal


SCRIPT = """
from tests.searchers.test_replay import proposals
print(proposals())
"""


def proposals() -> str:
    """Proposals of a fixed run with every searcher, as text."""
    lines = []
    for searcher in SEARCHERS:
        run = Run(searcher, TPE, space(tuning_from_round=2), seed=5)
        for number in range(16):
            run.ask(1 + number // 6)
            if number >= 3:
                run.observe(Finished(number - 3, 0.5 + (number * 7 % 5) / 20))
        lines.append(repr([proposal for _, _, proposal in run.requests]))
    return json.dumps(lines)


def test_another_process_with_other_hashes_proposes_the_same() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    other = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment, timeout=120
    )

    assert json.loads(other.stdout) == json.loads(proposals())
