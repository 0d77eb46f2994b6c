"""Real ranks in real processes, joined by Horovod and by torch.

They train as one group, which survives a dead or hung rank.

The moments of the kills are random, with a seed derived from the test's name. `make test-all` runs more of them.
"""

import os
import pickle
import pickletools
import random
import re
import signal
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from aiperf.data.dataset_config import SyntheticConf
from aiperf.data.opening import open_data
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.journal.events import BatchReduced, CheckpointWritten, TrialHeartbeat, TrialPrepared
from aiperf.journal.messages import Advanced, Crashed, Drop, Message, Sum, TrialDone
from aiperf.train.checkpoints.checkpoint import load
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.collectives.horovod_collective import missing as horovod_missing
from aiperf.train.loop import train_here
from aiperf.train.ranks.group import RankGroup, WorkerEnded
from aiperf.train.ranks.protocol import Ready, Recipe
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph, cost, encode
from tests.builders.order import (
    CONF,
    IMAGES,
    epochs,
    follow,
    graph,
    hear,
    order,
    plain_graph,
    to_the_end,
    train,
    visited,
)

HANG_SECONDS = 6.0
ASLEEP = """
import signal, time

def sleep(number, frame):
    time.sleep(3600)

def wait_in_an_exchange(number, frame):
    import torch
    if "horovod.torch" in __import__("sys").modules:
        import horovod.torch as hvd
        hvd.allreduce(torch.zeros(1), name="nobody else takes part in this")
    else:
        import torch.distributed as dist
        dist.recv(torch.zeros(1), 1 - dist.get_rank(), tag=1)

def sleep_when_it_has_come_to_the_next_exchange(number, frame):
    from aiperf.train.heartbeat import HeartbeatFile
    say = HeartbeatFile.meet
    def say_and_sleep(self, rank):
        say(self, rank)
        time.sleep(3600)
    HeartbeatFile.meet = say_and_sleep
    time.sleep(0.5)  # the others come to the exchange first, and are the first whose time is over

signal.signal(signal.SIGUSR1, sleep)
signal.signal(signal.SIGUSR2, wait_in_an_exchange)
signal.signal(signal.SIGRTMIN + 3, sleep_when_it_has_come_to_the_next_exchange)
"""
"""Signal handlers (in sitecustomize) that make a rank hang in Python or in native code, without being stopped."""
WITNESS = """
import os, pathlib
known = []

def remember(number, frame):
    import gc, weakref, torch
    from torch.multiprocessing.reductions import StorageWeakRef
    gc.disable()  # a cycle that only waits to be found holds an accelerator's memory all the same
    for thing in gc.get_objects():
        if not issubclass(type(thing), (torch.nn.Module, torch.optim.Optimizer)):
            continue
        known.append((type(thing).__name__, weakref.ref(thing)))
        if isinstance(thing, torch.optim.Optimizer):
            parameters = [each for group in thing.param_groups for each in group["params"]]
            tensors = {"weight": parameters}
            tensors["gradient or its bucket"] = [each.grad for each in parameters if each.grad is not None]
            tensors["momentum"] = [each for state in thing.state.values() for each in state.values()]
            for kind, many in tensors.items():
                known.extend((kind, StorageWeakRef(each.untyped_storage())) for each in many)
    say(f"seen {len(known)}")

def who_lives(number, frame):
    import gc
    lives = sorted({kind for kind, ref in known if not (ref.expired() if hasattr(ref, "expired") else ref() is None)})
    say(f"alive {lives}")

def collect_again(number, frame):
    import gc
    gc.enable()
    say("collects")

def say(what):
    file = pathlib.Path(__file__).with_name(f"witness-{os.getpid()}")
    file.with_suffix(".tmp").write_text(what)
    file.with_suffix(".tmp").replace(file)

signal.signal(signal.SIGRTMIN, remember)
signal.signal(signal.SIGRTMIN + 1, who_lives)
signal.signal(signal.SIGRTMIN + 2, collect_again)
"""
"""Records the objects of a trial during training, and reports on request which of them are alive."""
LARGEST = 64
"""The batch per rank that just fits into the memory a rank may use."""
COLLECTIVES = [
    pytest.param(
        "horovod",
        marks=pytest.mark.skipif(
            horovod_missing(on_cuda=False) is not None, reason=f"no horovod: {horovod_missing(on_cuda=False)}"
        ),
    ),
    "torch",
]


def new_group(collective: str, folder: Path, start: Graph, *, accelerators: int = 0, **changes: object) -> RankGroup:
    settings = {
        "threads": 1,
        "precision": "fp32",
        "learning_rate": 0.05,
        "hang_seconds": HANG_SECONDS,
        "start_seconds": 90.0,
    }
    conf = TrainerConf(collective=collective, **{**settings, **changes})  # type: ignore[arg-type]
    return RankGroup(Recipe(conf, IMAGES, encode(start), folder, 2), accelerators=accelerators)


@pytest.fixture(scope="module", params=COLLECTIVES)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RankGroup, Path]]:
    """A group that all tests of a collective use, as all trials of a run do."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "sitecustomize.py").write_text(ASLEEP + WITNESS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        yield from running_group(request.param, folder)


@pytest.mark.slow
def test_ranks_of_uneven_shares_weigh_their_gradients_by_them(tmp_path: Path) -> None:
    """51 images are less than one whole step of two ranks: shares of 25 and 26."""
    few = SyntheticConf(training_images=51, validation_images=20, classes=3, image=8, channels=1, noise=0.1)
    conf = TrainerConf(collective="torch", threads=1, precision="fp32", learning_rate=0.05)
    train_order = order(trial=10, last_epoch=3)
    group = RankGroup(Recipe(conf, few, encode(plain_graph()), tmp_path / "two", 2), accelerators=0)
    try:
        group.start()
        assert epochs(follow(group, train_order))[0].advanced.training_images == 51
    finally:
        group.close()
    with open_data(few) as opened:
        assert list(train_here(train_order, CONF, opened, plain_graph(), tmp_path / "one" / "checkpoints"))

    assert difference(final_weights(tmp_path / "two", 10), final_weights(tmp_path / "one", 10)) < 1e-5


def running_group(collective: str, folder: Path) -> Iterator[tuple[RankGroup, Path]]:
    limit = cost(plain_graph()).training_memory(LARGEST, 4)
    group = new_group(collective, folder, plain_graph(), memory_limit_bytes=limit)
    ready = group.start()
    assert ready.ranks == 2
    assert ready.collective.startswith(collective)
    assert ready.bus_bytes_per_second is not None and ready.bus_bytes_per_second > 0
    group.messages(timeout=10.0)  # the ceiling
    yield group, folder
    pids = group.pids()
    group.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def final_weights(folder: Path, trial: int, epoch: int | None = None) -> dict[str, torch.Tensor]:
    return dict(load(CheckpointFolder(folder / "checkpoints"), trial, plain_graph().fingerprint, epoch).weights)


def difference(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def test_two_ranks_and_one_end_with_the_same_weights(group: tuple[RankGroup, Path], tmp_path: Path) -> None:
    """The network has no batch normalisation, because its statistics differ between ranks by design."""
    ranks, folder = group
    together = follow(ranks, order(trial=10, batch_size=32, last_epoch=3))
    alone = train(order(trial=10, batch_size=64, last_epoch=3), tmp_path / "checkpoints", start_graph=plain_graph())

    assert isinstance(together[-1], TrialDone)
    assert difference(final_weights(folder, 10), final_weights(tmp_path, 10)) < 1e-5
    for ours, theirs in zip(epochs(together), epochs(alone), strict=True):
        assert ours.validation_loss == pytest.approx(theirs.validation_loss, abs=1e-5)
        assert ours.training_loss == pytest.approx(theirs.training_loss, abs=1e-5)
        assert (ours.accuracy, ours.halves) == (theirs.accuracy, theirs.halves)


def test_images_of_all_ranks_are_counted_once(
    group: tuple[RankGroup, Path],
) -> None:
    words = follow(group[0], order(trial=11, batch_size=32, last_epoch=2))

    assert isinstance(words[0], TrialPrepared)
    assert words[0].ranks == 2
    for word in epochs(words):
        sums = word.advanced
        assert (sums.training_images, sums.validation_images) == (visited(64), IMAGES.validation_images)
        assert 0.0 < sums.communication_seconds < sums.busy_seconds


def test_trials_of_one_group_do_not_disturb_each_other(group: tuple[RankGroup, Path]) -> None:
    first = follow(group[0], order(trial=12, batch_size=32))
    other = follow(group[0], order(trial=13, batch_size=16, seed=99))
    again = follow(group[0], order(trial=14, batch_size=32))

    assert isinstance(other[-1], TrialDone)
    assert [word.validation_loss for word in epochs(first)] == [word.validation_loss for word in epochs(again)]
    assert difference(final_weights(group[1], 12), final_weights(group[1], 14)) == 0.0


def test_a_dropped_trial_leaves_no_file(group: tuple[RankGroup, Path]) -> None:
    follow(group[0], order(trial=15, batch_size=32))
    files = CheckpointFolder(group[1] / "checkpoints")
    follow(group[0], order(trial=19, batch_size=32))  # the earlier epoch's file goes in the background
    assert files.epochs(15) == (2,)

    group[0].order(Drop(trial=15))

    assert files.epochs(15) == ()


def test_no_file_that_a_group_leaves_is_a_pickle(group: tuple[RankGroup, Path]) -> None:
    follow(group[0], order(trial=21, batch_size=32))

    files = [file for file in group[1].rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")]
    assert any(file.suffix == ".safetensors" for file in files)
    for file in files:
        assert not zipfile.is_zipfile(file), f"{file.name}: torch.save's form, which holds a pickle"
        with (
            file.open("rb") as opened,
            pytest.raises((pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError)),
        ):
            for _ in pickletools.genops(opened):
                pass
            raise AssertionError(f"{file.name} is a pickle")


def test_a_trial_reports_its_sums_on_request_and_continues(group: tuple[RankGroup, Path]) -> None:
    ranks, _ = group
    for trial in range(600, 620):  # a trial may end before it receives the request
        ranks.order(order(trial=trial, batch_size=8, last_epoch=60, progress_seconds=1e6))
        messages: list[Message] = []
        while len(epochs(messages)) < 2:
            messages += ranks.messages(0.5)
        assert [word for word in messages if is_within_an_epoch(word)] == []

        while not any(is_within_an_epoch(word) for word in messages) and not isinstance(messages[-1], TrialDone):
            ranks.order(Sum(worker=0))  # again, should the last have come at an epoch's very end
            messages += ranks.messages(0.5)

        assert isinstance(to_the_end(ranks, messages)[-1], TrialDone)
        if any(is_within_an_epoch(word) for word in messages):
            return
    raise AssertionError("none of twenty trials reported its sums within an epoch")


def is_within_an_epoch(word: Message) -> bool:
    """Return whether the message reports a part of an epoch. Messages at its end do not."""
    whole = IMAGES.training_images + IMAGES.validation_images
    return isinstance(word, Advanced) and 0 < word.training_images + word.validation_images < whole


def test_all_ranks_shrink_a_batch_that_does_not_fit_together(group: tuple[RankGroup, Path]) -> None:
    words = follow(group[0], order(trial=18, batch_size=LARGEST * 2, last_epoch=1))

    reduced = [word for word in words if isinstance(word, BatchReduced)]
    assert [(word.from_batch_size, word.to_batch_size) for word in reduced] == [(128, 96), (96, 72), (72, 48)]
    assert epochs(words)[0].advanced.training_images == visited(96)
    assert isinstance(words[-1], TrialDone)


def witness(folder: Path, pids: tuple[int, ...], question: int) -> list[str]:
    """Return the ranks' answers to a signal."""
    files = [folder / f"witness-{pid}" for pid in pids]
    for pid, file in zip(pids, files, strict=True):
        file.unlink(missing_ok=True)
        os.kill(pid, question)
    while not all(file.exists() for file in files):
        time.sleep(0.01)
    return [file.read_text() for file in files]


@pytest.mark.slow
def test_of_ten_trials_nothing_lives_on_in_the_ranks(group: tuple[RankGroup, Path]) -> None:
    """Networks, gradients with their buckets, momentum: on an accelerator each would cost memory for the rest of the run."""
    ranks, folder = group
    pids, at_work, trial = ranks.pids(), 0, 400
    while at_work < 10:
        assert trial < 450, f"of fifty trials only {at_work} were seen at work"
        ranks.order(order(trial=trial, batch_size=16, last_epoch=20))
        messages: list[Message] = []
        while not epochs(messages):
            messages += ranks.messages(timeout=60.0)
        seen = [int(answer.split()[1]) for answer in witness(folder, pids, signal.SIGRTMIN)]
        at_work += min(seen) >= 5  # the trial may have ended before
        assert isinstance(to_the_end(ranks, messages)[-1], TrialDone)
        trial += 1

    # rank 0 reports the end of an attempt while the other rank may still be ending it
    rest = time.monotonic() + 300.0
    while (alive := witness(folder, pids, signal.SIGRTMIN + 1)) != ["alive []", "alive []"] and time.monotonic() < rest:
        time.sleep(0.05)
    witness(folder, pids, signal.SIGRTMIN + 2)
    assert alive == ["alive []", "alive []"]


def lose_a_rank(ranks: RankGroup, trial: int, rank: int, how: int, after: float) -> list[Message]:
    """Train, disturb a rank after a while, and return the messages of the attempt."""
    ranks.order(order(trial=trial, batch_size=16, last_epoch=10_000))
    heard: list[Message] = []
    while not epochs(heard):
        heard += ranks.messages(timeout=60.0)
    time.sleep(after)
    os.kill(ranks.pids()[rank], how)
    return heard + hear(ranks)


def go_on(ranks: RankGroup, trial: int, heard: list[Message]) -> list[Message]:
    """The next attempt, as a driver would order it: from after the last epoch that has a checkpoint, for two more."""
    done = epochs(heard)
    assert [word.advanced.epoch for word in done] == list(range(1, len(done) + 1)), "each epoch once, in order"
    # epochs this short outrun the disk
    last = max([0, *(word.epoch for word in heard if isinstance(word, CheckpointWritten))])
    losses = tuple(word.validation_loss for word in done[:last])
    first = last + 1
    train_order = order(trial=trial, attempt=2, batch_size=16, first_epoch=first, last_epoch=first + 1, losses=losses)
    words = follow(ranks, train_order)
    assert [word.advanced.epoch for word in epochs(words)] == [first, first + 1]
    return words


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_lost_rank_is_named_and_the_trial_continues(
    group: tuple[RankGroup, Path], how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiperf.train.ranks.group.HEARTBEAT_SECONDS", 2.0)
    ranks, folder = group
    chance = random.Random(f"{how} {folder.name}")
    trial, rank = 20 + how, chance.randrange(2)

    heard = lose_a_rank(ranks, trial, rank, how, after=chance.uniform(0.0, 0.5))

    crash = heard[-1]
    assert isinstance(crash, Crashed)
    assert crash.retry
    assert f"rank {rank} of 2 on " in crash.reason
    assert ("SIGKILL" if how is signal.SIGKILL else "is stopped") in crash.reason
    if how is signal.SIGSTOP:  # until then the driver receives heartbeats
        train_order = [word.doing for word in heard if isinstance(word, TrialHeartbeat)]
        assert train_order and all(re.match(r"rank [01] of 2 on .* since \d+ s", doing) for doing in train_order), (
            train_order
        )
    resumed = go_on(ranks, trial, heard)
    assert isinstance(resumed[-1], TrialDone)
    assert isinstance(resumed[0], TrialPrepared)
    assert resumed[0].ranks == 2


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGUSR1, id="anywhere"),
        pytest.param(signal.SIGUSR2, id="in an exchange", marks=pytest.mark.slow),
        pytest.param(signal.SIGRTMIN + 3, id="at the door of one", marks=pytest.mark.slow),
    ],
)
def test_a_hung_rank_is_named_and_the_trial_continues(group: tuple[RankGroup, Path], how: int) -> None:
    """The rank sleeps within a step, within an incomplete exchange, or at the moment it announces an exchange.

    torch's own time limit is an hour.
    """
    ranks, folder = group
    chance = random.Random(f"{how} {folder.name}")
    trial, rank = 50 + how, chance.randrange(2)

    heard = lose_a_rank(ranks, trial, rank, how, after=chance.uniform(0.0, 0.3))

    crash = heard[-1]
    assert isinstance(crash, Crashed)
    assert crash.retry
    # a rank that sleeps between two steps looks like one that waits for images
    named = rf"rank {rank} of 2 on {re.escape(socket.gethostname())} (hangs: no sign|waits for storage: it waits for images)"
    assert re.match(named, crash.reason), crash.reason
    assert isinstance(go_on(ranks, trial, heard)[-1], TrialDone)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL] * 10 + [signal.SIGSTOP] * 5)
def test_many_random_losses_are_attributed_to_the_right_rank(
    group: tuple[RankGroup, Path], how: signal.Signals, request: pytest.FixtureRequest
) -> None:
    ranks, _ = group
    seed = request.node.name
    chance = random.Random(seed)
    trial, rank, after = chance.randrange(1000, 10**6), chance.randrange(2), chance.uniform(0.0, 2.0)
    print(f"seed {seed!r}: {how.name} to rank {rank} after {after:.3f} s")

    heard = lose_a_rank(ranks, trial, rank, how, after)

    assert isinstance(heard[-1], Crashed)
    assert f"rank {rank} of 2 on " in heard[-1].reason
    assert ("SIGKILL" if how is signal.SIGKILL else "is stopped") in heard[-1].reason
    assert isinstance(go_on(ranks, trial, heard)[-1], TrialDone)


@pytest.mark.slow  # longer than Gloo's own 30 s
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_stopped_rank_is_blamed_after_any_wait(collective: str, tmp_path: Path) -> None:
    group = new_group(collective, tmp_path, plain_graph(), hang_seconds=45.0)
    group.start()
    group.messages(timeout=10.0)

    heard = lose_a_rank(group, 1, 1, signal.SIGSTOP, after=0.1)

    group.close()
    assert isinstance(heard[-1], Crashed)
    assert "rank 1 of 2 on " in heard[-1].reason and "is stopped" in heard[-1].reason


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_a_rank_lost_during_preparation_costs_one_attempt(group: tuple[RankGroup, Path], number: int) -> None:
    ranks, folder = group
    chance = random.Random(f"{number} prepared {folder.name}")
    parent, child = 200 + number, 300 + number
    assert isinstance(follow(ranks, order(trial=parent, batch_size=16))[-1], TrialDone)

    ranks.order(order(trial=child, parent=parent, batch_size=16, last_epoch=10_000))
    time.sleep(chance.uniform(0.0, 0.08))
    os.kill(ranks.pids()[chance.randrange(2)], chance.choice([signal.SIGKILL, signal.SIGSTOP]))
    heard = hear(ranks)

    assert isinstance(heard[-1], Crashed) and heard[-1].retry
    again = follow(ranks, order(trial=child, attempt=2, parent=parent, batch_size=16, last_epoch=1))
    assert isinstance(again[-1], TrialDone)  # by a group that has the parent's weights from its file alone
    inherited = epochs(again)[0].training_loss
    fresh = epochs(follow(ranks, order(trial=child + 100, batch_size=16, last_epoch=1)))[0].training_loss
    assert inherited < fresh


AT_START = """
import os, sys, time
if os.environ.get("HOROVOD_RANK") == "1" and "-m" in sys.orig_argv:
    at_start()
"""
"""Happens to the second of two ranks when it starts (site's sitecustomize)."""
BROKEN_DEVICE = """
def at_start():
    import torch
    def fail(threads):
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    torch.set_num_threads = fail
"""
SLOW_STORAGE = """
def at_start():
    # the parent of a vfork is in the kernel's uninterruptible sleep, like a process that waits for a file server
    import ctypes
    libc = ctypes.CDLL(None)
    stack = ctypes.create_string_buffer(2**16)
    top = ctypes.c_void_p((ctypes.addressof(stack) + 2**16) & ~15)
    CLONE_VM, CLONE_VFORK, SIGCHLD = 0x100, 0x4000, 17
    libc.clone(libc.sleep, top, CLONE_VM | CLONE_VFORK | SIGCHLD, ctypes.c_void_p(14))
"""
DEAD_STORAGE = """
def at_start():
    time.sleep(3600)
"""


def starting(group: RankGroup, folder: Path, what: str, patch: pytest.MonkeyPatch) -> Ready:
    (folder / "sitecustomize.py").write_text(what + AT_START)
    patch.setenv("PYTHONPATH", str(folder))
    return group.start()


@pytest.mark.slow
def test_a_rank_whose_accelerator_is_at_fault_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = new_group("auto", tmp_path, plain_graph())
    try:
        ready = starting(group, tmp_path, BROKEN_DEVICE, monkeypatch)
        assert (ready.ranks, ready.collective) == (1, "none")
        assert isinstance(follow(group, order(batch_size=64))[-1], TrialDone)
    finally:
        group.close()


EVERY_RANK = """
import sys
from pathlib import Path
if "aiperf.train.ranks.rank" in sys.orig_argv:
    at_start()
"""
OLD_DRIVER = """
def at_start():
    import torch
    with (Path(__file__).parent / "starts").open("a") as starts:
        starts.write("x")
    def fail(threads):
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 12040).")
    torch.set_num_threads = fail
"""
FAILS_UNDER_LOAD = """
def at_start():
    import aiperf.train.loop
    def fail(order, context, taken):
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        yield
    aiperf.train.loop.train = fail
"""


def test_one_fault_of_all_devices_ends_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One start is enough if both failures arrive together. A slow rank may cost up to two more."""
    (tmp_path / "sitecustomize.py").write_text(OLD_DRIVER + EVERY_RANK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    group = new_group("torch", tmp_path, plain_graph(), accelerators=2)
    try:
        with pytest.raises(WorkerEnded, match="driver on your system is too old"):
            group.start()
    finally:
        group.close()
    assert (tmp_path / "starts").read_text() in ("xx", "xxx", "xxxx", "xxxxx")


TAKE_TURNS = """
def at_start():
    import time, torch
    def fail(threads):
        setup = sys._getframe(1).f_locals["setup"]
        first, this = Path(__file__).parent / "first-start", str(setup.heartbeats)
        if setup.seat.rank == 0 and not first.exists():
            first.write_text(this)
        elif setup.seat.rank == 0 or not first.exists() or first.read_text() == this:
            time.sleep(3600)
        raise RuntimeError("CUDA error: system not yet initialized")
    torch.set_num_threads = fail
"""


def test_two_failed_devices_in_two_starts_end_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 fails in the first start and rank 1 in the second, because each is slow in the other's start."""
    (tmp_path / "sitecustomize.py").write_text(TAKE_TURNS + EVERY_RANK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    group = new_group("torch", tmp_path, plain_graph(), accelerators=2, start_seconds=30.0)
    try:
        with pytest.raises(WorkerEnded, match=r"rank 1 of 2 .* CUDA error: system not yet initialized"):
            group.start()
    finally:
        group.close()


@pytest.mark.slow
def test_a_device_that_fails_twice_in_trials_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = new_group("horovod", tmp_path, plain_graph())
    try:
        starting(group, tmp_path, FAILS_UNDER_LOAD, monkeypatch)
        for _ in range(2):
            crashed = follow(group, order(batch_size=64))[-1]
            assert isinstance(crashed, Crashed) and "rank 1 of 2" in crashed.reason
        assert isinstance(follow(group, order(batch_size=64))[-1], TrialDone)
        assert len(group.pids()) == 1
    finally:
        group.close()


@pytest.mark.slow
def test_a_slow_start_is_awaited_while_it_makes_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server is silent for 14 s, and the limit is 6 s.

    The other rank waits at the rendezvous and is not blamed.
    """
    group = new_group("auto", tmp_path, plain_graph(), start_seconds=6.0)
    try:
        ready = starting(group, tmp_path, SLOW_STORAGE, monkeypatch)
        assert ready.ranks == 2
    finally:
        group.close()


@pytest.mark.slow
def test_a_start_without_progress_ends_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = new_group("auto", tmp_path, plain_graph(), start_seconds=4.0)
    try:
        with pytest.raises(
            WorkerEnded, match=r"rank 1 of 2 on .* waits for storage: it imports .* nothing moves there"
        ):
            starting(group, tmp_path, DEAD_STORAGE, monkeypatch)
    finally:
        group.close()


def test_a_rank_killed_at_each_start_ends_the_worker(tmp_path: Path) -> None:
    group = new_group("auto", tmp_path, plain_graph())
    over = threading.Event()

    def kill_the_second() -> None:
        while not over.wait(0.01):
            pids = group.pids()
            if len(pids) == 2:
                with suppress(ProcessLookupError):
                    os.kill(pids[1], signal.SIGKILL)

    killer = threading.Thread(target=kill_the_second)
    killer.start()
    try:
        with pytest.raises(WorkerEnded, match=r"rank 1 of 2 on .* was ended by SIGKILL"):
            group.start()
    finally:
        over.set()
        killer.join()
        group.close()


FREEZER = Path("/sys/fs/cgroup/freezer")
"""Freezer of control groups v1. A frozen process dies when it is thawed, like one that waits for a device in the kernel."""


@pytest.fixture
def frozen() -> Iterator[Callable[[int], None]]:
    """Freeze a process, and thaw it at the end."""
    home = FREEZER / f"aiperf-test-{os.getpid()}"
    try:
        home.mkdir()
    except OSError:
        pytest.skip("no freezer of control groups v1 that may be written: nothing here cannot be killed")

    def freeze(pid: int) -> None:
        (home / "cgroup.procs").write_text(str(pid))
        (home / "freezer.state").write_text("FROZEN")
        while (home / "freezer.state").read_text().strip() != "FROZEN":
            time.sleep(0.01)

    yield freeze
    (home / "freezer.state").write_text("THAWED")
    while (home / "cgroup.procs").read_text().split():
        time.sleep(0.01)
    home.rmdir()


@pytest.mark.slow
def test_the_end_is_reported_before_an_unkillable_rank_ends(
    tmp_path: Path, frozen: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiperf.train.ranks.host_ranks.DEATH_SECONDS", 5.0)
    group = new_group("auto", tmp_path, plain_graph())
    group.start()
    group.messages(timeout=10.0)
    group.order(order(batch_size=16, last_epoch=10_000))
    while not epochs(group.messages(timeout=60.0)):
        pass
    pids = group.pids()

    frozen(pids[1])
    os.kill(pids[0], signal.SIGKILL)
    heard = hear(group)

    assert group.is_alive, "the one that cannot be killed is still waited for"
    assert isinstance(heard[-1], Crashed) and heard[-1].retry
    assert "rank 0 of 2 on " in heard[-1].reason and "SIGKILL" in heard[-1].reason
    assert Path(f"/proc/{pids[1]}").exists(), "it is not over yet"
    group.order(order(trial=2))  # by a driver that received the end
    with pytest.raises(WorkerEnded, match=rf"rank 1 of 2 on .* cannot be killed: process {pids[1]}, state D"):
        while True:
            for word in group.messages(timeout=60.0):
                assert isinstance(word, Crashed) and word.trial == 2 and word.retry
    group.close()


def test_an_unavailable_configuration_ends_the_first_start(tmp_path: Path) -> None:
    group = new_group("auto", tmp_path, graph(), precision="tf32", ranks=1)

    with pytest.raises(AiperfError, match="tf32"):
        group.start()
    with pytest.raises(WorkerEnded):
        group.messages(timeout=1.0)
    group.close()


def test_closing_during_a_trial_leaves_whole_checkpoints(tmp_path: Path) -> None:
    group = new_group("torch", tmp_path, graph(), ranks=2)
    group.start()
    group.order(order(trial=1, batch_size=16, last_epoch=10_000))
    heard: list[Message] = []
    while not any(isinstance(word, CheckpointWritten) for word in heard):
        heard += group.messages(timeout=60.0)
    pids = group.pids()

    group.close()

    assert len(pids) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in pids)
    folder = CheckpointFolder(tmp_path / "checkpoints")
    assert load(folder, 1, graph().fingerprint).epoch >= 1
    assert not group.is_alive


def test_more_ranks_than_accelerators_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"trainer\.ranks=3 for a worker with 2"):
        RankGroup(Recipe(TrainerConf(ranks=3), SyntheticConf(), encode(graph()), tmp_path, 8), accelerators=2)
