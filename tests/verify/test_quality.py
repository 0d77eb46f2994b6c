"""A kept checkpoint, evaluated again, has the quality in the journal. A raised quality is found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.config import configure
from aiperf.drive.driver import Driver
from aiperf.drive.machines import machines
from aiperf.drive.session import run_session
from aiperf.journal.journal import NAME
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS, CheckpointFolder
from aiperf.verify.quality import QualityAudit, audit
from tests.builders.data_set import make
from tests.builders.forged_journal import lines_of, write

WORDS = (
    "executor=inline",
    "start=digits_small",
    "trainer.threads=1",
    "searcher=random",
    "hpo=off",
    "schedule.epochs=[2]",
    "schedule.duration_seconds=3600",  # ends after a trial, also on a busy machine
)
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
    """Copy the run with its checkpoints, with this accuracy in all epochs and in the result of the trial."""
    lines = lines_of(run / NAME)
    for line in lines:
        if line["event"] in ("EpochFinished", "TrialFinished"):
            line["accuracy"] = accuracy
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


def test_earlier_epoch_is_taken_if_its_file_is_left(digits: Path, tmp_path: Path) -> None:
    shutil.copytree(digits, tmp_path / "run")
    folder = CheckpointFolder(tmp_path / "run" / CHECKPOINTS)
    assert folder.epochs(0) == (1, 2)
    folder.file(0, 2).unlink()

    assert audit(tmp_path / "run").epoch == 1


def test_run_without_a_checkpoint_is_refused(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / NAME).write_bytes((digits / NAME).read_bytes())

    assert main(["quality", str(tmp_path)]) == 2
    assert "needs the checkpoint of an epoch in the journal, but found none" in capsys.readouterr().err


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
