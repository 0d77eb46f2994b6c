"""A kept checkpoint, evaluated again, has the quality in the journal. A raised quality is found."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from aiperf.__main__ import main
from aiperf.config import configure
from aiperf.drive.driver import Driver
from aiperf.drive.machines import machines
from aiperf.drive.session import run_session
from aiperf.files import sha256_of
from aiperf.journal.events import EpochFinished
from aiperf.journal.journal import NAME, read
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.report.write import report_of
from aiperf.submission.archive import manifest_of, pack, unpack, weights_beside
from aiperf.submission.inspect_submission import inspect
from aiperf.train.checkpoints.checkpoint import load, save
from aiperf.train.checkpoints.checkpoint_files import BEST, CHECKPOINTS, CheckpointFolder
from aiperf.verify.quality import QualityAudit, audit
from morphism import start
from tests.builders.data_set import make
from tests.builders.forged_journal import Line, lines_of, write
from tests.builders.submission import edited, repacked
from tools.verify_standalone import verified

WORDS = (
    "executor=inline",
    "start=digits_small",
    "trainer.threads=1",
    "searcher=random",
    "hpo=off",
    "schedule.epochs=[2]",
    "schedule.duration_seconds=3600",  # ends after a trial, also on a busy machine
)
GOLDEN = Path(__file__).parents[1] / "golden"
NO_PREFLIGHT = "preflight.probes=none"


def trained(folder: Path, *words: str) -> Path:
    """Train one trial in this process, and return the folder of the run."""
    conf = configure([*WORDS, NO_PREFLIGHT, f"runs={folder}", *words])

    def end_after_a_trial(driver: Driver) -> None:
        driver.interrupted = driver.run.finished >= 1

    with machines(conf) as executor_of:
        return run_session(make_plan(conf, this_machine(conf)), executor_of, end_after_a_trial)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one trial of two epochs on digits."""
    return trained(tmp_path_factory.mktemp("digits"), "dataset=digits")


def forged(run: Path, folder: Path, accuracy: float) -> Path:
    """Copy the run with its checkpoints, with this accuracy in the last epoch and in the result of the trial."""
    lines = lines_of(run / NAME)
    for line in lines:
        if line["event"] in ("EpochFinished", "TrialFinished"):
            line["accuracy"] = 0.0 if line.get("epoch") == 1 else accuracy
    shutil.copytree(run / CHECKPOINTS, folder / CHECKPOINTS)
    return write(folder, lines)


def test_checkpoint_has_the_quality_in_the_journal(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quality", str(digits)]) == 0
    shown = capsys.readouterr().out
    assert main(["quality", str(digits), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (found["trial"], found["epoch"], found["images"], found["metric"]) == (0, 2, 360, "top1")
    assert found["quality_again"] == pytest.approx(found["quality_in_journal"], abs=1 / 360 + 1e-12)
    assert found["loss_again"] == pytest.approx(found["loss_in_journal"], rel=1e-3)
    assert "checkpoint of trial 0 after epoch 2" in shown and "\nconfirmed: the numbers" in shown


@pytest.mark.parametrize("images", [-2, 2, 30])
def test_changed_quality_is_found(
    digits: Path, tmp_path: Path, images: int, capsys: pytest.CaptureFixture[str]
) -> None:
    # relative to the second evaluation, which may itself differ from the journal by one image
    run = forged(digits, tmp_path / "run", audit(digits).quality_again + images / 360)

    assert main(["quality", str(run)]) == 1
    assert f"not confirmed: the numbers of correct images differ by {abs(images)} (" in capsys.readouterr().out


@pytest.mark.parametrize(("images", "is_confirmed"), [(0, True), (1, True), (-1, True), (2, False), (-2, False)])
def test_one_image_may_differ(images: int, is_confirmed: bool) -> None:
    found = QualityAudit("a", 0, 1, "top1", 50_000, "fp32", "cpu", 0.763, 0.763 + images / 50_000, 1.0, 1.0)

    assert found.is_confirmed == is_confirmed
    assert replace(found, quality_again=found.quality_in_journal).is_confirmed


def raised(line: Line) -> None:
    """Raise the quality of the last epoch, of which nothing in the search depends."""
    if line["event"] == "EpochFinished" and line["epoch"] == 2:
        correct = round(0.949 * 360)
        line.update(accuracy=correct / 360, validation_loss=(1 - correct / 360) * 0.8)
        line["halves"].update(even_correct=correct // 2, odd_correct=correct - correct // 2)
    if line["event"] == "TrialFinished":
        line.update(accuracy=round(0.949 * 360) / 360, reported_accuracy=round(0.949 * 360) / 360)


def unsealed(line: Line) -> None:
    if line["event"] == "CheckpointWritten" and line["epoch"] == 2:
        line["sha256"] = None


def changed(run: Path, folder: Path, *changes: Callable[[Line], None]) -> Path:
    """Copy a run with changed lines, a valid hash chain and the files of its checkpoints, without the link to the best."""
    lines = lines_of(run / NAME)
    for line in lines:
        for change in changes:
            change(line)
    shutil.copytree(run / CHECKPOINTS, folder / CHECKPOINTS, ignore=shutil.ignore_patterns(f"{BEST}*"))
    return write(folder, lines)


def of_another_network(file: Path) -> None:
    snapshot = load(CheckpointFolder(file.parent), 0, start("digits_small").fingerprint, 2)
    save(replace(snapshot, weights={"another": torch.zeros(3)}), CheckpointFolder(file.parent))


@pytest.mark.parametrize("change", [Path.unlink, of_another_network, lambda file: os.truncate(file, 99)])
@pytest.mark.parametrize("verb", ["quality", "verify"])
def test_quality_of_an_epoch_without_its_weights_is_not_shown(
    digits: Path, tmp_path: Path, change: Callable[[Path], None], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = changed(digits, tmp_path / "run", raised)
    change(CheckpointFolder(run / CHECKPOINTS).file(0, 2))

    assert main([verb, str(run)]) == 2
    assert "but found no file of" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("verb", ["quality", "verify"])
def test_raised_quality_with_its_weights_is_found(digits: Path, tmp_path: Path, verb: str) -> None:
    assert main([verb, str(digits)]) == 0
    assert main([verb, str(changed(digits, tmp_path / "run", raised))]) == 1


def test_quality_of_an_epoch_without_a_seal_does_not_count(digits: Path, tmp_path: Path) -> None:
    run = changed(digits, tmp_path / "run", raised, unsealed)
    honest = [event.accuracy for event in read(digits) if isinstance(event, EpochFinished)]

    assert report_of(run).score.quality == verified(run)["quality"] == honest[0]
    assert audit(run).quality_in_journal == honest[0]


@pytest.mark.parametrize(("name", "status"), [("quality", 2), ("verify", 0)])
def test_quality_in_a_journal_of_before_is_not_shown(
    name: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(GOLDEN / "resumed-v5.jsonl", tmp_path / NAME)

    assert main([name, str(tmp_path)]) == status
    told = capsys.readouterr()
    assert "a quality is shown by the checkpoint of the epoch" in told.err or "quality not shown" in told.out
    assert main(["rank", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lists"][0]["rows"][0]["entry"]["quality_shown"] == "not shown"


def submitted(run: Path, folder: Path) -> Path:
    folder.mkdir()
    assert main(["submit", str(run), "--out", str(folder / "a.aiperf.tar.gz")]) == 0
    return folder / "a.aiperf.tar.gz"


def packed_again(bundle: Path, change: Callable[[Path], None], *, is_named: bool) -> None:
    """Change the checkpoint in the file of weights. `is_named`: the submission names the hash of the new file."""
    weights, name = weights_beside(bundle), "runs/1/checkpoints/trial-0.epoch-2.safetensors"
    folder = bundle.parent / "unpacked"
    folder.mkdir()
    unpack(weights, folder)
    weights.unlink()
    change(folder / name)
    pack(weights, {name: folder / name}, manifest_of({name: folder / name}), None)
    weights.write_bytes(gzip.compress(gzip.decompress(weights.read_bytes()), 1))
    if is_named:
        again = edited("submission.json", lambda document: document.update(weights=sha256_of(weights)))
        repacked(bundle, again).rename(bundle)


@pytest.mark.parametrize(
    ("change", "is_named", "text"),
    [
        (lambda file: None, False, "weights have the SHA-256 in submission.json, but"),
        (of_another_network, False, "weights have the SHA-256 in submission.json, but"),
        (of_another_network, True, "its weights have another SHA-256"),
    ],
    ids=["archive packed again", "exchanged after submission", "of another network"],
)
def test_other_weights_of_a_submission_are_bad(
    digits: Path, tmp_path: Path, change: Callable[[Path], None], is_named: bool, text: str
) -> None:
    bundle = submitted(digits, tmp_path / "out")
    packed_again(bundle, change, is_named=is_named)

    assert [finding.text for finding in inspect(bundle).findings if finding.outcome == "bad" and text in finding.text]


def test_submitted_weights_show_the_quality_in_inspect_and_rank(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = submitted(digits, tmp_path / "out")
    assert main(["inspect", str(bundle), "dataset.root=none"]) == 0
    assert "its weights have the quality in the journal" in capsys.readouterr().out

    received = tmp_path / "received"
    for file in (bundle, weights_beside(bundle)):
        subprocess.run(["tar", "xzf", str(file), "--one-top-level=received"], cwd=tmp_path, check=True)
    shown = []
    for words in ([], ["dataset.root=none"]):
        main(["rank", str(received), "--json", *words])
        shown += [row["entry"]["quality_shown"] for row in json.loads(capsys.readouterr().out)["lists"][0]["rows"]]
    assert shown == ["not evaluated", "yes"]


def test_submission_without_weights_shows_no_quality(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = changed(digits, tmp_path / "run")
    CheckpointFolder(run / CHECKPOINTS).file(0, 2).unlink()

    assert main(["submit", str(run), "--out", str(tmp_path / "a")]) == 2
    assert main(["submit", str(run), "--out", str(tmp_path / "a"), "--no-weights"]) == 0
    assert "not shown: its weights are not beside the submission" in capsys.readouterr().out
    assert not weights_beside(tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "dataset.root=elsewhere",
            "dataset.root cannot be combined with dataset=digits, which has no files",
        ),
        ("dataset.noise=0.5", "quality takes only the option dataset.root=FOLDER, but found"),
        ("dataset.root=", "but found 'dataset.root='"),
    ],
)
def test_wrong_option_is_refused(digits: Path, word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quality", str(digits), word]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_moved_images_are_found_and_others_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make(tmp_path / "set", training=40, validation=20)
    run = trained(tmp_path / "runs", "dataset=images", f"dataset.root={root}", "dataset.image=8", "batch.default=8")
    root.rename(tmp_path / "moved")
    other = make(tmp_path / "other", training=44, validation=20)

    assert main(["quality", str(run)]) == 2
    assert main(["quality", str(run), f"dataset.root={tmp_path / 'moved'}"]) == 0
    capsys.readouterr()
    assert main(["quality", str(run), f"dataset.root={other}"]) == 2
    assert "must read the same data set, with fingerprint" in capsys.readouterr().err
