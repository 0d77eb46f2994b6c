"""A run that follows a list of trials does the same work, trial by trial, despite faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.errors import BadConfiguration, CannotFollow
from aiperf.journal.events import (
    AnyEvent,
    EpochFinished,
    ProposalRequested,
    RunEnded,
    RunStarted,
    TrialFinished,
    TrialProposed,
    TrialRejected,
    TrialStarted,
)
from aiperf.journal.journal import NAME, Journal, read
from aiperf.planning.following import require_same_work
from aiperf.planning.plan import make_plan
from aiperf.ranking.levels import is_of_step
from aiperf.rules.followed import Following, followed_again, following
from aiperf.rules.proposals import proposer_of
from aiperf.simulate.session import open_run, world_of
from cluster.faults import FaultConf, WorkerLostConf
from tests.audit.planted_faults import DriverDiesConf
from tests.audit.random_runs import PLENTY, SCARCE, Failed, explained, play, random_case
from tests.audit.restarts import drive
from tests.builders.verified_proposals import verify_proposals
from tests.simulate.test_session import configured

BLOCK = 10
SAME = ("fingerprint", "batch_size", "forward_flops", "backward_flops", "parameters")


def simulated(
    folder: Path, follow: Path | None = None, faults: Sequence[FaultConf] = (), **options: Any
) -> list[AnyEvent]:
    """Return the journal of a run, which is also stored in the folder."""
    opening = open_run(replace(configured(**options), follow=None if follow is None else str(follow)))
    folder.mkdir()
    drive(world_of(opening), opening.first, folder / NAME, faults=faults)
    return list(read(folder))


def of(folder: Path) -> Following:
    return following(folder, is_of_step)


def finished(events: Iterable[AnyEvent]) -> dict[int, TrialFinished]:
    return {event.trial: event for event in events if isinstance(event, TrialFinished)}


def proposed(events: Iterable[AnyEvent]) -> dict[int, TrialProposed]:
    return {event.number: event for event in events if isinstance(event, TrialProposed)}


def epochs(events: Iterable[AnyEvent], trial: int) -> int:
    return max(
        (event.epoch for event in events if isinstance(event, EpochFinished) and event.trial == trial), default=0
    )


def begun(events: Iterable[AnyEvent]) -> list[int]:
    return list(dict.fromkeys(event.trial for event in events if isinstance(event, TrialStarted)))


def assert_same_work(there: list[AnyEvent], here: list[AnyEvent]) -> int:
    """Compare each trial that finished here with that of the earlier run, and return their number."""
    theirs, mine, ended = proposed(there), proposed(here), finished(here)
    order = [number for number in begun(there) if epochs(there, number)]
    for number, end in ended.items():
        follows = mine[number].follows
        assert follows is not None and mine[number].searcher == "follow" and mine[number].parent is None
        other = order[follows.trial]
        assert [getattr(mine[number], name) for name in SAME] == [getattr(theirs[other], name) for name in SAME]
        assert epochs(here, number) == epochs(there, other) == follows.epochs and end.reason == "followed"
    return len(ended)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[AnyEvent, ...]]:
    """Return the folder of a run of four workers, and the journal of a run of three workers that follows it."""
    folder = tmp_path_factory.mktemp("followed")
    simulated(folder / "earlier", workers=4)
    return folder / "earlier", tuple(simulated(folder / "again", folder / "earlier", workers=3, hours=12.0))


@pytest.mark.parametrize("first", range(0, 20, BLOCK))
def test_faulty_runs_that_follow_faulty_runs_keep_every_law(first: int) -> None:
    """The auditor replays them, recomputes each of their proposals from the list, and sums their work."""
    for seed in range(first, first + BLOCK):
        earlier = replace(random_case(1000 + seed), memory_bytes=PLENTY)
        try:
            play(replace(random_case(seed), searches=False, replays=0.02, follows=earlier))
        except Failed as failed:
            pytest.fail(explained(failed, keep=Path(f"failed-following-{seed}.jsonl")), pytrace=False)


@pytest.mark.parametrize(("there", "here"), [(6, 6), (6, 2), (2, 9)])
def test_following_run_does_the_same_work_on_any_worker_count(there: int, here: int, tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=there)

    again = simulated(
        tmp_path / "again", tmp_path / "earlier", workers=here, faults=[WorkerLostConf(rate=0.1)], hours=20.0
    )

    assert assert_same_work(earlier, again) == len(of(tmp_path / "earlier").work.trials) > 2
    assert isinstance(again[-1], RunEnded) and again[-1].reason == "followed"  # before its time: no trial is left
    assert not any(isinstance(event, TrialRejected) for event in again)
    taken = [each.follows.trial for each in map(proposed(again).__getitem__, begun(again)) if each.follows is not None]
    assert here > 1 or taken == sorted(taken)


def test_a_list_of_a_list_is_the_same_list(tmp_path: Path) -> None:
    simulated(tmp_path / "first", workers=3)
    simulated(tmp_path / "second", tmp_path / "first", workers=1, hours=30.0)

    assert of(tmp_path / "second").work.sha256 == of(tmp_path / "first").work.sha256


def test_ranks_share_the_batches_of_the_list_or_the_run_is_refused(tmp_path: Path) -> None:
    simulated(tmp_path / "earlier", workers=2, accelerators=8)

    again = simulated(tmp_path / "again", tmp_path / "earlier", workers=2, accelerators=4)

    assert {event.batch_size for event in proposed(again).values()} == {2 * 64}
    with pytest.raises(BadConfiguration, match=r"batches of 512, and a worker has 3 ranks"):
        simulated(tmp_path / "three", tmp_path / "earlier", workers=2, accelerators=3)


def test_unfitting_batches_are_refused_one_by_one(tmp_path: Path) -> None:
    case = replace(random_case(3), workers=3, faults=(), seconds=420.0, searches=False, memory_bytes=PLENTY)

    played = play(replace(case, memory_bytes=SCARCE, follows=case))

    (tmp_path / NAME).write_bytes(played.journal)
    events = list(read(tmp_path))
    reasons = [event.reason for event in events if isinstance(event, TrialRejected)]
    assert any("has batches of 64 a rank; the most that fits here" in reason for reason in reasons)
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "followed"


@pytest.mark.slow
def test_a_driver_that_dies_goes_on_with_what_is_left(tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=4)

    again = simulated(
        tmp_path / "again", tmp_path / "earlier", workers=4, hours=12.0, faults=[DriverDiesConf(rate=0.01)]
    )

    assert assert_same_work(earlier, again) == len(of(tmp_path / "earlier").work.trials)


@pytest.mark.parametrize("name", ["", "batch_size", "morphs", "seed", "epochs", "order"])
def test_a_proposal_that_is_not_of_the_list_is_found(name: str, followed: tuple[Path, tuple[AnyEvent, ...]]) -> None:
    work, again, conf = of(followed[0]).work, list(followed[1]), configured()
    at, victim = [(at, event) for at, event in enumerate(again) if isinstance(event, TrialProposed)][5]
    assert victim.follows is not None
    if name == "order":  # the two trials, one after the other, are exchanged
        place, trials = victim.follows.trial, list(work.trials)
        trials[place], trials[place + 1] = trials[place + 1], trials[place]
        work = msgspec.structs.replace(work, trials=tuple(trials))
    elif name:
        changes: dict[str, dict[str, Any]] = {
            "batch_size": {"batch_size": victim.batch_size // 2},
            "morphs": {"morphs": [*victim.morphs, *victim.morphs]},
            "seed": {"follows": msgspec.structs.replace(victim.follows, seed=1)},
            "epochs": {"follows": msgspec.structs.replace(victim.follows, epochs=victim.follows.epochs + 1)},
        }
        again[at] = msgspec.structs.replace(victim, **changes[name])

    found = []
    for one in verify_proposals(again[: at + 1], proposer_of(conf.searcher, conf.hpo), work):
        found += [] if one.is_equal else [one.number]

    assert found == ([victim.number] if name else [])


def test_the_journal_names_the_list_and_what_it_leaves_out(tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=4, faults=[WorkerLostConf(rate=1.0)])

    first = simulated(tmp_path / "again", tmp_path / "earlier", workers=4)[0]

    assert isinstance(first, RunStarted) and first.follows is not None
    told, numbers = first.follows, sum(isinstance(event, ProposalRequested) for event in earlier)
    assert told.lines == len(earlier) and told.run == "simulated"
    assert told.trials + sum(told.left_out.values()) == numbers and told.trials <= len(begun(earlier))
    assert followed_again(told, tmp_path / "earlier", is_of_step).work.sha256 == told.sequence
    simulated(tmp_path / "other", workers=4, seed=1)
    with pytest.raises(CannotFollow, match="give its current place"):
        followed_again(told, tmp_path / "other", is_of_step)
    with pytest.raises(CannotFollow, match="older release"):
        followed_again(msgspec.structs.replace(told, sequence=""), tmp_path / "earlier", is_of_step)


STEP = "learning_rate rate decay_epochs warmup_epochs scale_learning_rate reference_batch momentum weight_decay"


@pytest.mark.parametrize(
    "option", ["dataset.augment", *(f"trainer.{name}" for name in (*STEP.split(), "label_smoothing"))]
)
def test_another_option_of_a_training_step_is_refused(option: str, followed: tuple[Path, tuple[AnyEvent, ...]]) -> None:
    list_, first = of(followed[0]), followed[1][0]
    assert isinstance(first, RunStarted)
    work = msgspec.structs.replace(list_.work, options=list_.work.options | {option: "another"})

    require_same_work(first, list_, 8)
    with pytest.raises(BadConfiguration, match=f"{option}=another"):
        require_same_work(first, replace(list_, work=work), 8)


def test_a_run_of_which_nothing_was_trained_cannot_be_followed(tmp_path: Path) -> None:
    opening = open_run(configured(workers=1))
    with Journal(tmp_path / NAME, durable=False) as journal:
        journal.append([opening.first])

    with pytest.raises(CannotFollow, match="has none"):
        of(tmp_path)


def test_a_plan_without_a_list_searches() -> None:
    opening = open_run(configured(workers=1))

    assert make_plan(opening.plan.conf, opening.plan.shape, opening.plan.dataset).follows is None
