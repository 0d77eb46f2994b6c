"""The lists of the package: their content, their division, and runs of them."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from aiperf.config import configure
from aiperf.errors import BadConfiguration
from aiperf.journal.events import AnyEvent, RunStarted, TrialProposed
from aiperf.journal.journal import NAME, Journal, read
from aiperf.ranking.breaches import judgements
from aiperf.ranking.division import division
from aiperf.ranking.law import OneOf
from aiperf.report.candidate import candidate_of
from aiperf.rules.followed import packaged
from aiperf.rules.limits import PACKAGED
from aiperf.simulate.session import drive, open_run, world_of
from aiperf.verify import verify
from morphism import decode_architecture, decode_morph, rebuilt

ONE = ("cluster.workers=1", "cluster.accelerators=1")
HERE = ("+cluster=simulated", "cluster.flops=1e11")


def run(folder: Path, *words: str, size: tuple[str, ...] = ONE) -> list[AnyEvent]:
    folder.mkdir()
    opening = open_run(configure(["follow=reference", *HERE, *size, *words]))
    drive(world_of(opening), opening.first, folder / NAME)
    return list(read(folder))


@pytest.mark.parametrize("name", PACKAGED)
def test_a_list_gives_its_networks_batches_and_samples(name: str) -> None:
    work, images = packaged(name), int(packaged(name).dataset["training_images"])
    start = decode_architecture(json.dumps(work.start))

    for place, trial in enumerate(work.trials):
        assert rebuilt(start, list(map(decode_morph, trial.morphs))).fingerprint == trial.fingerprint
        assert trial.samples == images * work.epochs(place) and images % trial.batch == 0
    assert len({trial.fingerprint for trial in work.trials}) == len(work.trials) == 96
    assert [work.epochs(place) for place in (0, 11, 12, 95)] == [1, 1, 2, 128]


def test_the_lists_are_small_and_their_hashes_are_the_law_of_the_division() -> None:
    law = division("reference").rule("sequence").law

    assert law == OneOf(tuple(packaged(name).sha256 for name in PACKAGED))
    packed = files("aiperf.rules")
    assert sum(len(packed.joinpath(f"{name}.json.gz").read_bytes()) for name in PACKAGED) < 200_000


def test_the_plain_command_is_a_run_of_the_division(tmp_path: Path) -> None:
    events = run(tmp_path / "run")

    outcomes = judgements(candidate_of(events), division("reference"))

    assert [each.rule.id for each in outcomes if each.breach is not None] == ["real-machine"]
    found = verify(tmp_path / "run", sample=None)
    assert found.is_sound and found.findings == ()
    assert [each.not_checked for each in found.checks if each.name in ("proposals", "decisions")] == [None, None]


def test_other_data_under_the_hash_of_a_list_are_found(tmp_path: Path) -> None:
    first, *rest = run(tmp_path / "run", "schedule.duration_seconds=120")
    assert isinstance(first, RunStarted)
    forged = msgspec.structs.replace(first, dataset=first.dataset | {"classes": 9})
    (tmp_path / "forged").mkdir()
    with Journal(tmp_path / "forged" / NAME, durable=False) as journal:
        journal.append([forged, *rest])

    assert candidate_of([forged, *rest]).sequence == "another"
    assert "classes 10, not 9" in str(verify(tmp_path / "forged").findings)


def test_another_data_set_start_or_step_is_refused_with_all_differences() -> None:
    with pytest.raises(
        BadConfiguration, match=r"learning_rate=0.1, not 0.2; .*name 'synthetic'.*another starting graph"
    ):
        open_run(
            configure(["follow=reference", *HERE, "dataset=cifar10", "trainer.learning_rate=0.2", "start=resnet18"])
        )


def test_two_sizes_of_workers_train_the_same_list(tmp_path: Path) -> None:
    def work(events: list[AnyEvent]) -> dict[int, tuple[str, int]]:
        trials = (event for event in events if isinstance(event, TrialProposed))
        return {
            each.follows.trial: (each.fingerprint, each.follows.epochs) for each in trials if each.follows is not None
        }

    one, other = (
        work(run(tmp_path / "one")),
        work(run(tmp_path / "two", size=("cluster.accelerators=4", "cluster.workers=2"))),
    )

    both = one.keys() & other.keys()
    assert len(both) > 10 and all(one[place] == other[place] for place in both)
