"""The best checkpoint stays after the end of a run, and removed bytes are reported.

Before the end no file is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
import torch

from aiperf.accounting.work_log import work_log
from aiperf.config import configure
from aiperf.data.opening import open_data
from aiperf.drive.checkpoint_clearing import BestEpoch, clear, forget
from aiperf.drive.driver import Driver, WallClock
from aiperf.drive.machines import machines
from aiperf.drive.session import run_session
from aiperf.journal.events import AnyEvent, CheckpointDropped, CheckpointWritten, EpochFinished
from aiperf.journal.journal import NAME, Journal
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.report.phrases import checkpoints
from aiperf.report.write import report_of
from aiperf.rules.state import Run
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder, KeptCheckpoints, kept
from aiperf.train.trained_network import trained_network
from morphism import encode, load
from tests.builders.journal import one_trial, positioned, state_after, whole_trial
from tests.builders.order import plain_graph
from tests.rigs.executors import TINY

FILES = {
    "trial-1.epoch-1.safetensors": 1000,
    "trial-2.epoch-1.safetensors": 200,
    ".trial-2.epoch-1.safetensors.4711.tmp": 30,
    "trial-9.epoch-1.safetensors": 50,
    "notes.txt": 60,
}
"""The journal contains trials 1 to 3. The checkpoint of the third was dropped, though it was the best."""


def events() -> list[AnyEvent]:
    told: list[AnyEvent] = [
        *one_trial()[:-1],
        *whole_trial(1, 4.0, 5.0, 0.5),
        *whole_trial(2, 6.0, 7.0, 0.8),
        *whole_trial(3, 8.0, 9.0, 0.9),
        CheckpointDropped(at=9.5, trial=3, cause="not best", reason="not among the best"),
    ]
    return positioned(sealed(told))


def sealed(told: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """The same with a sealed checkpoint of each epoch."""
    for event in told:
        if isinstance(event, EpochFinished):
            yield msgspec.structs.replace(event, checkpoint=False)
            yield CheckpointWritten(at=event.at, trial=event.trial, attempt=1, epoch=event.epoch, sha256="0" * 64)
        else:
            yield event


def ended(reason: str | None = "duration") -> Run:
    run = state_after(events())
    run.ended = reason
    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    with Journal(tmp_path / NAME) as journal:
        journal.append(events())
    for name, size in FILES.items():
        (tmp_path / "checkpoints" / name).write_bytes(b"w" * size)
    return tmp_path


def names(folder: Path) -> set[str]:
    return {file.name for file in (folder / "checkpoints").iterdir()}


def test_the_best_checkpoint_stays_with_its_graph(folder: Path) -> None:
    said = clear(ended(), work_log(events()), folder, "best")

    assert names(folder) == {
        "trial-2.epoch-1.safetensors",
        "trial-2.graph.json",
        "kept.json",
        "trial-9.epoch-1.safetensors",
        "notes.txt",
    }
    assert said is not None and said == kept(folder)
    assert (said.best, said.trial, said.epoch) == ("checkpoints/trial-2.epoch-1.safetensors", 2, 1)
    assert said.accuracy == 0.8
    assert (said.files, said.bytes, said.removed_files, said.removed_bytes) == (1, 200, 2, 1030)
    assert said.graph is not None and load(folder / said.graph).fingerprint
    assert checkpoints(said).startswith("kept the best, 200 B (checkpoints/trial-2.epoch-1.safetensors, accuracy ")
    assert checkpoints(said).endswith("; removed 2, 1.03 kB")


def write_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make",
    [
        write_fifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(b'{"keep":"best","files":' + b"9" * 400 + b"}"),
        lambda path: path.write_bytes(
            b'{"keep":"best","files":' + b"9" * 30 + b',"bytes":0,"removed_files":0,"removed_bytes":0}'
        ),
        lambda path: path.write_bytes(
            b'{"keep":"all","files":1,"bytes":1,"removed_files":0,"removed_bytes":0}' + bytes(1 << 20)
        ),
        lambda path: path.write_bytes(b"\xff\xfe"),
    ],
    ids=["FIFO", "device", "folder", "100,000 brackets", "400 digits", "30 digits", "a megabyte", "no text"],
)
def test_a_forged_record_of_checkpoints_is_left_out(tmp_path: Path, make: Callable[[Path], object]) -> None:
    (tmp_path / "checkpoints").mkdir()
    make(tmp_path / "checkpoints" / "kept.json")

    assert kept(tmp_path) is None


def finished(trial: int, epoch: int, accuracy: float, checkpoint: bool = True) -> EpochFinished:
    return EpochFinished(
        at=9.0,
        trial=trial,
        attempt=1,
        epoch=epoch,
        accuracy=accuracy,
        validation_loss=1.0,
        training_loss=1.0,
        learning_rate=0.1,
        checkpoint=checkpoint,
    )


def test_weights_of_the_best_epoch_outlive_their_file(folder: Path) -> None:
    """The best epoch is neither the last of its trial nor of a trial that is kept."""
    (folder / NAME).unlink()
    with Journal(folder / NAME) as journal:
        journal.append([*events(), finished(3, 2, 0.97), finished(3, 3, 0.91), finished(2, 2, 0.95)])
    files = folder / "checkpoints"
    log = work_log([*one_trial()[:-1], *whole_trial(3, 8.0, 9.0, 0.9)[:-1]])
    best = BestEpoch(CheckpointFolder(files), log)
    for sealed, content in ((finished(3, 2, 0.97), b"the best"), (finished(3, 3, 0.91), b"worse")):
        file = files / f"trial-3.epoch-{sealed.epoch}.safetensors"
        file.write_bytes(content)
        for event in (sealed, CheckpointWritten(at=9.1, trial=3, attempt=1, epoch=sealed.epoch, sha256=content.hex())):
            log.take(event)
            best.take([event])
        file.unlink()
        best = BestEpoch(CheckpointFolder(files), log)  # of a driver that resumes the run
    best.take([])

    said = clear(ended(), log, folder, "best")

    assert said is not None and (said.trial, said.epoch, said.accuracy) == (3, 2, 0.97)
    assert said.best is not None and (folder / said.best).read_bytes() == b"the best"
    assert [file.name for file in files.glob("*trial*.safetensors") if "-9" not in file.name] == [
        "trial-3.epoch-2.safetensors"
    ]


@pytest.mark.parametrize("reason", [None, "interrupted", "no workers", "trials", "corrupt images"])
def test_nothing_is_removed_of_a_run_that_can_be_taken_up_again(folder: Path, reason: str | None) -> None:
    assert clear(ended(reason), work_log(events()), folder, "best") is None
    assert names(folder) == set(FILES)
    assert kept(folder) is None


def test_all_or_none_stay_where_that_is_configured(folder: Path) -> None:
    said = clear(ended(), work_log(events()), folder, "all")
    assert said is not None and (said.files, said.removed_files) == (3, 0)
    assert set(FILES) < names(folder)

    said = clear(ended(), work_log(events()), folder, "none")
    assert said is not None and (said.best, said.files, said.removed_files) == (None, 0, 3)
    assert checkpoints(said) == "kept none; removed 3, 1.23 kB"
    assert {"trial-9.epoch-1.safetensors", "notes.txt"} <= names(folder)


def test_a_driver_killed_during_removal_leaves_complete_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    removed: list[Path] = []
    unlink = Path.unlink

    def unlink_one(path: Path, missing_ok: bool = False) -> None:
        if len(removed) == 1:
            raise Killed
        removed.append(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_one)
    with pytest.raises(Killed):
        clear(ended(), work_log(events()), folder, "best")
    monkeypatch.undo()

    assert kept(folder) is None
    assert (folder / "checkpoints" / "trial-2.epoch-1.safetensors").stat().st_size == 200


def test_files_of_a_journal_without_seals_stay(folder: Path) -> None:
    unsealed = work_log(event for event in events() if not isinstance(event, CheckpointWritten))

    said = clear(ended(), unsealed, folder, "best")

    assert said is not None and (said.keep, said.files, checkpoints(said)) == ("all", 3, "kept 3")
    assert set(FILES) < names(folder)


def test_last_epoch_of_a_fixed_network_stays_with_the_best(folder: Path) -> None:
    (folder / "checkpoints" / "trial-2.epoch-2.safetensors").write_bytes(b"last")
    log = work_log([*one_trial()[:-1], *whole_trial(2, 6.0, 7.0, 0.8)[:-2]])
    assert log.started is not None
    log.started.config["benchmark"] = {"target_quality": 0.7, "exponent": 5}
    for event in sealed([finished(2, 1, 0.8), finished(2, 2, 0.6)]):
        log.take(event)

    said = clear(ended(), log, folder, "best")

    assert said is not None and (said.epoch, said.files) == (1, 2)
    assert {"trial-2.epoch-1.safetensors", "trial-2.epoch-2.safetensors"} <= names(folder)


def test_a_rolled_back_run_warns_about_removed_checkpoints(folder: Path) -> None:
    clear(ended(), work_log(events()), folder, "best")

    told = forget(folder)

    assert told is not None and "removed at its end" in told and "storage.checkpoints=all" in told
    assert forget(folder) is None


def test_a_word_of_them_that_is_damaged_is_none(folder: Path) -> None:
    clear(ended(), work_log(events()), folder, "best")
    os.truncate(folder / "checkpoints" / "kept.json", 7)

    assert kept(folder) is None


def test_the_message_names_files_that_could_not_be_removed() -> None:
    said = KeptCheckpoints(keep="best", files=0, bytes=0, removed_files=0, removed_bytes=0, not_removed=2)

    assert checkpoints(said) == "kept none; 2 could not be removed"


def test_the_kept_network_has_the_accuracy_in_the_journal(tmp_path: Path) -> None:
    """A run of one worker in this process. Its time is over when its first trial has finished."""
    (tmp_path / "start.json").write_text(encode(plain_graph()))
    words = [*TINY, "executor=inline", f"runs={tmp_path / 'runs'}", f"start={tmp_path / 'start.json'}"]
    conf = configure([*words, "schedule.duration_seconds=36000"])

    def end_after_a_trial(driver: Driver) -> None:
        if driver.run.finished:
            driver.clock = WallClock(36000.0)

    with machines(conf) as executor_of:
        folder = run_session(make_plan(conf, this_machine(conf)), executor_of, end_after_a_trial)

    said = kept(folder)
    assert said is not None and said.best is not None and said.accuracy is not None
    assert [file.name for file in (folder / "checkpoints").glob("*.safetensors")] == [Path(said.best).name]
    network = trained_network(folder / said.best)
    correct = images = 0
    device, dtype = torch.device("cpu"), torch.float32
    data = open_data(conf.dataset)
    for batch in data.validation(50, rank=0, ranks=1, device=device, channels_last=False, dtype=dtype):
        with torch.inference_mode():
            correct += int((network.forward(batch.images).argmax(1) == batch.targets).sum())
        images += batch.count
    assert correct / images == pytest.approx(said.accuracy)
    assert report_of(folder).checkpoints == said
