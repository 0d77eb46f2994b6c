"""Ranks joined by Horovod: Gloo between CPUs, NCCL between GPUs.

Gradients are fused into buffers and exchanged by Horovod's own thread while the backward pass goes on. Its environment
(HOROVOD_RANK and the rest) is set by whoever starts the rank: see `group.py`. Everything of Horovod's is in this file and in
`rendezvous.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import horovod
import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError
from torch import Tensor, nn

from aiperf.train.collectives.collective import Meet, RankFailed, Scaler, as_bytes, dense_view, in_one_piece
from aiperf.train.device_timer import Mark, Timeline


class Horovod:
    """See `collective.Collective`. One a process."""

    def __init__(self, *, fp16_compression: bool, meet: Meet) -> None:
        if hvd.nccl_built():
            lend_the_stream_to_the_exchange(os.environ)
        hvd.init()
        self._meet = meet
        self.rank: int = hvd.rank()
        self.ranks: int = hvd.size()
        self._compression = _InPlaceFp16 if fp16_compression else _InPlace
        self.name = f"horovod {horovod.__version__} ({'nccl' if hvd.nccl_built() else 'gloo'})"

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        in_one_piece(
            as_bytes(tensors),
            lambda buffer: self._together(lambda: hvd.broadcast_async_(buffer, 0, name=_name("broadcast", buffer))),
        )

    def average(self, tensors: Sequence[Tensor]) -> None:
        in_one_piece(
            tensors,
            lambda buffer: self._together(
                lambda: hvd.allreduce_async_(buffer, op=hvd.Average, name=_name("average", buffer))
            ),
        )

    def total(self, values: Sequence[float]) -> list[float]:
        buffer = torch.tensor(values, dtype=torch.float64)
        self._together(lambda: hvd.allreduce_async_(buffer, op=hvd.Sum, name=_name("total", buffer)))
        return [float(value) for value in buffer]

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None, timeline: Timeline
    ) -> _Overlapped:
        distributed = hvd.DistributedOptimizer(
            optimiser, named_parameters=list(module.named_parameters()), compression=self._compression
        )
        # DistributedOptimizer is a new optimiser over the same groups: what was taken up from a checkpoint goes along
        distributed.state.update(optimiser.state)
        return _Overlapped(module, distributed, scaler, timeline, self._meet)

    def close(self) -> None:
        hvd.shutdown()

    def _together(self, begin: Callable[[], int]) -> None:
        """Hands over this rank's part, then waits for the other ranks. Raises RankFailed when one of them is gone."""

        def act() -> None:
            handle = begin()
            self._meet()
            hvd.synchronize(handle)

        _or_failed(act)


def lend_the_stream_to_the_exchange(environment: MutableMapping[str, str]) -> None:
    """Before `hvd.init`: the end of an exchange between accelerators is waited for by the stream and not by the host.

    As it comes, Horovod 0.28.1's `synchronize` returns when the exchange is over, so that the host queues nothing of the update
    and of the next step before (common/ops/gpu_operations.cc, `FinalizeGPUQueue`). With this it returns when the default stream
    waits for it (torch/mpi_ops_v2.cc), which is the one that trains here. A value the user has set stands.
    """
    environment.setdefault("HOROVOD_ENABLE_ASYNC_COMPLETION", "1")


class _Overlapped:
    def __init__(
        self,
        module: nn.Module,
        optimiser: Any,
        scaler: Scaler | None,
        timeline: Timeline,
        meet: Meet,
    ) -> None:
        self.module = module
        self.optimiser = optimiser
        self._scaler = scaler
        self._timeline = timeline
        self._meet = meet

    def backward(self, loss: Tensor) -> tuple[Mark, Mark]:
        scaled = loss if self._scaler is None else self._scaler.scale(loss)
        _or_failed(scaled.backward)  # gradients are handed to Horovod within it
        own = self._timeline.mark()
        self._meet()
        _or_failed(self.optimiser.synchronize)
        return own, self._timeline.mark()

    def update(self) -> None:
        with self.optimiser.skip_synchronize():
            if self._scaler is None:
                self.optimiser.step()
            else:
                self._scaler.step(self.optimiser)
                self._scaler.update()
        self.optimiser.zero_grad()

    def close(self) -> None:
        # it holds the nodes whose hooks hold it, by way of C++, where Python's garbage collector sees no cycle (horovod 0.28)
        self.optimiser._grad_accs.clear()


def _or_failed(act: Callable[[], Any]) -> None:
    try:
        act()
    except HorovodInternalError as error:
        raise RankFailed(str(error)) from error


class _InPlace:
    """Hands Horovod, which wants contiguous tensors, the memory of a channels_last gradient as it lies: no copy."""

    @staticmethod
    def compress(gradient: Tensor) -> tuple[Tensor, Tensor]:
        return dense_view(gradient), gradient

    @staticmethod
    def decompress(exchanged: Tensor, gradient: Tensor) -> Tensor:
        return gradient


class _InPlaceFp16:
    """Sixteen bits on the way; a copy each way."""

    @staticmethod
    def compress(gradient: Tensor) -> tuple[Tensor, Tensor]:
        return dense_view(gradient).to(torch.float16), gradient

    @staticmethod
    def decompress(exchanged: Tensor, gradient: Tensor) -> Tensor:
        dense_view(gradient).copy_(exchanged)
        return gradient


def _name(purpose: str, buffer: Tensor) -> str:
    # Horovod caches its negotiation by name: equal names must mean equal shapes, or each use would negotiate anew
    return f"{purpose}.{buffer.dtype}.{buffer.numel()}"
