"""Memory of a trial on an accelerator: a step with the chosen kernels, and everything else."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import aiperf.train.loop
from aiperf.train.checkpoints import checkpoint
from aiperf.train.checkpoints.checkpoint import Snapshot
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.memory_limits import SNAPSHOTS, CudaMemory, bytes_outside_a_step, peak_of, shortage
from morphism import cost, start
from tests.builders.order import order, train

WEIGHTS, WORKSPACE = 100, 400


class Device(CudaMemory):
    """An accelerator whose first step tries algorithms, each with a workspace.

    Reserved memory stays reserved until released.
    """

    def __init__(self, size: int, activations: int) -> None:
        self.size = size
        self._activations = activations
        self._in_use = WEIGHTS
        self._reserved = WEIGHTS
        self._peak = 0
        self._has_chosen = False

    def step(self) -> None:
        needed = self._in_use + self._activations
        # a workspace that does not fit is one algorithm less, not the end
        workspace = 0 if self._has_chosen else min(WORKSPACE, self.size - needed)
        self._has_chosen = True
        self._reserve(needed + max(0, workspace))

    def _reserve(self, wanted: int) -> None:
        if wanted > self.size:
            raise torch.cuda.OutOfMemoryError("full")
        self._reserved = max(self._reserved, wanted)
        self._peak = max(self._peak, self._reserved)

    def release(self) -> None:
        self._reserved = self._in_use

    def begin(self) -> None:
        self._peak = self._reserved

    def peak(self) -> int:
        return self._peak

    def hold(self, size: int) -> object:
        if self._in_use + size > self.size:
            raise torch.cuda.OutOfMemoryError("full")
        self._in_use += size
        return _Held(self, size)

    def let_go(self, size: int) -> None:
        self._in_use -= size


class _Held:
    def __init__(self, device: Device, size: int) -> None:
        self._let_go: Callable[[], None] = lambda: device.let_go(size)

    def __del__(self) -> None:
        self._let_go()


@given(st.integers(1, 1000))
def test_workspaces_of_rejected_algorithms_do_not_count(activations: int) -> None:
    device = Device(10_000, activations)

    assert peak_of(device.step, device) == WEIGHTS + activations


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(200, 2500))
def test_a_trial_fits_where_its_step_and_all_beside_it_do(activations: int, beside: int, size: int) -> None:
    device = Device(size, activations)

    said = shortage(device.step, beside, device)

    assert said == (None if WEIGHTS + activations + beside <= size else ": full")
    assert device._in_use == WEIGHTS, "what was held to see is given back"


def test_a_step_alone_that_does_not_fit_is_out_of_memory() -> None:
    device = Device(150, 60)

    with pytest.raises(torch.cuda.OutOfMemoryError):
        peak_of(device.step, device)


@pytest.mark.parametrize(("ranks", "buckets"), [(1, 0), (8, 1)])
def test_memory_besides_a_step_is_momentum_buckets_and_copies(ranks: int, buckets: int) -> None:
    """ResNet-50 in BF16, 448 images of 224×224: 0.8 GB for 25.6 million weights, and 0.5 GB for the batch."""
    graph = start("resnet50_v1")
    weights = 4 * cost(graph).parameters

    beside = bytes_outside_a_step(graph, 448, 2, ranks)

    batch = 448 * 3 * 224 * 224
    assert beside == weights * (1 + buckets + 2 * SNAPSHOTS) + batch * (1 + 4 + 2)
    assert 1.1e9 < beside < 1.4e9


def test_snapshots_on_the_device_do_not_exceed_the_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk is: the snapshots that are alive are counted whenever one more has been made."""
    alive: list[weakref.ref[object]] = []
    most = 0
    whole, go_on = checkpoint.save, threading.Event()

    class Counted(dict[str, Tensor]):
        """A snapshot's weights: a dictionary that can be weakly referred to."""

    def counting(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        nonlocal most
        copies = Counted(checkpoint.copied(tensors))
        if any(name.endswith("running_mean") for name in tensors):
            alive.append(weakref.ref(copies))
            gc.collect()
            most = max(most, sum(each() is not None for each in alive))
            if len(alive) == 6:
                go_on.set()
        return copies

    def slow(snapshot: Snapshot, folder: CheckpointFolder) -> str:
        go_on.wait(60.0)
        return whole(snapshot, folder)

    monkeypatch.setattr(aiperf.train.loop, "copied", counting)
    monkeypatch.setattr(checkpoint, "save", slow)

    train(order(last_epoch=6), tmp_path)

    assert len(alive) == 6
    assert most <= SNAPSHOTS
