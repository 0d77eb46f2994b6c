"""Errors of a device by their text, their report by a rank, and a first step that overflows."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from aiperf.data.opening import open_data
from aiperf.errors import BadConfiguration
from aiperf.journal.events import BatchReduced
from aiperf.journal.messages import Crashed, TrialDone
from aiperf.train import loop
from aiperf.train.collectives import horovod_collective
from aiperf.train.collectives.collective import SingleRank, is_of_exchange
from aiperf.train.device import HostTimeline, is_of_device, is_out_of_memory
from aiperf.train.optimiser import optimiser_of
from aiperf.train.rank_context import RankContext
from aiperf.train.ranks import rank
from aiperf.train.setup import prepare
from tests.builders.order import CONF, IMAGES, graph, order

CPU = torch.device("cpu")
MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("FIND was unable to find an engine to execute this computation"),
    RuntimeError("GET was unable to find an engine to execute this computation"),
    RuntimeError("cuDNN Frontend error: [cudnn_frontend] Error: No valid execution plans built."),
    RuntimeError("HIP error: hipErrorOutOfMemory"),
    RuntimeError("miopenStatusAllocFailed"),
    RuntimeError("CUDA driver error: CUDA_ERROR_OUT_OF_MEMORY"),
    dist.DistBackendError("NCCL error: unhandled cuda error, Last error: Cuda failure 2 'out of memory'"),
]
DEVICE = [
    torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError("The NVIDIA driver on your system is too old (found version 12040)."),
]
OTHER = [
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("shape mismatch"),
    OSError("CUDA error: out of memory"),
]


@pytest.mark.parametrize("error", MEMORY, ids=str)
def test_full_memory_is_neither_the_devices_nor_a_peers_fault(error: RuntimeError) -> None:
    assert is_out_of_memory(error)
    assert not is_of_device(error)
    assert not is_of_exchange(error)
    assert not rank._failure(error).is_device and not rank._failure(error).is_peer


@pytest.mark.parametrize("error", DEVICE, ids=str)
def test_a_failed_device_is_reported_as_one(error: RuntimeError) -> None:
    assert not is_out_of_memory(error)
    assert rank._failure(error).is_device


@pytest.mark.parametrize("error", OTHER, ids=str)
def test_other_errors_are_no_failure_of_the_device(error: Exception) -> None:
    assert not is_out_of_memory(error)
    assert not is_of_device(error)


@pytest.mark.parametrize("error", MEMORY, ids=str)
def test_a_step_without_memory_reduces_the_batch(error: RuntimeError, monkeypatch: pytest.MonkeyPatch) -> None:
    real, batches = prepare, list[int]()

    def fails_once(
        train_order: object, context: RankContext, epoch: int, batch: int, snapshot: object = None
    ) -> object:
        batches.append(batch)
        if len(batches) == 1:
            raise error
        return real(train_order, context, epoch, batch, snapshot)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "prepare", fails_once)
    with open_data(IMAGES) as images:
        context = RankContext.make(CONF, images, graph(), CPU, SingleRank(), None)
        words = list(loop.train(order(last_epoch=1, batch_size=64), context, taken=0.0))

    assert isinstance(words[0], BatchReduced) and words[0].to_batch_size == batches[1] < 64
    assert isinstance(words[-1], TrialDone)


@pytest.mark.parametrize("error", [MEMORY[0], MEMORY[5]], ids=str)
def test_a_trial_without_memory_at_any_batch_says_why(error: RuntimeError, monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution that cuDNN does not support fails with the same text at every batch."""

    def fails(*arguments: object) -> object:
        raise error

    monkeypatch.setattr(loop, "prepare", fails)
    with open_data(IMAGES) as images:
        context = RankContext.make(CONF, images, graph(), CPU, SingleRank(), None)
        word = list(loop.train(order(last_epoch=1, batch_size=16), context, taken=0.0))[-1]

    assert isinstance(word, Crashed) and word.cause == "memory"
    assert word.reason == f"out of memory even at batch 8: {error}"


def test_a_torch_without_cuda_is_named_with_what_to_install() -> None:
    with pytest.raises(BadConfiguration, match=r"found torch 2\.13\.0\+cpu: install such a build"):
        rank._require_accelerated_torch("2.13.0+cpu", None, None)
    rank._require_accelerated_torch("2.13.0+cu130", "13.0", None)
    rank._require_accelerated_torch("2.13.0+rocm", None, "7.0")


def test_a_first_step_that_overflows_changes_no_weight() -> None:
    """New memory is filled with NaN, so that momentum that was never written shows."""
    with open_data(IMAGES) as images:
        context = RankContext.make(replace(CONF, precision="fp16"), images, graph(), CPU, SingleRank(), None)
        torch.use_deterministic_algorithms(True)
        try:
            ready = prepare(order(), context, epoch=1, batch=8)
            before = {name: each.clone() for name, each in ready.network.named_parameters()}
            loss = sum(each.square().sum() for each in ready.network.parameters())
            assert isinstance(loss, torch.Tensor)
            ready.exchange.backward(loss * torch.inf)
            ready.exchange.update()
            for name, each in ready.network.named_parameters():
                assert torch.equal(each, before[name]), name
            loss = sum(each.square().sum() for each in ready.network.parameters())
            assert isinstance(loss, torch.Tensor)
            ready.exchange.backward(loss)
            ready.exchange.update()
        finally:
            torch.use_deterministic_algorithms(False)
            ready.close()

    rate, decay = CONF.learning_rate, CONF.weight_decay
    assert rate is not None and decay is not None
    for name, each in ready.network.named_parameters():
        torch.testing.assert_close(each, before[name] * (1 - rate * (2 + decay)), rtol=1e-4, atol=1e-6)


ONE_HOROVOD_RANK = """
from pathlib import Path
import torch
from aiperf.train.collectives.collective import Joining
from aiperf.train.collectives.horovod_collective import Horovod
from tests.train.test_device_errors import overflow_with
collective = Horovod(Joining(0, 1, Path(), torch.device("cpu"), fp16_compression=False, meet=lambda: None))
overflow_with(collective)
collective.close()
"""


def overflow_with(collective: object) -> None:
    """Make a step whose gradients overflow, then a finite one."""
    network = torch.nn.Linear(2, 1)
    before = [each.detach().clone() for each in network.parameters()]
    optimiser, scaler = optimiser_of(network, CONF), torch.amp.GradScaler("cpu")
    exchange = collective.exchange(network, optimiser, scaler, HostTimeline())  # type: ignore[attr-defined]
    for each in network.parameters():
        exchange.optimiser.state[each]["momentum_buffer"] = torch.zeros_like(each)
    exchange.backward(network(torch.ones(1, 2)).sum() * torch.inf)
    exchange.update()
    assert exchange.optimiser._step_supports_amp_scaling
    assert all(torch.equal(each, old) for each, old in zip(network.parameters(), before, strict=True))
    exchange.backward(network(torch.ones(1, 2)).sum())
    exchange.update()
    assert not any(torch.equal(each, old) for each, old in zip(network.parameters(), before, strict=True))


@pytest.mark.skipif(horovod_collective.missing(on_cuda=False) is not None, reason="no horovod")
def test_horovods_optimiser_looks_for_the_overflow_itself() -> None:
    """In a separate process. The loss scaler then does not synchronize the device."""
    subprocess.run([sys.executable, "-c", ONE_HOROVOD_RANK], check=True, cwd=Path(__file__).parents[2])
