"""Ranks joined by Horovod: Gloo between CPUs, NCCL between GPUs. Can be imported without Horovod.

Horovod's own thread fuses gradients into buffers and exchanges them during the backward pass. Its environment (HOROVOD_RANK and
others) is set at the rank's start: see `group.py`. All Horovod-specific code is in this file and in `rendezvous.py`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from aiperf.train.collectives.collective import (
    Joining,
    Meet,
    Scaler,
    as_bytes,
    dense_view,
    in_one_piece,
    or_rank_failed,
)
from aiperf.train.device_timer import Mark, Timeline

HOW = "docs/training.md says how to build it"


def missing(*, on_cuda: bool) -> str | None:
    """Return why Horovod cannot be used here. None if it can."""
    if importlib.util.find_spec("horovod") is None:
        return f"the package horovod is not installed; {HOW}"
    try:
        import horovod.torch as hvd
    except ImportError as error:
        return f"horovod's torch extension does not load ({error}); {HOW}"
    if on_cuda and not hvd.nccl_built():
        return f"this horovod was built without NCCL, so that gradients would travel through the host; {HOW}"
    if not on_cuda and not hvd.gloo_built():
        return f"this horovod was built without Gloo; {HOW}"
    return None


def join(joining: Joining) -> Horovod:
    """Join the other ranks at the rendezvous in the environment (`ranks/rendezvous.py`)."""
    return Horovod(fp16_compression=joining.fp16_compression, meet=joining.meet)


class Horovod:
    """Collective by Horovod. See `collective.Collective`. One per process."""

    def __init__(self, *, fp16_compression: bool, meet: Meet) -> None:
        import horovod
        import horovod.torch as hvd

        self._hvd: Any = hvd
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
            lambda buffer: self._together(
                lambda: self._hvd.broadcast_async_(buffer, 0, name=_name("broadcast", buffer))
            ),
        )

    def average(self, tensors: Sequence[Tensor]) -> None:
        in_one_piece(
            tensors,
            lambda buffer: self._together(
                lambda: self._hvd.allreduce_async_(buffer, op=self._hvd.Average, name=_name("average", buffer))
            ),
        )

    def total(self, values: Sequence[float]) -> list[float]:
        buffer = torch.tensor(values, dtype=torch.float64)
        self._together(lambda: self._hvd.allreduce_async_(buffer, op=self._hvd.Sum, name=_name("total", buffer)))
        return [float(value) for value in buffer]

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None, timeline: Timeline
    ) -> _Overlapped:
        distributed = self._hvd.DistributedOptimizer(
            optimiser, named_parameters=list(module.named_parameters()), compression=self._compression
        )
        # DistributedOptimizer is a new optimiser over the same groups, without the state of the first and without its flag
        # for overflow checks inside the step. Without the flag the loss scaler would wait for the device in each step
        distributed.state.update(optimiser.state)
        distributed._step_supports_amp_scaling = getattr(optimiser, "_step_supports_amp_scaling", False)
        return _Overlapped(module, distributed, scaler, timeline, self._meet)

    def close(self) -> None:
        self._hvd.shutdown()

    def _together(self, begin: Callable[[], int]) -> None:
        """Send this rank's part, then wait for the other ranks. Raises RankFailed if one of them is lost."""

        def act() -> None:
            handle = begin()
            self._meet()
            self._hvd.synchronize(handle)

        or_rank_failed(act)


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
        or_rank_failed(scaled.backward)  # gradients are handed to Horovod within it
        own = self._timeline.mark()
        self._meet()
        or_rank_failed(self.optimiser.synchronize)
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
