"""Exchange between the ranks of one worker by Horovod: Gloo between CPUs, NCCL between GPUs. Imports without Horovod."""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aiperf.system.processes import threads_that_never_waited
from aiperf.train.collectives import collective
from aiperf.train.device import Mark, Timeline

CYCLE_MILLISECONDS = "5"
"""Time between two rounds of Horovod's thread, on processors. The thread takes the cores of training, most of all between two
exchanges: with Horovod's own 1 ms a seventh to a third of a step (benchmarks/results.md). A value of the user is kept."""
POLL_SECONDS = 0.0002
"""Time between two looks at an exchange, on processors."""
_TIMELINE, _ON_REQUEST = "HOROVOD_TIMELINE", "DYNAMIC"
HOW = "build it as in docs/training.md, or set trainer.collective=torch"


def missing(*, on_cuda: bool) -> str | None:
    if importlib.util.find_spec("horovod") is None:
        return f"the package horovod is not installed: {HOW}"
    try:
        import horovod.torch as hvd
    except ImportError as error:
        return f"horovod's torch extension does not load ({error}): {HOW}"
    if on_cuda and not hvd.nccl_built():
        return f"this horovod was built without NCCL and would send gradients through the host: {HOW}"
    if not on_cuda and not hvd.gloo_built():
        return f"this horovod was built without Gloo: {HOW}"
    try:
        # Gloo in Horovod 0.28 looks the host's name up, whatever its interface, and ends the process if that fails
        family, *_, address = socket.getaddrinfo(socket.gethostname(), 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as own:
            own.bind(address)
    except (OSError, UnicodeError) as error:
        return (
            f"the name of this host must be one of its addresses, but {socket.gethostname()!r} is not ({error}): add it to "
            "/etc/hosts, or set trainer.collective=torch"
        )
    return None


def join(joining: collective.Joining) -> Horovod:
    return Horovod(joining)


class Horovod:
    """Collective (exchange between the ranks of a worker) by Horovod. At most one exists per process."""

    def __init__(self, joining: collective.Joining) -> None:
        import horovod
        import horovod.torch as hvd

        self._hvd: Any = hvd
        if hvd.nccl_built():
            lend_the_stream_to_the_exchange(os.environ)
        on_processors = joining.device.type == "cpu"
        if on_processors:
            os.environ.setdefault("HOROVOD_CYCLE_TIME", CYCLE_MILLISECONDS)
        self._wait = sleep_until_exchanged if on_processors else _no_wait
        if joining.is_traced:
            _init_with_timeline()
        else:
            hvd.init()
        self._meet = joining.meet
        self.rank: int = hvd.rank()
        self.ranks: int = hvd.size()
        self._compression = _InPlaceFp16 if joining.fp16_compression else _InPlace
        self.name = f"horovod {horovod.__version__} ({'nccl' if hvd.nccl_built() else 'gloo'})"

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        collective.in_one_piece(
            collective.as_bytes(tensors),
            lambda buffer: self._together(
                lambda: self._hvd.broadcast_async_(buffer, 0, name=_name("broadcast", buffer))
            ),
        )

    def average(self, tensors: Sequence[Tensor]) -> None:
        collective.in_one_piece(
            tensors,
            lambda buffer: self._together(
                lambda: self._hvd.allreduce_async_(buffer, op=self._hvd.Average, name=_name("average", buffer))
            ),
        )

    def total(self, values: Sequence[float]) -> list[float]:
        buffer = torch.tensor(values, dtype=torch.float64)
        self._together(lambda: self._hvd.allreduce_async_(buffer, op=self._hvd.Sum, name=_name("total", buffer)))
        summed: list[float] = buffer.tolist()
        return summed

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: collective.Scaler | None, timeline: Timeline
    ) -> _Overlapped:
        distributed = self._hvd.DistributedOptimizer(
            optimiser, named_parameters=list(module.named_parameters()), compression=self._compression
        )
        # DistributedOptimizer is a new optimiser over the same groups, without the state of the first and without its flag
        # for overflow checks inside the step. Without the flag the loss scaler would wait for the device in each step
        distributed.state.update(optimiser.state)
        distributed._step_supports_amp_scaling = getattr(optimiser, "_step_supports_amp_scaling", False)
        return _Overlapped(module, distributed, scaler, timeline, self._meet, self._wait)

    def close(self) -> None:
        self._hvd.shutdown()

    def _together(self, begin: Callable[[], int]) -> None:
        def act() -> None:
            handle = begin()
            self._meet()
            self._wait([handle])
            self._hvd.synchronize(handle)

        collective.or_rank_failed(act)


def lend_the_stream_to_the_exchange(environment: MutableMapping[str, str]) -> None:
    """Let the GPU's stream wait for an exchange, not the host (common/ops/gpu_operations.cc). Call it before `hvd.init`."""
    environment.setdefault("HOROVOD_ENABLE_ASYNC_COMPLETION", "1")


def sleep_until_exchanged(handles: Iterable[int]) -> None:
    """Wait for exchanges asleep: `synchronize` of Horovod 0.28.1 calls sched_yield, which takes time from all ranks."""
    import horovod.torch as hvd

    for handle in handles:
        while not hvd.poll(handle):
            time.sleep(POLL_SECONDS)


def _no_wait(handles: Iterable[int]) -> None:
    """Wait nothing: the stream of an accelerator waits."""


def _init_with_timeline() -> None:
    """Initialize Horovod such that `start_timeline` works. A timeline of the user is kept.

    Rank 0's writer of the timeline polls without pause from here to the end of the process (common/timeline.cc, `WriterLoop`).
    It is given the lowest priority: it is the new thread that has never waited.
    """
    import horovod.torch as hvd

    os.environ.setdefault(_TIMELINE, _ON_REQUEST)
    before = threads_that_never_waited()
    hvd.init()
    for thread in threads_that_never_waited() - before:
        os.setpriority(os.PRIO_PROCESS, thread, 19)


class _Overlapped(collective.LocalExchange):
    optimiser: Any

    def __init__(
        self,
        module: nn.Module,
        optimiser: Any,
        scaler: collective.Scaler | None,
        timeline: Timeline,
        meet: collective.Meet,
        wait: Callable[[Iterable[int]], None],
    ) -> None:
        super().__init__(module, optimiser, scaler)
        self._timeline = timeline
        self._meet = meet
        self._wait = wait

    def backward(self, loss: Tensor) -> tuple[Mark, Mark]:
        collective.or_rank_failed(self.scaled(loss).backward)  # gradients are handed to Horovod within it
        own = self._timeline.mark()
        self._meet()
        self._wait(handle for handle, _ in self.optimiser._handles.values() if handle is not None)
        collective.or_rank_failed(self.optimiser.synchronize)
        return own, self._timeline.mark()

    def update(self) -> None:
        with self.optimiser.skip_synchronize():
            super().update()

    def begin_trace(self, timeline: Path) -> None:
        import horovod.torch as hvd

        if os.environ.get(_TIMELINE) == _ON_REQUEST:
            hvd.start_timeline(str(timeline))

    def end_trace(self) -> dict[str, float]:
        import horovod.torch as hvd

        if os.environ.get(_TIMELINE) == _ON_REQUEST:
            hvd.stop_timeline()
        return {}

    def close(self) -> None:
        # a reference cycle through C++, which Python's garbage collector cannot detect (horovod 0.28)
        self.optimiser._grad_accs.clear()


class _InPlace:
    """Give Horovod, which needs contiguous tensors, the memory of a channels_last gradient without a copy."""

    @staticmethod
    def compress(gradient: Tensor) -> tuple[Tensor, Tensor]:
        return collective.dense_view(gradient), gradient

    @staticmethod
    def decompress(exchanged: Tensor, gradient: Tensor) -> Tensor:
        return gradient


class _InPlaceFp16:
    """Send gradients as 16-bit floats, with one copy in each direction."""

    @staticmethod
    def compress(gradient: Tensor) -> tuple[Tensor, Tensor]:
        return collective.dense_view(gradient).to(torch.float16), gradient

    @staticmethod
    def decompress(exchanged: Tensor, gradient: Tensor) -> Tensor:
        collective.dense_view(gradient).copy_(exchanged)
        return gradient


def _name(purpose: str, buffer: Tensor) -> str:
    # Horovod caches its negotiation by name: equal names must mean equal shapes, or each use would negotiate again
    return f"{purpose}.{buffer.dtype}.{buffer.numel()}"
