"""A real run that follows a real run trains the same trials: networks, batches, epochs and operations."""

from __future__ import annotations

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent, EpochFinished, RunEnded, TrialFinished, TrialPrepared, TrialProposed
from aiperf.journal.journal import read
from aiperf.ranking.levels import is_of_step
from aiperf.rules.followed import following
from aiperf.rules.proposals import Proposer
from searchers.searcher_config import RandomConf
from tests.builders.verified_proposals import verify_proposals
from tests.rigs.real_run import Begin, small

TRIALS = 3
OF_A_TRIAL = ("fingerprint", "batch_size", "forward_flops", "backward_flops")


def curves(events: list[AnyEvent]) -> dict[int, list[float]]:
    """The validation losses of each trial that finished, epoch by epoch."""
    found: dict[int, dict[int, float]] = {}
    for event in events:
        if isinstance(event, EpochFinished):
            assert event.validation_loss is not None
            found.setdefault(event.trial, {})[event.epoch] = event.validation_loss
    ended = [event.trial for event in events if isinstance(event, TrialFinished)]
    return {trial: [found[trial][epoch] for epoch in sorted(found[trial])] for trial in ended}


def flops(events: list[AnyEvent]) -> dict[int, float]:
    """Counted operations of each trial that finished."""
    rows = work_log(events).intervals
    return {trial: float(rows.flops[rows.trial == trial].sum()) for trial in curves(events)}


def proposals(events: list[AnyEvent]) -> dict[int, TrialProposed]:
    return {event.number: event for event in events if isinstance(event, TrialProposed)}


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_a_following_run_does_the_same_work_trial_by_trial(executor: str, begin: Begin) -> None:
    words = small(
        "dataset.training_images=64",
        "dataset.validation_images=32",
        "schedule.epochs=[2]",
        "schedule.duration_seconds=7200",
        "schedule.warmup_seconds=1",
        f"executor={executor}",
        "trainer.threads=1",
    )
    earlier = begin(*words, f"limits.trials={TRIALS}")
    assert earlier.wait() == 0, earlier.output.read_text()
    there, folder = earlier.events(), earlier.folder

    again = begin(*words, f"follow={folder}", "name=again", f"limits.trials={TRIALS}")
    assert again.wait() == 0, again.output.read_text()
    (found,) = folder.parent.glob("*-again")
    here = list(read(found))

    assert_same(there, here)
    said = again.output.read_text()
    assert f"list of '{folder.name}'" in said and "following score" in said and "Outside the ranking" in said
    right = following(folder, is_of_step)
    nobody = Proposer(RandomConf().build(), None)
    made = list(verify_proposals(here, nobody, right.work))
    assert made and all(one.is_equal for one in made)


def assert_same(there: list[AnyEvent], here: list[AnyEvent]) -> None:
    theirs, mine, order = proposals(there), proposals(here), list(curves(there))
    pairs = {trial: order[mine[trial].follows.trial] for trial in curves(here)}  # type: ignore[union-attr]
    assert len(pairs) >= TRIALS and isinstance(here[-1], RunEnded)
    assert list(pairs.values()) == order[: len(pairs)]
    for trial, other in pairs.items():
        for name in OF_A_TRIAL:
            assert getattr(mine[trial], name) == getattr(theirs[other], name)
        assert mine[trial].parent is None and len(curves(here)[trial]) == len(curves(there)[other])
        assert flops(here)[trial] == flops(there)[other]
    ranks = {event.ranks for events in (there, here) for event in events if isinstance(event, TrialPrepared)}
    assert len(ranks) == 1
    assert score(work_log(here)).valid
