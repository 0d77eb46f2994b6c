"""Training in this process: words, their sums, checkpoints, resumption, early stops, memory."""

import statistics
import threading
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import aiperf.train.loop
from aiperf.data.opening import open_data
from aiperf.journal.events import BatchReduced, CheckpointWritten, TrialPrepared
from aiperf.journal.messages import Advanced, CheckpointGone, Crashed, EpochDone, Message, Train, TrialDone
from aiperf.train.checkpoints.checkpoint import Snapshot, Writer, load
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.loop import train_here
from aiperf.train.trainer_config import TrainerConf
from morphism import cost, encode_morph, legal
from morphism.legal import Budget
from tests.builders.order import CONF, IMAGES, advances, epochs, graph, order, train, visited


def weights(folder: Path, trial: int = 1) -> dict[str, torch.Tensor]:
    return dict(load(CheckpointFolder(folder), trial, graph().fingerprint).weights)


def test_a_trial_reports_preparation_epochs_and_end(tmp_path: Path) -> None:
    words = train(order(last_epoch=3), tmp_path)

    assert isinstance(words[0], TrialPrepared)
    assert (words[0].precision, words[0].ranks, words[0].compiled) == ("fp32", 1, False)
    assert [word.advanced.epoch for word in epochs(words)] == [1, 2, 3]
    assert words[-1] == TrialDone(trial=1, attempt=1, reason="epochs")


def test_every_image_of_every_whole_step_is_counted_once(tmp_path: Path) -> None:
    words = train(order(last_epoch=2, batch_size=64), tmp_path)

    for word in epochs(words):
        assert word.advanced.training_images == visited(64) == 128
        assert word.advanced.validation_images == IMAGES.validation_images
        halves = word.halves
        assert halves is not None and halves.even_samples + halves.odd_samples == IMAGES.validation_images
        assert (halves.even_correct + halves.odd_correct) / IMAGES.validation_images == word.accuracy


def test_running_statistics_are_moved_by_whole_batches_alone(tmp_path: Path) -> None:
    """With 150 images at batch 149, a second step of one image would distort the running statistics."""
    train(order(last_epoch=1, batch_size=149), tmp_path)

    state = weights(tmp_path)
    tracked = {int(value) for name, value in state.items() if name.endswith("num_batches_tracked")}
    assert tracked == {1}


def test_sums_grow_within_an_epoch_and_count_time_once(tmp_path: Path) -> None:
    words = advances(train(order(progress_seconds=1e-6, batch_size=16), tmp_path))

    assert len(words) > 20
    for earlier, later in pairwise(words):
        if earlier.epoch == later.epoch:
            assert later.training_images >= earlier.training_images
            assert later.validation_images >= earlier.validation_images
            assert later.busy_seconds >= earlier.busy_seconds
    exchanged = [
        later.communication_seconds - earlier.communication_seconds
        for earlier, later in pairwise(words)
        if earlier.epoch == later.epoch
    ]
    assert statistics.median(exchanged) < 0.001  # one rank exchanges nothing. A busy machine may stop it in some steps
    assert all(0.0 <= word.validation_seconds <= word.busy_seconds for word in words)


def test_progress_is_reported_at_an_edge_of_the_window(tmp_path: Path) -> None:
    train_order = order(last_epoch=2, progress_seconds=1000.0, edges=(0.001,))

    words = train(train_order, tmp_path)

    # An epoch's work may be reported twice: when it is done, and again with its result when its checkpoint is written.
    said = {(word.epoch, word.training_images, word.validation_images) for word in advances(words)}
    assert len(said) == len(epochs(words)) + 1


def test_an_epoch_with_a_written_checkpoint_has_its_seal_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Prompt(Writer):
        def submit(self, snapshot: Snapshot) -> Future[str | None]:
            file = super().submit(snapshot)
            assert file.result(timeout=60.0)
            return file

    monkeypatch.setattr(aiperf.train.loop, "Writer", Prompt)

    words = train(order(last_epoch=3), tmp_path)

    assert [type(word) for word in words] == [TrialPrepared, *[EpochDone, CheckpointWritten] * 3, TrialDone]


def test_an_epoch_is_reported_while_its_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = threading.Event()

    class Late(Writer):
        def _write(self, snapshot: Snapshot, future: Future[str | None]) -> None:
            assert heard.wait(60.0), "the epoch's work was not said before its file stood"
            super()._write(snapshot, future)

    monkeypatch.setattr(aiperf.train.loop, "Writer", Late)

    with open_data(IMAGES) as images:
        words: list[Message] = []
        for word in train_here(order(last_epoch=1), CONF, images, graph(), tmp_path):
            words.append(word)
            if isinstance(word, Advanced):
                heard.set()

    assert [type(word) for word in words] == [TrialPrepared, Advanced, EpochDone, CheckpointWritten, TrialDone]


def test_it_learns(tmp_path: Path) -> None:
    words = epochs(train(order(last_epoch=12, batch_size=16), tmp_path))

    assert words[-1].accuracy > 0.9
    assert words[-1].training_loss < words[0].training_loss


def test_the_same_order_gives_the_same_weights(tmp_path: Path) -> None:
    train(order(), tmp_path / "a")
    train(order(), tmp_path / "b")

    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_resumed_trial_ends_with_the_same_weights(tmp_path: Path) -> None:
    unbroken = train(order(last_epoch=4), tmp_path / "unbroken")

    broken = train(order(last_epoch=2), tmp_path / "broken")
    losses = tuple(word.validation_loss for word in epochs(broken))
    resumed = train(order(attempt=2, first_epoch=3, last_epoch=4, losses=losses), tmp_path / "broken")

    assert [word.advanced.epoch for word in epochs(broken) + epochs(resumed)] == [1, 2, 3, 4]
    assert [word.accuracy for word in epochs(broken) + epochs(resumed)] == [word.accuracy for word in epochs(unbroken)]
    a, b = weights(tmp_path / "unbroken"), weights(tmp_path / "broken")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_child_begins_with_its_parents_weights(tmp_path: Path) -> None:
    parent = epochs(train(order(last_epoch=12, batch_size=16), tmp_path))
    morph = legal(graph(), Budget.of(graph()))[0]

    child = order(trial=2, parent=1, morphs=(encode_morph(morph),), last_epoch=1, batch_size=16)
    words = epochs(train(child, tmp_path, TrainerConf(threads=1, precision="fp32", learning_rate=1e-6)))
    fresh = order(trial=3, morphs=(encode_morph(morph),), last_epoch=1, batch_size=16)
    without = epochs(train(fresh, tmp_path, TrainerConf(threads=1, precision="fp32", learning_rate=1e-6)))

    assert words[0].accuracy == pytest.approx(parent[-1].accuracy, abs=0.05)
    assert words[0].accuracy > without[0].accuracy + 0.2


@pytest.mark.parametrize(
    ("train_order", "missing"), [(order(trial=2, parent=1), 1), (order(first_epoch=5, last_epoch=9), 1)]
)
def test_an_attempt_whose_checkpoint_is_gone_does_not_begin(tmp_path: Path, train_order: Train, missing: int) -> None:
    words = train(train_order, tmp_path)

    assert len(words) == 1
    assert isinstance(words[0], CheckpointGone)
    assert words[0].missing == missing
    assert "no checkpoint of trial 1" in words[0].reason


def test_a_damaged_checkpoint_is_as_good_as_none(tmp_path: Path) -> None:
    tmp_path.joinpath("trial-1.epoch-2.safetensors").write_bytes(b"PK\x03\x04 not a checkpoint")

    words = train(order(first_epoch=3, last_epoch=4), tmp_path)

    assert isinstance(words[-1], CheckpointGone)
    assert "no complete checkpoint" in words[-1].reason


def test_a_trial_that_stops_improving_ends_early(tmp_path: Path) -> None:
    train_order = order(last_epoch=50, patience=2, improvement=1e9)

    words = train(train_order, tmp_path)

    assert len(epochs(words)) == 3  # the first improves on nothing, the next two do not improve
    assert words[-1] == TrialDone(trial=1, attempt=1, reason="early stop")


def test_losses_of_earlier_attempts_count_for_the_early_stop(tmp_path: Path) -> None:
    first = epochs(train(order(last_epoch=2), tmp_path))
    losses = tuple(word.validation_loss for word in first)
    train_order = order(attempt=2, first_epoch=3, last_epoch=50, patience=2, improvement=1e9, losses=losses)

    words = train(train_order, tmp_path)

    assert len(epochs(words)) == 1
    assert isinstance(words[-1], TrialDone)


def test_a_batch_that_does_not_fit_is_made_smaller_until_it_does(tmp_path: Path) -> None:
    limit = cost(graph()).training_memory(40, 4)
    conf = TrainerConf(threads=1, precision="fp32", memory_limit_bytes=limit)

    words = train(order(last_epoch=1, batch_size=128), tmp_path, conf)

    reduced = [word for word in words if isinstance(word, BatchReduced)]
    assert [(word.from_batch_size, word.to_batch_size) for word in reduced] == [(128, 96), (96, 72), (72, 48), (48, 32)]
    assert epochs(words)[0].advanced.training_images == visited(32)
    assert isinstance(words[-1], TrialDone)


def test_a_network_that_fits_at_no_batch_is_not_tried_again(tmp_path: Path) -> None:
    words = train(order(batch_size=16), tmp_path, TrainerConf(threads=1, precision="fp32", memory_limit_bytes=1000))

    assert isinstance(words[-1], Crashed)
    assert not words[-1].retry
    assert "batch 8" in words[-1].reason


def test_a_diverged_trial_is_marked_and_not_repeated(tmp_path: Path) -> None:
    conf = TrainerConf(threads=1, precision="fp32")
    conf.learning_rate = 1e30  # far above what the option takes, so that the first epoch is enough

    words = train(order(last_epoch=5), tmp_path, conf)

    assert isinstance(words[-1], Crashed)
    assert "diverged" in words[-1].reason
    assert not words[-1].retry


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_sixteen_bit_precision_keeps_weights_and_momentum_in_32(tmp_path: Path, precision: str) -> None:
    words = train(order(last_epoch=1), tmp_path, TrainerConf(threads=1, precision=precision))

    assert isinstance(words[0], TrialPrepared)
    assert words[0].precision == precision
    kept = load(CheckpointFolder(tmp_path), 1, graph().fingerprint)
    tensors = [*kept.weights.values(), *kept.optimiser.values()]
    assert {tensor.dtype for tensor in tensors if tensor.is_floating_point()} == {torch.float32}
    assert bool(kept.scaler) == (precision == "fp16")


@pytest.mark.slow
def test_a_resumed_fp16_trial_takes_its_loss_scale_up(tmp_path: Path) -> None:
    conf = TrainerConf(threads=1, precision="fp16")
    first = epochs(train(order(last_epoch=1), tmp_path, conf))
    train_order = order(attempt=2, first_epoch=2, last_epoch=2, losses=(first[0].validation_loss,))

    assert isinstance(train(train_order, tmp_path, conf)[-1], TrialDone)


def test_contiguous_and_channels_last_training_agree(tmp_path: Path) -> None:
    train(order(last_epoch=1), tmp_path / "a", CONF)
    train(
        order(last_epoch=1),
        tmp_path / "b",
        TrainerConf(threads=1, precision="fp32", learning_rate=0.05, channels_last=False),
    )

    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.allclose(a[name], b[name], atol=1e-4) for name in a)
