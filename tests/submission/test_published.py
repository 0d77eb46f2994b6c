"""How many of the runs that a site announced it has published, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.config import configure
from aiperf.journal.events import RunStarted
from aiperf.journal.first_line import config_hash
from aiperf.submission.announced_run import announcement
from aiperf.submission.announcement_file import add, read_log
from aiperf.submission.announcements import Announcements, HeadWitnessed, RunAnnounced, RunWithdrawn
from aiperf.submission.published import announced, witnessed_unix
from tests.journals import started
from tests.submission.keys import new_signer

ANNOUNCED_UNIX = 1_790_000_000.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Announcements:
    """Four runs, of seeds 0 to 3: the last one by another key. Then a witness of all."""
    folder = tmp_path_factory.mktemp("log")
    conf = configure([])
    signers = [new_signer(folder, name) for name in ("one", "two", "witness")]
    for seed in range(4):
        of_seed = replace(conf, seed=seed)
        add(folder / "log", signers[seed == 3], lambda log, conf=of_seed: announcement(conf, log, ANNOUNCED_UNIX))  # type: ignore[misc]
    add(
        folder / "log",
        signers[2],
        lambda log: HeadWitnessed(number=5, previous=log.head, at_unix=ANNOUNCED_UNIX + 60),
    )
    return read_log(folder / "log")


def run_of(log: Announcements, number: int) -> RunStarted:
    """The first line of a run as entry `number` announced it."""
    signed = log.entries[number - 1]
    assert isinstance(signed.entry, RunAnnounced)
    config = signed.entry.config | {"announcement": signed.id, "announcement_log": "log", "runs": "elsewhere"}
    return started(
        run=f"run-{number}",
        config=config,
        config_hash=config_hash(config),
        seed=signed.entry.seed,
        proposal_rules=signed.entry.proposal_rules,
        started_unix=ANNOUNCED_UNIX + 100.0 * number,
    )


@settings(max_examples=20)
@given(st.lists(st.integers(1, 4), max_size=8))
def test_each_announced_run_counts_once_however_often_it_is_published(log: Announcements, numbers: list[int]) -> None:
    found = announced(log, [run_of(log, number) for number in numbers])

    assert (found.published, found.announced) == (len(set(numbers)), 4)
    assert {missing.number for missing in found.missing} == {1, 2, 3, 4} - set(numbers)
    assert found.words == f"{len(set(numbers))} of 4 announced runs published"
    assert (found.unannounced, found.broken, found.used_twice, found.forked) == ((), (), (), 0)
    assert [(key.announced, key.published) for key in found.by_key] == [
        (3, len({1, 2, 3} & set(numbers))),
        (1, len({4} & set(numbers))),
    ]


def test_runs_that_do_not_fit_are_named_with_how(log: Announcements) -> None:
    stranger = started(run="stranger")
    early = msgspec.structs.replace(run_of(log, 1), started_unix=ANNOUNCED_UNIX - 3600)
    other = run_of(log, 2)
    other = msgspec.structs.replace(other, config=other.config | {"seed": 7})
    first, again = run_of(log, 3), msgspec.structs.replace(run_of(log, 3), run="again")

    found = announced(log, [stranger, early, other, first, again])

    assert found.published == 1
    assert found.unannounced == ("stranger",)
    assert dict(found.broken) == {
        "run-1": ("it began 3600 s before it was announced",),
        "run-2": ("seed is 7, and 1 was announced",),
    }
    assert [names for _, names in found.used_twice] == [("run-3", "again")]


def test_a_withdrawn_run_stays_announced_and_its_reason_is_told(log: Announcements, tmp_path: Path) -> None:
    signer = new_signer(tmp_path)
    signed, _ = add(tmp_path / "log", signer, lambda log: announcement(configure([]), log, ANNOUNCED_UNIX))
    add(
        tmp_path / "log",
        signer,
        lambda log: RunWithdrawn(number=2, previous=log.head, at_unix=1.0, announcement=signed.id, reason="no power"),
    )

    found = announced(read_log(tmp_path / "log"), [])

    assert found.words == "0 of 1 announced runs published"
    assert [missing.withdrawn for missing in found.missing] == ["no power"]


def test_a_log_that_was_cut_or_begun_anew_since_a_submission_is_told(log: Announcements, tmp_path: Path) -> None:
    cut = replace(log, entries=log.entries[:3])
    add(tmp_path / "log", new_signer(tmp_path), lambda log: announcement(configure([]), log, ANNOUNCED_UNIX))
    anew = read_log(tmp_path / "log")

    assert announced(log, [], [cut, log]).forked == 0
    assert announced(cut, [], [cut, log]).forked == 1
    assert announced(anew, [], [cut, log]).forked == 2


def test_a_witness_is_somebody_elses_key_after_the_announcement(log: Announcements) -> None:
    last = log.entries[4]
    own = replace(log, entries=(*log.entries[:4], replace(last, key=log.entries[0].key)))

    assert witnessed_unix(log, log.entries[0]) == ANNOUNCED_UNIX + 60
    assert witnessed_unix(own, own.entries[0]) is None
    assert witnessed_unix(own, own.entries[3]) == ANNOUNCED_UNIX + 60
