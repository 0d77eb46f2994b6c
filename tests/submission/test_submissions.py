"""Inspection of submissions: valid, false and uncheckable parts are reported."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.__main__ import main
from aiperf.cli.verbs.rules.inspect import parts
from aiperf.journal.events import RunStarted
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import NAME, read
from aiperf.page.terminal import parts_lines
from aiperf.report.write import report_of
from aiperf.submission.announcement_file import read_log
from aiperf.submission.announcements import Announcements, RunBegun, content_of, line_of, parse
from aiperf.submission.inspect_run import Inspection, Requirements
from aiperf.submission.inspect_submission import inspect, inspect_all
from aiperf.submission.signatures import read_allowed, sign
from aiperf.system.log import Log, Session, path
from aiperf.system.source import CONFIGURATION, PACKAGES, installed, revision
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS, KeptCheckpoints
from tests.builders.submission import (
    Members,
    allowed_file,
    edited,
    fingerprint,
    key_file,
    members_of,
    repacked,
    rewritten,
)
from tests.rigs.user import User
from tests.system.test_energy import metered

SIMULATED = (
    "+cluster=simulated",
    "cluster.workers=2",
    "schedule.duration_seconds=600",  # any seed, since it follows from the announcement, does some work in it
    "schedule.warmup_seconds=10",
    "searcher=random",
    "hpo=off",
)
JOURNAL = "runs/1/journal.jsonl"


@dataclass(frozen=True, slots=True)
class Site:
    """A site with a key, a log that announces two runs, one of which was made, and a submission of it."""

    folder: Path
    run: Path
    bundle: Path

    @property
    def key(self) -> Path:
        return self.folder / "key"

    def judged(self, bundle: Path, *, with_signers: bool = True) -> Inspection:
        return inspect(bundle, Requirements(read_allowed(self.folder / "allowed_signers") if with_signers else None))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    allowed_file(folder, site=key_file(folder), other=key_file(folder, "other"))
    key_file(folder, "stranger")
    log, key = str(folder / "log"), str(folder / "key")
    signed = ["--key", key, "--log", log, "--nonce-by", fingerprint(folder / "other")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["announce", *SIMULATED, *signed]) == 0
        assert main(["announce", *SIMULATED, "name=other", *signed]) == 0
        wanted = read_log(folder / "log").entries[0].id
        assert main(["announce", "--nonce", wanted, "--key", str(folder / "other"), "--log", log]) == 0
        main([*SIMULATED, f"announcement={wanted}", f"announcement_log={log}"])
        (run,) = (folder / "runs").iterdir()
        assert main(["submit", str(run), "--key", key, "--allowed", "allowed_signers", "--out", "bundle"]) == 0
    return Site(folder, run, folder / "bundle")


def bad(found: Inspection) -> list[str]:
    return [f"{finding.check}: {finding.text}" for finding in found.findings if finding.outcome == "bad"]


def test_an_honest_submission_is_good_with_its_notes(site: Site) -> None:
    found = site.judged(site.bundle)
    notes = {finding.text for finding in found.findings if finding.outcome == "note"}

    assert (found.signature, found.signers, bad(found), found.is_good) == ("good", ("site",), [], True)
    assert "simulated: no machine did this work" in notes
    assert "telemetry: none recorded. It cannot be checked" in notes
    assert "in this submission: 1 of 2 announced runs published" in notes
    assert found.announced is not None
    assert (found.announced.published, found.announced.announced) == (1, 2)


def test_checkpoints_kept_at_the_end_spoil_no_submission(site: Site, tmp_path: Path) -> None:
    """A run that reached its declared end has `checkpoints/kept.json`, which no receiver can recompute."""
    run = Path(shutil.copytree(site.run, tmp_path / "run"))
    (run / CHECKPOINTS).mkdir()
    KeptCheckpoints(keep="best", files=1, bytes=9_138_504, removed_files=6, removed_bytes=52_900_000).save(run)

    status = main(["submit", str(run), "--log", str(site.folder / "log"), "--out", str(tmp_path / "bundle")])

    assert report_of(run).checkpoints is not None
    assert status == 0
    assert bad(site.judged(tmp_path / "bundle", with_signers=False)) == []


def test_packed_and_plain_telemetry_are_members_and_are_read(site: Site, tmp_path: Path) -> None:
    run = Path(shutil.copytree(site.run, tmp_path / "run"))
    for file in (path(run, 0), path(run, 1).with_suffix("")):
        telemetry = Log(file)
        telemetry.begin(Session(host="n", worker=0, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=()))
        telemetry.close()

    status = main(["submit", str(run), "--log", str(site.folder / "log"), "--out", str(tmp_path / "bundle")])

    assert status == 0 and bad(site.judged(tmp_path / "bundle", with_signers=False)) == []
    members = {name: content for name, content in members_of(tmp_path / "bundle").items() if "/telemetry/" in name}
    folder = "runs/1/telemetry"
    names = ("0.jsonl.gz", "0.minutes.jsonl", "1.jsonl", "1.minutes.jsonl")
    assert members == {f"{folder}/{name}": (run / "telemetry" / name).read_bytes() for name in names}
    assert gzip.decompress(members[f"{folder}/0.jsonl.gz"]) == members[f"{folder}/1.jsonl"]


def test_a_torn_last_line_has_the_common_message(site: Site) -> None:
    def torn(members: Members) -> None:
        (journal,) = (name for name in members if name.endswith(JOURNAL))
        members[journal] += b'{"kind":"Progress","at":99.5'

    found = site.judged(repacked(site.bundle, torn, site.key))

    expected = "the journal's last line is incomplete, 28 bytes, and was dropped"
    outcomes = [each.outcome for each in found.findings if each.check == "verify" and expected in each.text]
    assert outcomes == ["note"], found.findings


def test_equal_runs_make_equal_submissions(site: Site, tmp_path: Path) -> None:
    again = tmp_path / "again"

    status = main(["submit", str(site.run), "--key", str(site.key), "--out", str(again)])

    assert status == 0
    assert again.read_bytes() == site.bundle.read_bytes()


def test_unsigned_unknown_key_and_bad_signature_differ(site: Site) -> None:
    stranger = site.folder / "stranger"
    signature_of_another = sign(site.key, b"another manifest")

    unsigned = site.judged(repacked(site.bundle, lambda _: None))
    unknown = site.judged(repacked(site.bundle, lambda _: None, stranger))
    wrong = site.judged(repacked(site.bundle, lambda _: None, signature=signature_of_another))
    garbled = site.judged(repacked(site.bundle, lambda _: None, signature="no signature"))
    nobody = site.judged(site.bundle, with_signers=False)

    assert [each.signature for each in (unsigned, unknown, wrong, garbled, nobody)] == [
        "unsigned",
        "unknown key",
        "bad signature",
        "bad signature",
        "not checked",
    ]
    assert [each.is_good for each in (unsigned, unknown, wrong, garbled, nobody)] == [False, False, False, False, True]
    assert site.judged(repacked(site.bundle, lambda _: None), with_signers=False).is_good


def _first(**fields: Any) -> Callable[[int, Any], Any]:
    return lambda number, event: msgspec.structs.replace(event, **fields) if number == 1 else event


def _seeded(number: int, event: Any) -> Any:
    if not isinstance(event, RunStarted):
        return event
    config = event.config | {"seed": 5}
    return msgspec.structs.replace(event, seed=5, config=config, config_hash=config_hash(config))


def _dropped(name: str) -> Callable[[Members], None]:
    return lambda members: members.__delitem__(name)


CHANGED: dict[str, tuple[Callable[[Members], None], str]] = {
    "another run": (
        edited("submission.json", lambda document: document["runs"][0].update(run="other")),
        "submission: submission.json has run 'other'",
    ),
    "a run that is not listed": (
        lambda members: members.update({"runs/2/journal.jsonl": b""}),
        "members: runs/2/journal.jsonl is of no run that submission.json lists",
    ),
    "telemetry that does not exist": (
        edited("submission.json", lambda document: document["runs"][0].update(telemetry="included")),
        "submission: submission.json has telemetry 'included'",
    ),
    "no journal": (_dropped(JOURNAL), "members: journal.jsonl is missing"),
    "no announcements": (_dropped("announcements.jsonl"), "announced: it names announcement"),
    "a shorter log": (
        lambda members: members.update(
            {"announcements.jsonl": members["announcements.jsonl"].splitlines(keepends=True)[0]}
        ),
        "announcements: submission.json names another head",
    ),
    "a log without the first line": (
        lambda members: members.update(
            {"announcements.jsonl": members["announcements.jsonl"].splitlines(keepends=True)[1]}
        ),
        "its hash does not follow from the line before it",
    ),
    "a journal with a line removed": (
        lambda members: members.update(
            {JOURNAL: b"".join(line for at, line in enumerate(members[JOURNAL].splitlines(True)) if at != 5)}
        ),
        "journal: journal damaged at line 6",
    ),
    "a journal of another seed, chained anew": (
        rewritten(JOURNAL, _seeded),
        "announced: not as announced: seed is 5, and seed",
    ),
    "a journal of other rules, chained anew": (
        rewritten(JOURNAL, _first(proposal_rules=1)),
        "announced: not as announced: its proposals follow rules 1",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changes_are_found_even_if_signed_again(site: Site, name: str) -> None:
    change, expected = CHANGED[name]

    found = site.judged(repacked(site.bundle, change, site.key))

    assert found.signature == "good"
    assert any(expected in text for text in bad(found)), found.findings


def test_a_member_that_was_changed_after_it_was_signed_is_named(site: Site, tmp_path: Path) -> None:
    whole = gzip.decompress(site.bundle.read_bytes())
    (tmp_path / "changed").write_bytes(gzip.compress(whole.replace(b"</html>", b"</HTML>")))

    found = site.judged(tmp_path / "changed")

    assert "checksums: runs/1/report.html differs from the manifest: it was changed since" in bad(found)


def test_a_run_submitted_twice_is_reported(site: Site, tmp_path: Path) -> None:
    shutil.copytree(site.run, tmp_path / "copy")

    status = main(["submit", str(site.run), str(tmp_path / "copy"), "--out", str(tmp_path / "twice")])

    assert status == 1
    assert not (tmp_path / "twice").exists()


def test_sources_are_checked_against_installation_or_checkout(site: Site, tmp_path: Path) -> None:
    versions = revision()
    for package in (*PACKAGES, CONFIGURATION):
        shutil.copytree(installed() / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))

    def of_a_real_driver(members: Members) -> None:
        rewritten(JOURNAL, _first(versions=versions))(members)

    bundle = repacked(site.bundle, of_a_real_driver)
    here, there = inspect(bundle), inspect(bundle, Requirements(source=tmp_path))
    (tmp_path / "aiperf" / "units.py").write_text("# another")
    other = inspect(bundle, Requirements(source=tmp_path))

    outcomes = [
        [finding.outcome for finding in found.findings if finding.check == "source"] for found in (here, there, other)
    ]
    assert outcomes == [["good"], ["good"], ["bad"]]


def test_a_run_that_breaks_its_division_is_bad(aiperf: User, site: Site) -> None:
    inspected = json.loads(aiperf("inspect", str(site.bundle), "--division", "quick", "--json").out)["submissions"]
    unknown = aiperf("inspect", str(site.bundle), "--division", "quack")

    broken = [finding["text"] for finding in inspected[0]["findings"] if finding["check"] == "breaches"]
    assert any("a simulated run" in text for text in broken)
    assert not inspected[0]["is_good"]
    assert unknown.status == 2
    assert "quack" in unknown.err


def test_an_unknown_format_is_rejected_with_the_fix(site: Site) -> None:
    found = site.judged(repacked(site.bundle, edited("submission.json", lambda document: document.update(format=2))))

    assert bad(found) == [
        "archive: this release reads submission.json of format 1, but found 2. Read it with the release that made it"
    ]


@pytest.mark.parametrize("content", [b"[]", b"{}", b"{", b'{"format": 1}', b"[" * 5000, b"\xff"])
def test_a_submission_that_does_not_say_what_it_holds_is_refused(site: Site, content: bytes) -> None:
    found = site.judged(repacked(site.bundle, lambda members: members.update({"submission.json": content})))

    assert [text.split(":")[0] for text in bad(found)] == ["archive"]


def test_an_announcement_by_a_stranger_is_reported(site: Site, tmp_path: Path) -> None:
    allowed_file(tmp_path, stranger=site.folder / "stranger")

    found = inspect(site.bundle, Requirements(read_allowed(tmp_path / "allowed_signers")))

    assert sum(text.startswith("announcements: entry ") for text in bad(found)) == 3


def test_the_verbs_answer_in_json_and_by_their_status(aiperf: User, site: Site, tmp_path: Path) -> None:
    changed = repacked(site.bundle, CHANGED["another run"][0], site.key)

    good, worse, none = (aiperf("inspect", str(path), "--json") for path in (site.bundle, changed, tmp_path / "none"))
    shown = aiperf("inspect", str(changed))

    assert (good.status, worse.status, none.status) == (0, 1, 2)
    assert [each["is_good"] for each in json.loads(good.out)["submissions"]] == [True]
    assert "does not exist" in none.err
    assert shown.out.splitlines()[-1].endswith("1 run; BAD: 1 finding")


def test_what_cannot_be_submitted_is_refused_and_leaves_no_file(aiperf: User, site: Site, tmp_path: Path) -> None:
    damaged = shutil.copytree(site.run, tmp_path / "damaged")
    lines = (damaged / NAME).read_bytes().splitlines(keepends=True)
    (damaged / NAME).write_bytes(b"".join(lines[:3] + lines[4:]))
    there = tmp_path / "there"
    there.write_bytes(b"mine")

    answers = [
        aiperf("submit", str(damaged), "--out", "new"),
        aiperf("submit", str(site.run), "--out", str(there)),
        aiperf("submit", str(site.run), "--log", "nowhere", "--out", "new"),
        aiperf("submit", str(site.run), "--key", "nokey", "--out", "new"),
        aiperf("submit", "norun", "--out", "new"),
        aiperf("submit", str(site.run), "--out", "no/folder/new"),
    ]

    assert [answer.status for answer in answers] == [2] * 6
    for answer, expected in zip(
        answers,
        (
            "journal damaged at line 4",
            "exists: name another",
            "'nowhere' does not exist",
            "'nokey'",
            "the folder of a run",
            "no/folder",
        ),
        strict=True,
    ):
        assert expected in answer.err
    assert there.read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "there"]


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_of_a_submission(site: Site, tmp_path: Path) -> None:
    asked = (
        "import resource, signal, sys\n"
        "from aiperf.__main__ import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "sys.exit(main(['submit', sys.argv[1], '--out', sys.argv[2]]))\n"
    )

    result = subprocess.run(
        [sys.executable, "-B", "-c", asked, site.run, tmp_path / "bundle"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert result.returncode == 2
    assert "File too large" in result.stderr
    assert list(tmp_path.iterdir()) == []


def _member(name: str, content: bytes | Callable[[bytes], bytes]) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        members[name] = content(members.get(name, b"")) if callable(content) else content

    return change


HOSTILE: dict[str, Callable[[Members], None]] = {
    "a log of brackets": _member("announcements.jsonl", b"[" * 100_000 + b"\n"),
    "a log without an end": _member("announcements.jsonl", b"["),
    "a submission.json too large": _member("submission.json", b" " * (5 << 20)),
    "a log too large": _member("announcements.jsonl", b" " * (33 << 20)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_member_is_a_finding_and_no_traceback(site: Site, name: str) -> None:
    found = site.judged(repacked(site.bundle, HOSTILE[name], site.key))

    assert not found.is_good
    json.dumps([asdict(found)], ensure_ascii=True)
    "\n".join(parts_lines(parts(found))).encode()


@pytest.mark.parametrize("name", ["runs/1/checkpoints/kept.json", "runs/1/telemetry/x.sh", "runs/1/notes", "a.sh"])
def test_a_member_that_no_submission_has_is_refused(site: Site, name: str) -> None:
    found = site.judged(repacked(site.bundle, lambda members: members.update({name: b""}), site.key))

    assert bad(found) == [
        f"archive: members have the names that docs/ranking.md lists, but found {name!r}. Ask its sender for a new file"
    ]


def test_a_journal_changed_after_it_was_witnessed_is_bad(aiperf: User, site: Site, tmp_path: Path) -> None:
    shutil.copy(site.folder / "log", tmp_path / "log")
    bundle = tmp_path / "bundle"
    (tmp_path / "run").mkdir()

    witnessed = aiperf("witness", str(site.run), "--key", str(site.folder / "other"), "--log", "log")
    submitted = aiperf("submit", str(site.run), "--key", str(site.key), "--log", "log", "--out", "bundle")
    changed = repacked(bundle, rewritten(JOURNAL, _first(versions={"torch": "2"})), site.key)
    (tmp_path / "run" / NAME).write_bytes(members_of(changed)[JOURNAL])
    answer = aiperf("rank", "run", "--announcements", "log", "--json")

    assert (witnessed.status, submitted.status, bad(site.judged(bundle))) == (0, 0, [])
    (text,) = bad(site.judged(changed))
    assert text.startswith("witnessed: its journal is not the one whose line ")
    (listed,) = json.loads(answer.out)["lists"]
    assert text.removeprefix("witnessed: ") in listed["rows"][0]["why_not"], answer.err


def test_one_announcement_in_two_bundles_is_found(site: Site) -> None:
    """Each bundle alone may be consistent: its site cut the log before it ran again."""

    def again(members: Members) -> None:
        rewritten(JOURNAL, _first(started_unix=7200.0))(members)

    other = repacked(site.bundle, again, site.key).rename(site.folder / "other")

    alone, first, second = inspect(other), *inspect_all([site.bundle, other])

    expected = "serves one run. "
    assert any("as the one run of this announcement" in text for text in bad(alone))
    assert not any(expected in text for text in bad(first))
    assert any(expected in text and str(site.bundle) in text for text in bad(second))


def test_logs_of_two_bundles_are_one_log(site: Site) -> None:
    """Each bundle alone is consistent: its site copied the log before the run, and continued both."""
    log = read_log(site.folder / "log")
    begun = log.entries[-1].entry
    assert isinstance(begun, RunBegun)

    def with_log(name: str, after: Announcements, **changed: Any) -> Path:
        entry = msgspec.structs.replace(begun, number=len(after.entries) + 1, previous=after.head, **changed)
        lines = (site.folder / "log").read_bytes().splitlines(keepends=True)[: len(after.entries)]
        content = b"".join([*lines, line_of(after, content_of(entry), "")])

        def change(members: Members) -> None:
            members["announcements.jsonl"] = content
            edited("submission.json", lambda found: found.update(announcements=parse(content, name).head))(members)

        return repacked(site.bundle, change, site.key).rename(site.folder / name)

    before = replace(log, entries=log.entries[:-1])
    copied = with_log("copied", before, folder="copy")
    extended = with_log("extended", log, announcement=log.entries[1].id, at_unix=begun.at_unix + 9.0)

    def of_logs(*bundles: Path) -> list[list[str]]:
        return [[text for text in bad(found) if text.startswith("announcements: ")] for found in inspect_all(bundles)]

    assert of_logs(site.bundle, extended) == of_logs(site.bundle, site.bundle) == [[], []]
    assert all("a key announces in one log" in text for (text,) in of_logs(site.bundle, copied))


def _nested(number: int, event: Any) -> Any:
    if not isinstance(event, RunStarted):
        return event
    deep: dict[str, Any] = {}
    for _ in range(700):
        deep = {"deeper": deep}
    config = event.config | {"announcement": [deep]}
    return msgspec.structs.replace(event, config=config, config_hash=config_hash(config))


def test_impossible_journal_values_end_in_no_traceback(site: Site) -> None:
    found = site.judged(repacked(site.bundle, rewritten(JOURNAL, _nested), site.key))

    assert not found.is_good


def test_samples_of_a_sites_power_meters_go_with_the_run(site: Site, tmp_path: Path) -> None:
    run = Path(shutil.copytree(site.run, tmp_path / "run"))
    begun = next(iter(read(run)))
    assert isinstance(begun, RunStarted)
    table = "unix_seconds,watts\n" + "".join(f"{begun.started_unix + at},2000\n" for at in range(80))
    metered(run, table)

    main(["submit", str(run), "--log", str(site.folder / "log"), "--out", str(tmp_path / "bundle")])

    found = site.judged(tmp_path / "bundle", with_signers=False)
    assert bad(found) == []
    members = members_of(tmp_path / "bundle")
    assert {"runs/1/power/rack7.csv", "runs/1/power/rack7.yaml"} <= members.keys()
    assert b"FLOPS/W" in members["runs/1/report.html"]
