"""Ranks joined by Horovod: Gloo between CPUs, NCCL between GPUs.

Horovod's own thread fuses gradients into buffers and exchanges them during the backward pass. Its environment (HOROVOD_RANK and
others) is set at the rank's start: see `group.py`. All Horovod-specific code is in this file and in `rendezvous.py`.
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
from aiperf.train.device_errors import is_out_of_memory
from aiperf.train.device_timer import Mark, Timeline


class Horovod:
    """Collective by Horovod. See `collective.Collective`. One per process."""

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
        summed: list[float] = buffer.tolist()
        return summed

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None, timeline: Timeline
    ) -> _Overlapped:
        distributed = hvd.DistributedOptimizer(
            optimiser, named_parameters=list(module.named_parameters()), compression=self._compression
        )
        # DistributedOptimizer is a new optimiser over the same groups, without the state of the first and without its flag
        # for overflow checks inside the step. Without the flag the loss scaler would wait for the device in each step
        distributed.state.update(optimiser.state)
        distributed._step_supports_amp_scaling = getattr(optimiser, "_step_supports_amp_scaling", False)
        return _Overlapped(module, distributed, scaler, timeline, self._meet)

    def close(self) -> None:
        hvd.shutdown()

    def _together(self, begin: Callable[[], int]) -> None:
        """Send this rank's part, then wait for the other ranks. Raises RankFailed if one of them is lost."""

        def act() -> None:
            handle = begin()
            self._meet()
            hvd.synchronize(handle)

        _or_failed(act)


def lend_the_stream_to_the_exchange(environment: MutableMapping[str, str]) -> None:
    """Let the stream and not the host wait for the end of an exchange between accelerators. Call before `hvd.init`.

    By default Horovod 0.28.1's `synchronize` returns when the exchange is over, so the host cannot queue the update and the
    next step earlier (common/ops/gpu_operations.cc, `FinalizeGPUQueue`). With this setting it returns when the default stream
    waits for the exchange (torch/mpi_ops_v2.cc). The default stream trains here. A value of the user is kept.
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
        # a reference cycle through C++, which Python's garbage collector cannot detect (horovod 0.28)
        self.optimiser._grad_accs.clear()


def _or_failed(act: Callable[[], Any]) -> None:
    try:
        act()
    except HorovodInternalError as error:
        if is_out_of_memory(error):
            raise
        raise RankFailed(str(error)) from error


class _InPlace:
    """Give Horovod, which needs contiguous tensors, the memory of a channels_last gradient without a copy."""

    @staticmethod
    def compress(gradient: Tensor) -> tuple[Tensor, Tensor]:
        return dense_view(gradient), gradient

    @staticmethod
    def decompress(exchanged: Tensor, gradient: Tensor) -> Tensor:
        return gradient


class _InPlaceFp16:
    """Send gradients as 16-bit floats, with one copy in each direction."""

    @staticmethod
    def compress(gradient: Tensor) -> tuple[Tensor, Tensor]:
        return dense_view(gradient).to(torch.float16), gradient

    @staticmethod
    def decompress(exchanged: Tensor, gradient: Tensor) -> Tensor:
        dense_view(gradient).copy_(exchanged)
        return gradient


def _name(purpose: str, buffer: Tensor) -> str:
    # Horovod caches its negotiation by name: equal names must mean equal shapes, or each use would negotiate again
    return f"{purpose}.{buffer.dtype}.{buffer.numel()}"
