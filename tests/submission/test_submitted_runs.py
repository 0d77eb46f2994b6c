"""Every verb that reads a run reads its submission (NAME.aiperf.tar.gz), and submissions/ takes what its rules allow."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import aiperf as package
from aiperf.__main__ import main
from aiperf.submission.archive import ENDING, SUBMISSION
from tests.builders.submission import Members, allowed_file, edited, fingerprint, key_file, repacked
from tests.rigs.user import User
from tools.submissions import ELSEWHERE, FOLDER, LARGEST, check

SIMULATED = (
    "+cluster=simulated",
    "schedule.duration_seconds=600",
    "schedule.warmup_seconds=10",
    "searcher=random",
    "hpo=off",
)
SITE = f"site{ENDING}"


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, of which one was announced, and a submission of each and of both."""
    folder = tmp_path_factory.mktemp("submitted")
    allowed_file(folder, site=key_file(folder), other=key_file(folder, "other"))
    key, log = ["--key", "key"], ["--log", "log"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["announce", *SIMULATED, "name=one", *key, *log, "--nonce-by", fingerprint(Path("other"))]) == 0
        wanted = json.loads((folder / "log").read_text().splitlines()[0])["chain"]
        assert main(["announce", "--nonce", wanted, "--key", "other", *log]) == 0
        main([*SIMULATED, "name=one", f"announcement={wanted}", "announcement_log=log"])
        main([*SIMULATED, "name=two"])
        one, two = sorted(str(run) for run in (folder / "runs").iterdir())
        for name, runs in {SITE: [one], f"two{ENDING}": [two], f"both{ENDING}": [one, two]}.items():
            assert main(["submit", *runs, *key, *log, "--out", name]) == 0
        (Path(one) / "report.json").unlink()  # no member of a submission
    return folder


READERS = {
    "score": ["score", "{}"],
    "check": ["check", "{}", "--division", "quick"],
    "verify": ["verify", "{}", "--no-weights"],
    "report": ["report", "{}", "--out", "out"],
    "export": ["export", "{}", "--to", "csv", "--out", "out"],
    "standing": ["standing", "{}"],
    "scale": ["scale", "{}"],
    "breakdown": ["breakdown", "{}"],
    "compare": ["compare", "{}", "two"],
    "repeats": ["compare", "--repeats", "{}", "two"],
}


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_a_verb_says_of_a_submission_what_it_says_of_the_run(aiperf: User, submitted: Path, words: list[str]) -> None:
    one, two = sorted((submitted / "runs").iterdir())

    def said(run: Path) -> tuple[int, str]:
        shutil.rmtree("out", ignore_errors=True)
        names = {"{}": str(run), "two": str(two)}
        answer = aiperf(*(names.get(word, word) for word in words))
        return answer.status, (answer.out + answer.err).replace(str(run), "RUN").replace(one.name, "one")

    assert said(submitted / SITE) == said(one)


def test_python_loads_a_submission_and_one_of_two_runs_is_named(aiperf: User, submitted: Path) -> None:
    one, _ = sorted((submitted / "runs").iterdir())

    assert package.load(submitted / SITE).score == package.load(one).score
    assert "holds 2" in aiperf("score", str(submitted / f"both{ENDING}")).err
    assert "add --out FOLDER" in aiperf("report", str(submitted / SITE)).err
    assert "add --out FOLDER" in aiperf("export", str(submitted / SITE), "--to", "csv").err


@pytest.mark.parametrize("names", [["."], [SITE, f"two{ENDING}"], [f"both{ENDING}"]], ids=["folder", "two", "both"])
def test_rank_lists_submissions_by_their_own_logs(
    aiperf: User, submitted: Path, tmp_path: Path, names: list[str]
) -> None:
    for name in (SITE, f"two{ENDING}", f"both{ENDING}") if names == ["."] else names:
        shutil.copy(submitted / name, tmp_path)

    listed = json.loads(aiperf("rank", *names, "--json", "--allowed", str(submitted / "allowed_signers")).out)
    entries = {
        run["run"].split("-")[-1]: run for each in listed["lists"] for row in each["rows"] for run in row["runs"]
    }

    assert entries.keys() == {"one", "two"}
    assert entries["one"]["announced"] == {"published": 1, "announced": 1}
    assert entries["one"]["announcement_fault"] == ""


def _log_of_another(members: Members) -> None:
    members["announcements.jsonl"] = b"{}\n"


DAMAGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda file: file.write_bytes(file.read_bytes()[:900]), "complete gzipped tar"),
    "a changed member": (
        lambda file: repacked(file, edited(SUBMISSION, lambda one: one.pop("runs"))).replace(file),
        "cannot",
    ),
    "a name that leads out": (
        lambda file: repacked(file, edited(SUBMISSION, lambda one: one["runs"][0].update(run="../../a"))).replace(file),
        "",
    ),
    "no journal": (
        lambda file: repacked(file, edited(SUBMISSION, lambda one: one["runs"].append(one["runs"][0]))).replace(file),
        "is missing",
    ),
    "a log of nothing": (lambda file: repacked(file, _log_of_another).replace(file), "announcements.jsonl"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_submission_is_listed_with_the_reason(
    aiperf: User, submitted: Path, tmp_path: Path, damage: str
) -> None:
    for name in (SITE, f"two{ENDING}"):
        shutil.copy(submitted / name, tmp_path)
    spoil, reason = DAMAGED[damage]
    spoil(tmp_path / SITE)

    answer = aiperf("rank", ".", "--json")
    listed = json.loads(answer.out)

    assert answer.status == (1 if reason else 0), answer.err
    assert not reason or any(reason in each["reason"] for each in listed["unread"])
    if reason and damage != "a log of nothing":
        assert f"'{SITE}': " in aiperf("score", SITE).err and reason in aiperf("score", SITE).err


def in_list(folder: Path, submitted: Path) -> Path:
    """A folder as submissions/, with one site's log, submission and list of files elsewhere."""
    shutil.copytree(FOLDER, folder)
    (site := folder / "site").mkdir()
    shutil.copy(submitted / SITE, site)
    shutil.copy(submitted / "log", site / "announcements.jsonl")
    (site / f"site{ELSEWHERE}").write_text(f"{64 * 'a'}  https://example.org/site.weights\n")
    shutil.copy(submitted / "allowed_signers", folder)
    return site


def _with_telemetry(site: Path) -> None:
    key = site.parents[1] / "key"
    repacked(site / SITE, lambda members: members.update({"runs/1/telemetry/n.jsonl": b"{}\n"}), key).replace(
        site / SITE
    )


NOT_TAKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "too large": (lambda site: os.truncate(site / SITE, LARGEST + 1), f"at most {LARGEST} bytes"),
    "weights": (lambda site: (site / "site.weights").write_bytes(b""), "Publish weights elsewhere"),
    "a page": (lambda site: (site / "index.html").write_bytes(b""), "Publish weights elsewhere"),
    "a link": (lambda site: (site / f"other{ENDING}").symlink_to("/etc/passwd"), "Publish weights elsewhere"),
    "a file beside": (lambda site: shutil.copy(site / SITE, site.parent), "Publish weights elsewhere"),
    "telemetry": (_with_telemetry, "--no-telemetry"),
    "unsigned": (lambda site: repacked(site / SITE, lambda members: None).replace(site / SITE), "unsigned"),
    "unknown signer": (
        lambda site: allowed_file(site.parent, other=site.parents[1] / "other"),
        "not among the allowed",
    ),
    "cut": (lambda site: os.truncate(site / SITE, 900), "complete gzipped tar"),
    "no text": (lambda site: (site / f"site{ELSEWHERE}").write_bytes(b"\xff\n"), "SHA256  https://ADDRESS"),
    "no address": (lambda site: (site / f"site{ELSEWHERE}").write_text("here\n"), "SHA256  https://ADDRESS"),
}


def test_the_folder_takes_a_signed_submission(
    submitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_list(tmp_path / "list", submitted)

    assert check(tmp_path / "list") == 0
    assert "1 logs of announcements and 1 submissions: good" in capsys.readouterr().out
    assert check(FOLDER) == 0


@pytest.mark.parametrize("fault", NOT_TAKEN)
def test_the_folder_takes_nothing_else(
    submitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    shutil.copytree(submitted, tmp_path, dirs_exist_ok=True)
    spoil, expected = NOT_TAKEN[fault]
    spoil(in_list(tmp_path / "list", submitted))

    assert check(tmp_path / "list") == 1
    message = capsys.readouterr()
    assert expected in message.out + message.err
