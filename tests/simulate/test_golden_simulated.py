"""Simulated journals equal those whose hashes were recorded: refactoring changes no event of a run.

An intended change (rules of proposing, the simulated cluster's model) records them again and is listed in the changelog:
`python -m tests.builders.fixed_arithmetic tests.simulate.test_golden_simulated` prints them. The first line is excluded,
because it names every option.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.config import RunConf
from aiperf.data.dataset_config import ImagenetConf
from aiperf.journal.journal import NAME, read
from aiperf.rules.limits import ScheduleConf
from aiperf.simulate.session import open_run, world_of
from cluster.faults import FaultConf, StragglerConf, WorkerLostConf
from cluster.simulated import SimulatedConf
from searchers.searcher_config import EvolutionConf, MorphismConf, OffConf, RandomConf, TpeConf
from tests.audit.planted_faults import DriverDiesConf, GeneratorDeadConf, LateConf, TwiceConf
from tests.audit.restarts import drive
from tests.builders.fixed_arithmetic import recorded_anew

HASHES = Path(__file__).parents[1] / "golden" / "simulated.json"
FAULTS: list[FaultConf] = [
    WorkerLostConf(rate=0.4),
    LateConf(),
    TwiceConf(),
    DriverDiesConf(rate=0.002),
    StragglerConf(),
    GeneratorDeadConf(),
]
RUNS = {
    "calm": (RandomConf(), OffConf(), 3, 1.5, []),
    "faulty": (EvolutionConf(), OffConf(), 4, 1.5, FAULTS),
    "guided": (MorphismConf(), TpeConf(), 4, 8.0, []),
}
"""Searcher, tuning, workers, hours, faults."""


def hashed(name: str) -> str:
    """Return the hash of a run's events after the first, as JSON without their hashes."""
    searcher, hpo, workers, hours, faults = RUNS[name]
    conf = RunConf(
        dataset=ImagenetConf(),
        schedule=ScheduleConf(duration_seconds=3600 * hours, warmup_seconds=1200.0),
        searcher=searcher,
        hpo=hpo,
        cluster=SimulatedConf(workers=workers),
        seed=11,
    )
    opening = open_run(conf)
    with tempfile.TemporaryDirectory() as folder:
        drive(world_of(opening), opening.first, Path(folder) / NAME, faults=faults)
        _, *events = read(Path(folder) / NAME)
    digest = hashlib.sha256()
    for event in events:
        digest.update(msgspec.json.encode(event) + b"\n")
    return f"{len(events)} {digest.hexdigest()}"


@pytest.fixture(scope="module")
def anew() -> dict[str, str]:
    return recorded_anew("tests.simulate.test_golden_simulated")


@pytest.mark.parametrize("name", RUNS)
def test_simulated_run_writes_the_recorded_events(anew: dict[str, str], name: str) -> None:
    assert anew[name] == json.loads(HASHES.read_text())[name]


@pytest.mark.parametrize("name", ["calm", "faulty"])
def test_no_event_depends_on_how_sum_rounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 rounds `sum` of floats otherwise than 3.11. Journals use math.fsum."""
    here = hashed(name)
    exact = builtins.sum

    def elsewhere(values: Iterable[Any], /, start: Any = 0) -> Any:
        total = exact(values, start)
        return math.nextafter(total, math.inf) if isinstance(total, float) else total

    monkeypatch.setattr(builtins, "sum", elsewhere)

    assert hashed(name) == here


if __name__ == "__main__":
    json.dump({name: hashed(name) for name in RUNS}, sys.stdout, indent=1)
    print()
