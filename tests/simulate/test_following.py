"""A run that follows another does the same work, trial by trial, despite faults in both runs."""

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
    CheckpointDropped,
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
from aiperf.planning.following import following, require_same_work
from aiperf.planning.plan import make_plan
from aiperf.rules.proposals import proposer_of
from aiperf.simulate.session import open_run, world_of
from cluster.faults import FaultConf, WorkerLostConf
from tests.audit.planted_faults import DriverDiesConf
from tests.audit.random_runs import PLENTY, SCARCE, Failed, explained, play, random_case
from tests.audit.restarts import drive
from tests.builders.verified_proposals import verify_proposals
from tests.simulate.test_session import configured

BLOCK = 10
SAME = (
    "fingerprint",
    "morphs",
    "batch_size",
    "kernel_size",
    "forward_flops",
    "backward_flops",
    "parameters",
    "tuned_by",
)


def simulated(
    folder: Path, follow: Path | None = None, faults: Sequence[FaultConf] = (), **options: Any
) -> list[AnyEvent]:
    """Return the journal of a run, which is also stored in the folder."""
    opening = open_run(replace(configured(**options), follow=None if follow is None else str(follow)))
    folder.mkdir()
    drive(world_of(opening), opening.first, folder / NAME, faults=faults)
    return list(read(folder))


def finished(events: Iterable[AnyEvent]) -> dict[int, TrialFinished]:
    return {event.trial: event for event in events if isinstance(event, TrialFinished)}


def proposed(events: Iterable[AnyEvent]) -> dict[int, TrialProposed]:
    return {event.number: event for event in events if isinstance(event, TrialProposed)}


def epochs(events: Iterable[AnyEvent], trial: int) -> int:
    return max(event.epoch for event in events if isinstance(event, EpochFinished) and event.trial == trial)


def begun(events: Iterable[AnyEvent]) -> list[int]:
    return [event.trial for event in events if isinstance(event, TrialStarted) and event.attempt == 1]


def assert_same_work(there: list[AnyEvent], here: list[AnyEvent]) -> int:
    """Compare each trial that finished in both runs, and return their number."""
    theirs, mine, both = proposed(there), proposed(here), 0
    ended_there, ended_here = finished(there), finished(here)
    number_here = {event.follows.trial: number for number, event in mine.items() if event.follows is not None}
    for number in ended_here:
        follows = mine[number].follows
        assert follows is not None and mine[number].searcher == "follow"
        other = theirs[follows.trial]
        assert [getattr(mine[number], name) for name in SAME] == [getattr(other, name) for name in SAME]
        assert mine[number].parent == (None if other.parent is None else number_here[other.parent])
        if follows.trial in ended_there:
            both += 1
            assert epochs(here, number) == epochs(there, follows.trial) == follows.epochs
            assert ended_here[number].reason == "followed"
    return both


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[AnyEvent, ...]]:
    """Return the folder of a run of four workers, and the journal of a run of three workers that follows it."""
    folder = tmp_path_factory.mktemp("followed")
    simulated(folder / "earlier", workers=4)
    return folder / "earlier", tuple(simulated(folder / "again", folder / "earlier", workers=3, hours=12.0))


@pytest.mark.parametrize("first", range(0, 20, BLOCK))
def test_faulty_runs_that_follow_faulty_runs_keep_every_law(first: int) -> None:
    """The auditor replays them, recomputes each of their proposals from the followed journal, and sums their work."""
    for seed in range(first, first + BLOCK):
        followed = replace(random_case(1000 + seed), memory_bytes=PLENTY)
        try:
            play(replace(random_case(seed), searches=False, replays=0.02, follows=followed))
        except Failed as failed:
            pytest.fail(explained(failed, keep=Path(f"failed-following-{seed}.jsonl")), pytrace=False)


@pytest.mark.parametrize(("there", "here"), [(6, 6), (6, 2), (2, 9)])
def test_following_run_does_the_same_work_on_any_worker_count(there: int, here: int, tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=there, faults=[WorkerLostConf(rate=0.5)])

    again = simulated(
        tmp_path / "again", tmp_path / "earlier", workers=here, faults=[WorkerLostConf(rate=0.1)], hours=20.0
    )

    assert assert_same_work(earlier, again) == len(finished(earlier)) > 2
    assert isinstance(again[-1], RunEnded) and again[-1].reason == "followed"  # before its time: no trial is left
    assert not any(isinstance(event, TrialRejected) for event in again)


def test_one_worker_trains_in_the_order_of_the_followed_run(tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=5)

    again = simulated(tmp_path / "again", tmp_path / "earlier", workers=1, hours=40.0)

    follows = {number: event.follows.trial for number, event in proposed(again).items() if event.follows is not None}
    assert [follows[number] for number in begun(again)] == begun(earlier)


def test_shorter_following_run_has_done_the_first_of_the_work(tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=3)

    again = simulated(tmp_path / "again", tmp_path / "earlier", workers=3, hours=1.0)

    assert isinstance(again[-1], RunEnded) and again[-1].reason == "duration"
    assert 0 < assert_same_work(earlier, again) < len(finished(earlier))


def test_run_that_follows_a_follower_has_the_first_runs_seeds(tmp_path: Path) -> None:
    first = simulated(tmp_path / "first", workers=3)
    simulated(tmp_path / "second", tmp_path / "first", workers=2, hours=9.0)

    third = simulated(tmp_path / "third", tmp_path / "second", workers=3, hours=9.0)

    by_print = {event.fingerprint: event for event in proposed(first).values()}
    seeds = {trial.proposal.fingerprint: trial.follows.seed for trial in following(tmp_path / "first").work.trials}
    for event in proposed(third).values():
        assert event.fingerprint in by_print and event.follows is not None
        assert event.follows.seed == seeds[event.fingerprint]
    assert len(finished(third)) >= len(finished(first))


@pytest.mark.slow
def test_weights_are_kept_for_every_trial_that_inherits_them(tmp_path: Path) -> None:
    simulated(tmp_path / "earlier", workers=8, hours=6.0)

    again = simulated(tmp_path / "again", tmp_path / "earlier", workers=2, hours=40.0)

    gone: set[int] = set()
    for event in again:
        if isinstance(event, CheckpointDropped):
            gone.add(event.trial)
        elif isinstance(event, TrialProposed):
            assert event.parent not in gone
    assert gone, "more finished than are kept, or this says nothing"
    assert not any(isinstance(event, TrialRejected) for event in again)


def test_unfitting_batch_and_its_children_are_refused(tmp_path: Path) -> None:
    case = replace(random_case(3), workers=3, faults=(), seconds=420.0, searches=False, memory_bytes=PLENTY)

    played = play(replace(case, memory_bytes=SCARCE, follows=case))

    (tmp_path / NAME).write_bytes(played.journal)
    events = list(read(tmp_path))
    reasons = [event.reason for event in events if isinstance(event, TrialRejected)]
    assert any("had batches of 64; the most that fits here" in reason for reason in reasons)
    assert any("which could not be trained here" in reason or "did not finish" in reason for reason in reasons)
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "followed"


@pytest.mark.slow
def test_a_driver_that_dies_goes_on_with_what_is_left(tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=4)

    again = simulated(
        tmp_path / "again", tmp_path / "earlier", workers=4, hours=12.0, faults=[DriverDiesConf(rate=0.01)]
    )

    assert assert_same_work(earlier, again) == len(finished(earlier))


def test_proposals_are_recomputed_from_the_followed_journal_only(
    tmp_path: Path, followed: tuple[Path, tuple[AnyEvent, ...]]
) -> None:
    earlier, again = followed
    simulated(tmp_path / "other", workers=4, seed=1)
    conf = configured()
    proposer = proposer_of(conf.searcher, conf.hpo)
    right, wrong = following(earlier), following(tmp_path / "other")

    made = list(verify_proposals(again, proposer, right.work, right.recorded.last_hash))

    assert made and all(one.is_equal for one in made)
    with pytest.raises(CannotFollow, match=r"The given journal is .* with the hash"):
        list(verify_proposals(again, proposer, wrong.work, wrong.recorded.last_hash))


@pytest.mark.parametrize("name", ["batch_size", "morphs", "seed", "epochs", "order"])
def test_a_proposal_that_is_not_the_followed_runs_is_found(
    name: str, followed: tuple[Path, tuple[AnyEvent, ...]]
) -> None:
    earlier, again = followed[0], list(followed[1])
    right, conf = following(earlier), configured()
    at, victim = [(at, event) for at, event in enumerate(again) if isinstance(event, TrialProposed)][5]
    assert victim.follows is not None
    if name == "order":  # the two trials, one after the other, are exchanged
        place = next(at for at, trial in enumerate(right.work.trials) if trial.number == victim.follows.trial)
        trials = list(right.work.trials)
        trials[place], trials[place + 1] = trials[place + 1], trials[place]
        work = replace(right.work, trials=tuple(trials))
    else:
        work = right.work
        changes: dict[str, dict[str, Any]] = {
            "batch_size": {"batch_size": victim.batch_size // 2},
            "morphs": {"morphs": [*victim.morphs, *victim.morphs]},
            "seed": {"follows": msgspec.structs.replace(victim.follows, seed=1)},
            "epochs": {"follows": msgspec.structs.replace(victim.follows, epochs=victim.follows.epochs + 1)},
        }
        again[at] = msgspec.structs.replace(victim, **changes[name])

    found = []
    for one in verify_proposals(again[: at + 1], proposer_of(conf.searcher, conf.hpo), work, right.recorded.last_hash):
        found += [] if one.is_equal else [one.number]

    assert found == [victim.number]


def test_the_journal_names_its_predecessor_and_omissions(tmp_path: Path) -> None:
    earlier = simulated(tmp_path / "earlier", workers=4, faults=[WorkerLostConf(rate=1.0)])

    first = simulated(tmp_path / "again", tmp_path / "earlier", workers=4)[0]

    assert isinstance(first, RunStarted) and first.follows is not None
    told, numbers = first.follows, sum(isinstance(event, ProposalRequested) for event in earlier)
    assert told.lines == len(earlier) and told.run == "simulated"
    assert told.trials + sum(told.left_out.values()) == numbers and told.trials <= len(begun(earlier))
    assert told.last_hash in (tmp_path / "earlier" / NAME).read_text().splitlines()[-1]


STEP = "learning_rate rate decay_epochs warmup_epochs scale_learning_rate reference_batch momentum weight_decay"


@pytest.mark.parametrize(
    "option", ["dataset.augment", *(f"trainer.{name}" for name in (*STEP.split(), "label_smoothing"))]
)
def test_another_option_of_a_training_step_is_refused(option: str, followed: tuple[Path, tuple[AnyEvent, ...]]) -> None:
    work, first = following(followed[0]).work, followed[1][0]
    assert isinstance(first, RunStarted)
    (ranks,), (part, name) = work.ranks, option.split(".")
    config = work.first.config | {part: work.first.config[part] | {name: "another"}}
    other = replace(work, first=msgspec.structs.replace(work.first, config=config))

    require_same_work(configured(), first, work, ranks, simulated=True)
    with pytest.raises(BadConfiguration, match=f"{option}=another"):
        require_same_work(configured(), first, other, ranks, simulated=True)


def test_a_run_of_which_nothing_was_trained_cannot_be_followed(tmp_path: Path) -> None:
    opening = open_run(configured(workers=1))
    with Journal(tmp_path / NAME, durable=False) as journal:
        journal.append([opening.first])

    with pytest.raises(CannotFollow, match="has none"):
        following(tmp_path)


def test_a_plan_without_a_run_to_follow_searches() -> None:
    opening = open_run(configured(workers=1))

    assert make_plan(opening.plan.conf, opening.plan.shape, opening.plan.dataset).follows is None
