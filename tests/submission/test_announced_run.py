"""A run that was announced begins as it was announced, once, or not at all."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import msgspec
import pytest

from aiperf.config import configure
from aiperf.journal.events import RunEnded, RunStarted
from aiperf.journal.journal import read
from aiperf.ranking.candidate import announced_seed
from aiperf.report.candidate import candidate_of
from aiperf.submission.announced_run import announcement, nonce_fault
from aiperf.submission.announcement_file import add, read_log
from aiperf.submission.announcements import Announcements, RunAnnounced, RunBegun
from aiperf.submission.signatures import sign
from tests.builders.submission import allowed_file, fingerprint, key_file
from tests.rigs.user import Answer, User

WORDS = (
    "+cluster=simulated",
    "cluster.workers=2",
    "schedule.duration_seconds=60",
    "schedule.warmup_seconds=10",
    "searcher=random",
    "hpo=off",
)
NONCE_BY = ("--nonce-by", f"SHA256:{43 * 'A'}")


def unseeded(user: User, *words: str) -> str:
    """The id of a new announcement, without its nonce."""
    other = Path("other") if Path("other").exists() else key_file(Path(), "other")
    by = ["--nonce-by", fingerprint(other)]
    answer: Answer = user("announce", *words, *by, "--key", "key", "--log", "log", "--json")
    assert answer.status == 0, answer.err
    return str(json.loads(answer.out)["id"])


def announced(user: User, *words: str) -> str:
    """The id of a new announcement with its nonce."""
    wanted = unseeded(user, *words)
    answer: Answer = user("announce", "--nonce", wanted, "--key", "other", "--log", "log")
    assert answer.status == 0, answer.err
    return wanted


def begun(user: User, wanted: str, *words: str) -> Answer:
    return user(*words, f"announcement={wanted}", "announcement_log=log")


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("*"))


def test_an_announced_run_begins_once_and_names_its_announcement(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)

    first, second = begun(aiperf, wanted, *WORDS), begun(aiperf, wanted, *WORDS)

    (run,) = runs(tmp_path)
    started, *_, last = read(run)
    assert isinstance(started, RunStarted)
    assert started.config["announcement"] == wanted
    assert isinstance(last, RunEnded) and last.reason == "duration" and first.status != 2, first.err
    assert second.status == 2
    assert f"was used by run '{run.name}'" in second.err
    last_entry = read_log(tmp_path / "log").entries[-1]
    assert isinstance(last_entry.entry, RunBegun) and last_entry.key is None
    assert (last_entry.entry.announcement, last_entry.entry.run) == (wanted, started.run)


def test_the_seed_follows_from_the_nonce_of_another_key(aiperf: User, tmp_path: Path) -> None:
    """The forgery: its announcer signed entries until the seed that followed from the id alone pleased."""
    key_file(tmp_path)
    wanted = unseeded(aiperf, *WORDS)
    give = ["announce", "--nonce", wanted, "--log", "log", "--key"]

    early, plan = begun(aiperf, wanted, *WORDS), begun(aiperf, wanted, *WORDS, "dry_run=true")
    own, given, again = aiperf(*give, "key"), aiperf(*give, "other"), aiperf(*give, "other")
    log = read_log(tmp_path / "log")
    chosen = begun(aiperf, wanted, *WORDS, f"seed={int(wanted[:8], 16)}")

    assert (early.status, plan.status, own.status, given.status, again.status) == (2, 0, 2, 0, 2), plan.err
    assert (
        f"has none. The holder of the key that it names gives it: python -m aiperf announce --nonce {wanted}"
        in early.err
    )
    assert "a nonce is signed by the key that its announcement names" in own.err
    assert "an announcement has one nonce, before its run begins" in again.err
    seed = announced_seed(wanted, sign(tmp_path / "other", wanted.encode()))  # a second request would give no other
    assert log.seed(log.entries[0]) == seed != int(wanted[:8], 16)
    assert f"and seed {seed} follows from the announcement" in chosen.err
    assert runs(tmp_path) == []


def test_an_announcement_without_a_nonce_is_read_and_begins_no_run(aiperf: User, tmp_path: Path) -> None:
    """Logs of earlier releases stay readable. Their announcers could choose the seed."""
    key = key_file(tmp_path)

    def former(log: Announcements) -> RunAnnounced:
        return msgspec.structs.replace(announcement(configure(WORDS), log, 1.0, ""), nonce_by=msgspec.UNSET)

    signed, _ = add(tmp_path / "log", key, former)

    assert b"nonce" not in signed.content
    assert aiperf("announce", "--show", "--log", "log").status == 0
    assert "withdraw it, and announce the run again" in begun(aiperf, signed.id, *WORDS).err
    assert nonce_fault(read_log(tmp_path / "log"), signed, {}).endswith("so the announcer could choose it")


def test_no_key_gives_its_own_announcement_a_nonce(aiperf: User, tmp_path: Path) -> None:
    own = fingerprint(key_file(tmp_path))

    answer = aiperf("announce", *WORDS, "--key", "key", "--log", "log", "--nonce-by", own)

    assert "which is not the key of the announcement" in answer.err
    assert not (tmp_path / "log").exists()


def test_a_log_in_a_folder_with_a_slash_gets_the_folder(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)

    by = ["--nonce-by", fingerprint(key_file(tmp_path, "other"))]
    answer = aiperf("announce", *WORDS, *by, "--key", "key", "--log", "site/")

    assert answer.status == 0, answer.err
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["announcements.jsonl"]
    assert aiperf("announce", *WORDS, *by, "--key", "key", "--log", "no/site/").status == 2


def test_a_wrong_key_file_is_refused_without_its_content(aiperf: User, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("swordfish" * 1000)

    answer = aiperf("announce", *WORDS, "--key", "secret", "--log", "log", "--nonce-by", f"SHA256:{43 * 'A'}")

    assert answer.status == 2
    assert "'secret' is another file" in answer.err
    assert "swordfish" not in answer.err and len(answer.err) < 500


def test_a_run_with_the_seed_of_its_announcement_is_as_announced(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    by = fingerprint(key_file(tmp_path, "other"))
    printed = aiperf("announce", *WORDS, "--key", "key", "--log", "log", "--nonce-by", by)
    nonce, start = [shlex.split(line) for line in printed.out.splitlines()[-2:]]

    given = aiperf(*("other" if word == "THEIR_KEY" else word for word in nonce[nonce.index("announce") :]))
    answer = aiperf(*start[next(at for at, word in enumerate(start) if "=" in word) :])

    assert given.status == 0, given.err

    assert answer.status != 2, answer.err
    (run,) = runs(tmp_path)
    started = next(iter(read(run)))
    assert isinstance(started, RunStarted)
    assert started.seed == announced_seed(str(started.config["announcement"]), started.nonce)
    assert (started.nonce, started.config["seed"]) == (
        sign(tmp_path / "other", str(started.config["announcement"]).encode()),
        started.seed,
    )
    assert candidate_of(read(run)).seed_source == "announcement"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["schedule.duration_seconds=61"], "schedule.duration_seconds is 61.0, and 60.0 was announced"),
        (["hpo=tpe"], "hpo.name is 'tpe', and 'off' was announced"),
        (["cluster.workers=3"], "cluster.workers is 3, and 2 was announced"),
        (["name=other"], "name is 'other', and None was announced"),
    ],
)
def test_a_differing_run_is_rejected_before_anything_is_created(
    aiperf: User,
    tmp_path: Path,
    words: list[str],
    expected: str,
) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)

    others = [word for word in WORDS if word.split("=")[0] != words[0].split("=")[0]]
    answer = begun(aiperf, wanted, *others, *words)

    assert answer.status == 2
    assert expected in answer.err
    assert runs(tmp_path) == []
    assert not [path for path in tmp_path.iterdir() if path.is_dir()], "the announcement is still free"


def test_other_rules_or_an_early_start_are_rejected(
    aiperf: User,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)
    monkeypatch.setattr("aiperf.submission.announced_run.RULES", 99)
    monkeypatch.setattr("aiperf.submission.announced_run.time.time", lambda: 1_000_000.0)

    answer = begun(aiperf, wanted, *WORDS)

    assert "its proposals follow rules 99, and rules" in answer.err
    assert "s before it was announced" in answer.err


def test_a_withdrawn_or_missing_announcement_is_rejected(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)
    aiperf("announce", "--withdraw", wanted, "--why", "node 7 burnt", "--key", "key", "--log", "log")

    assert "was withdrawn (node 7 burnt)" in begun(aiperf, wanted, *WORDS).err
    assert "holds no announced run" in begun(aiperf, "0" * 64, *WORDS).err
    assert "64 hexadecimal digits" in begun(aiperf, "abc", *WORDS).err
    assert "announcement=ID announcement_log=FILE" in aiperf(*WORDS, f"announcement={wanted}").err
    assert runs(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--key", "key", *NONCE_BY], "--log"),
        (["--log", "log", *NONCE_BY], "--key KEY"),
        (["--log", "log", "--key", "nokey", *NONCE_BY], "'nokey' does not exist"),
        (["--log", "log", "--key", "key"], "one of the arguments --nonce-by --nonce --show --withdraw is required"),
        (["--log", "log", "--key", "key", "--nonce-by", "site-b"], "ssh-keygen -lf THEIR_KEY.pub prints it"),
        (["--log", "log", "--key", "key", *NONCE_BY, "dry_run=true"], "Leave dry_run out"),
        (["--log", "log", "--key", "key", *NONCE_BY, "seed=7"], "Leave seed=7 out"),
        (["--log", "log", "--key", "key", *NONCE_BY, "seed=-1"], "seed is at least 0"),
        (["--log", "log", "--key", "key", *NONCE_BY, "sead=1"], "did you mean"),
        (["--log", "log", "--key", "key", "--withdraw", "0"], "need each other"),
        (["--log", "log", "--show", "seed=1"], "seed=1 cannot be combined with"),
        (["--log", "log", "--show"], "'log' does not exist"),
    ],
)
def test_an_invalid_announcement_is_rejected_and_not_written(
    aiperf: User,
    tmp_path: Path,
    words: list[str],
    expected: str,
) -> None:
    key_file(tmp_path)

    answer = aiperf("announce", *words)

    assert answer.status == 2
    assert expected in answer.err
    assert not (tmp_path / "log").exists() or (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["schedule=ranking", "dataset=imagenet"], "needs its folder: dataset.root=FOLDER"),
        (["dataset=imagenet", "dataset.root=nowhere"], "there is no folder 'nowhere"),
        (["start=nograph"], "nograph"),
        (["follow=norun"], "norun"),
        (["+cluster=simulated", "budget.memory_bytes=1000"], "memory"),
        (["+cluster=slurm", "cluster.nodes=2", "cluster.gpus_per_node=4", "dataset=imagenet"], "dataset.root=FOLDER"),
    ],
)
def test_a_run_that_cannot_start_is_not_announced(
    aiperf: User, tmp_path: Path, words: list[str], expected: str
) -> None:
    """What the plan of the run refuses, `announce` refuses."""
    key_file(tmp_path)
    planned, answer = (
        aiperf(*words, "dry_run=true"),
        aiperf("announce", *words, "--key", "key", "--log", "site/", *NONCE_BY),
    )

    assert (answer.status, answer.err) == (planned.status, planned.err)
    assert expected in answer.err
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("words", "division", "expected"),
    [
        ([], "quick", []),
        (["searcher=random", "trainer.inherit=false"], "quick", ["found: searcher random", "fresh weights"]),
        (["follow=reference"], "reference", []),
        (["schedule=ranking"], "ranking", ["data set 'digits'", "system.site=… system.name=…"]),
        (
            [
                "+cluster=slurm",
                "cluster.nodes=2",
                "schedule=ranking",
                "dataset=imagenet",
                "dataset.root=/x",
                "batch.default=9",
            ],
            "ranking",
            ["system.site=… system.name=…", "batch.default=9"],
        ),
        (["+cluster=simulated"], "quick", ["a simulated run"]),
        (["benchmark=hpc_ai500_ic", "+cluster=simulated"], "none", ["with system.site and system.name"]),
    ],
)
def test_the_rules_that_a_run_would_break_are_printed(
    aiperf: User, tmp_path: Path, words: list[str], division: str, expected: list[str]
) -> None:
    key_file(tmp_path)
    answer = aiperf("announce", *words, "--key", "key", "--log", "log", *NONCE_BY)
    broken = json.loads(aiperf("announce", *words, "--key", "key", "--log", "log", *NONCE_BY, "--json").out)[
        "broken_rules"
    ]

    assert re.search(
        f"division    {division}: (a fixed network|the run {'BREAKS' if expected else 'breaks none'})", answer.out
    )
    assert bool(expected) == bool(broken)
    assert all(any(text in line for line in broken) and text in answer.out for text in expected)


def test_a_log_is_shown_with_whose_key_it_was(aiperf: User, tmp_path: Path) -> None:
    site = key_file(tmp_path)
    allowed_file(tmp_path, site=site)
    wanted = unseeded(aiperf, *WORDS)
    known = aiperf("announce", "--show", "--log", "log", "--allowed", "allowed_signers")
    aiperf("announce", "--nonce", wanted, "--key", "other", "--log", "log")
    unknown = aiperf("announce", "--show", "--log", "log", "--allowed", "allowed_signers")
    shown = json.loads(aiperf("announce", "--show", "--log", "log", "--json").out)

    assert (known.status, unknown.status) == (0, 1)
    assert f"{wanted}  site" in known.out
    assert "nonce" in unknown.out and "UNKNOWN KEY SHA256:" in unknown.out
    assert [entry["entry"] for entry in shown["entries"]] == ["announced", "nonce"]
    assert shown["head"] == shown["entries"][1]["id"]
