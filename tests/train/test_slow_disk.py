"""A slow disk does not delay messages to the driver, which would give the worker up for its silence."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.data.opening import open_data
from aiperf.journal.events import CheckpointWritten
from aiperf.journal.messages import Advanced, EpochDone, Message, Train, TrialDone
from aiperf.train.checkpoints import checkpoint
from aiperf.train.checkpoints.checkpoint import Snapshot
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.loop import train_here
from tests.builders.order import CONF, IMAGES, graph, order


class SlowDisk:
    """Writes nothing until it is opened."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self._save = checkpoint.save

    def save(self, snapshot: Snapshot, folder: CheckpointFolder) -> str:
        """As the real one, later."""
        assert self.is_open.wait(60.0), "nobody went on while the disk was slow"
        return self._save(snapshot, folder)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    slow = SlowDisk()
    monkeypatch.setattr(checkpoint, "save", slow.save)
    yield slow
    slow.is_open.set()


def words(train_order: Train, folder: Path) -> Iterator[Message]:
    with open_data(IMAGES) as images:
        yield from train_here(train_order, CONF, images, graph(), folder)


def test_an_epoch_is_reported_before_its_checkpoint_is_written(tmp_path: Path, disk: SlowDisk) -> None:
    said: list[Message] = []
    for word in words(order(last_epoch=5, batch_size=32), tmp_path):
        said.append(word)
        if isinstance(word, EpochDone) and word.advanced.epoch == 3:
            assert not disk.is_open.is_set()
            disk.is_open.set()
    epochs = [word for word in said if isinstance(word, EpochDone)]

    assert [word.advanced.epoch for word in epochs] == list(range(1, 6))
    written = [word for word in said if isinstance(word, CheckpointWritten)]
    assert written[0].epoch == 1 and said.index(written[0]) > said.index(epochs[2])
    assert [type(word) for word in said[-3:]] == [EpochDone, CheckpointWritten, TrialDone]


def test_a_trial_reports_its_wait_for_the_last_checkpoint(tmp_path: Path, disk: SlowDisk) -> None:
    said: list[Message] = []
    for word in words(order(last_epoch=1, batch_size=32, progress_seconds=0.05), tmp_path):
        said.append(word)
        waits = [each for each in said if isinstance(each, Advanced) and each.checkpoint_seconds > 0.1]
        if len(waits) == 3:
            disk.is_open.set()
    epoch, written, done = said[-3:]

    assert isinstance(done, TrialDone) and isinstance(epoch, EpochDone) and isinstance(written, CheckpointWritten)
    seconds = [word.checkpoint_seconds for word in said if isinstance(word, Advanced)]
    assert seconds == sorted(seconds)
    assert epoch.advanced.checkpoint_seconds >= seconds[-1]
