"""Counts of announced and published runs, and their differences."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.config import configure
from aiperf.journal.events import RunStarted
from aiperf.journal.first_line import config_hash
from aiperf.submission.announced_run import announced, announcement, rivals
from aiperf.submission.announcement_file import add, read_log
from aiperf.submission.announcements import (
    Announcements,
    HeadWitnessed,
    RunAnnounced,
    RunBegun,
    RunWithdrawn,
)
from tests.builders.journal import started
from tests.builders.submission import fingerprint, give_nonce, key_file

ANNOUNCED_UNIX = 1_790_000_000.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Announcements:
    """Announce four runs, the last with another key, add a witness, and begin all four."""
    folder = tmp_path_factory.mktemp("log")
    keys = [key_file(folder, name) for name in ("one", "two", "witness")]
    announce(folder / "log", 3, keys[0])
    announce(folder / "log", 1, keys[1])
    add(folder / "log", keys[2], witness)
    for number in range(1, 5):
        begin(folder / "log", number)
    return read_log(folder / "log")


def announce(log: Path, runs: int, key: Path) -> None:
    giver = log.with_name("nonce-key")
    by = fingerprint(giver if giver.exists() else key_file(log.parent, giver.name))
    for _ in range(runs):
        add(log, key, lambda log: announcement(configure([]), log, ANNOUNCED_UNIX, by))


def witness(log: Announcements) -> HeadWitnessed:
    return HeadWitnessed(number=len(log.entries) + 1, previous=log.head, at_unix=ANNOUNCED_UNIX + 60)


def begin(path: Path, number: int) -> None:
    """Add the nonce of an announcement, and the entry that the driver of `run_of(log, number)` adds."""
    wanted = read_log(path).entries[number - 1].id
    give_nonce(path, wanted, path.with_name("nonce-key"), ANNOUNCED_UNIX + 100.0 * number)

    def begun(log: Announcements) -> RunBegun:
        first = run_of(log, number)
        return RunBegun(
            number=len(log.entries) + 1,
            previous=log.head,
            at_unix=first.started_unix,
            announcement=log.entries[number - 1].id,
            run=first.run,
            started_unix=first.started_unix,
            folder="elsewhere",
            host="host",
        )

    add(path, None, begun)


def run_of(log: Announcements, number: int) -> RunStarted:
    """The first line of a run as entry `number` announced it."""
    signed = log.entries[number - 1]
    assert isinstance(signed.entry, RunAnnounced)
    seed = log.seed(signed)
    nonce, _ = log.nonces().get(signed.id, (None, ""))
    own = {"announcement": signed.id, "announcement_log": "log", "runs": "elsewhere", "seed": seed}
    config = signed.entry.config | own
    return started(
        run=f"run-{number}",
        config=config,
        config_hash=config_hash(config),
        seed=seed or 0,
        nonce=nonce,
        proposal_rules=signed.entry.proposal_rules,
        started_unix=ANNOUNCED_UNIX + 100.0 * number,
    )


@settings(max_examples=20)
@given(st.lists(st.integers(1, 4), max_size=8))
def test_each_announced_run_counts_once(log: Announcements, numbers: list[int]) -> None:
    found = announced(log, [run_of(log, number) for number in numbers])

    assert (found.published, found.announced) == (len(set(numbers)), 4)
    assert {missing.number for missing in found.missing} == {1, 2, 3, 4} - set(numbers)
    assert found.words == f"{len(set(numbers))} of 4 announced runs published"
    assert (found.unannounced, found.broken, found.used_twice) == ((), (), ())


def test_runs_that_do_not_fit_are_named_with_how(log: Announcements) -> None:
    stranger = started(run="stranger")
    early = msgspec.structs.replace(run_of(log, 1), started_unix=ANNOUNCED_UNIX - 3600)
    other = run_of(log, 2)
    other = msgspec.structs.replace(other, config=other.config | {"seed": 7})
    first, again = run_of(log, 3), msgspec.structs.replace(run_of(log, 3), run="again")

    found = announced(log, [stranger, early, other, first, again])

    assert found.published == 1
    assert found.unannounced == ("stranger",)
    broken = dict(found.broken)
    assert "it began 3600 s before it was announced" in broken["run-1"]
    assert [text.partition(", and")[0] for text in broken["run-2"]] == ["seed is 7"]
    assert "'run-3' as the one run of this announcement" in broken["again"][0]
    assert [names for _, names in found.used_twice] == [("run-3", "again")]


def test_a_log_has_all_entries_from_before_the_end_of_its_runs(log: Announcements) -> None:
    early = replace(log, entries=log.entries[:4])

    def lacks(until: float) -> dict[str, str]:
        return rivals({"early": (early, until), "log": (log, math.inf)})

    assert lacks(ANNOUNCED_UNIX + 60) == rivals({"a": (log, math.inf), "b": (log, math.inf)}) == {}
    text = "a log has all its entries, but entries 5 to {} are in 'log' alone"
    assert lacks(ANNOUNCED_UNIX + 61) == {"early": text.format(5)}
    assert lacks(math.inf) == {"early": text.format(13)}


def test_a_withdrawn_run_stays_announced_with_its_reason(log: Announcements, tmp_path: Path) -> None:
    key = key_file(tmp_path)
    announce(tmp_path / "log", 1, key)
    (signed,) = read_log(tmp_path / "log").entries
    add(
        tmp_path / "log",
        key,
        lambda log: RunWithdrawn(number=2, previous=log.head, at_unix=1.0, announcement=signed.id, reason="no power"),
    )

    found = announced(read_log(tmp_path / "log"), [])

    assert found.words == "0 of 1 announced runs published"
    assert [missing.withdrawn for missing in found.missing] == ["no power"]


def test_one_announcement_serves_one_run_in_separate_bundles(log: Announcements) -> None:
    """Each of two runs is published alone, with the whole log: only the run that the log has as begun fits."""
    first = run_of(log, 1)
    other = msgspec.structs.replace(first, started_unix=first.started_unix + 7200)

    assert announced(log, [first]).broken == ()
    ((name, how),) = announced(log, [other]).broken
    assert (name, announced(log, [other]).published) == ("run-1", 0)
    assert "as the one run of this announcement" in how[0]


def test_a_run_without_a_begun_entry_is_broken(tmp_path: Path) -> None:
    announce(tmp_path / "log", 1, key_file(tmp_path))
    log = read_log(tmp_path / "log")

    assert announced(log, [run_of(log, 1)]).broken == (
        (
            "run-1",
            ("the log has no nonce for its seed", "the log has no entry that a run began with this announcement"),
        ),
    )


def test_a_withdrawal_of_a_used_announcement_is_reported(tmp_path: Path) -> None:
    path, key = tmp_path / "log", key_file(tmp_path)
    announce(path, 2, key)
    ids = [each.id for each in read_log(path).entries]

    def withdraw(number: int) -> None:
        add(
            path,
            key,
            lambda log: RunWithdrawn(
                number=len(log.entries) + 1,
                previous=log.head,
                at_unix=1.0,
                announcement=ids[number - 1],
                reason="why not",
            ),
        )

    begin(path, 1)
    withdraw(1)
    withdraw(2)
    begin(path, 2)
    log = read_log(path)
    found = announced(log, [run_of(log, 1), run_of(log, 2)])

    assert found.withdrawn == (("run-1", "why not"), ("run-2", "why not"))
    assert found.broken == (("run-2", ("the announcement had been withdrawn when it began (why not)",)),)
    assert [(each.begun, each.withdrawn) for each in announced(log, []).missing] == [
        ("run-1", "why not"),
        ("run-2", "why not"),
    ]
