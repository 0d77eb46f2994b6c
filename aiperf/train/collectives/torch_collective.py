"""Exchange between the ranks of one worker by torch's DistributedDataParallel: Gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from aiperf.train.collectives import MeetingPlace, StoreAt, collective
from aiperf.train.device import Mark, Timeline
from aiperf.train.trainer_config import PEER_SECONDS


def missing(*, on_cuda: bool) -> str | None:
    return None


def join(joining: collective.Joining) -> TorchCollective:
    return TorchCollective(joining)


class TorchCollective:
    """Collective (exchange between the ranks of a worker) by torch.distributed. At most one exists per process."""

    def __init__(self, joining: collective.Joining) -> None:
        self._joined, device = joining, joining.device
        self.rank, self.ranks = joining.rank, joining.ranks
        exchange = "nccl" if device.type == "cuda" else "gloo"
        self.name = f"torch {torch.__version__.partition('+')[0]} ({exchange})"
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            store=_store(joining.meeting, joining.ranks),
            rank=joining.rank,
            world_size=joining.ranks,
            timeout=timedelta(seconds=PEER_SECONDS),
            device_id=device if device.type == "cuda" else None,
        )

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        collective.in_one_piece(
            collective.as_bytes(tensors),
            lambda buffer: self._together(lambda: dist.broadcast(buffer, 0, async_op=True)),
        )

    def average(self, tensors: Sequence[Tensor]) -> None:
        def mean(buffer: Tensor) -> None:
            self._together(lambda: dist.all_reduce(buffer, async_op=True))
            buffer.div_(self.ranks)

        collective.in_one_piece(tensors, mean)

    def total(self, values: Sequence[float]) -> list[float]:
        buffer = torch.tensor(values, dtype=torch.float64)
        self._together(lambda: dist.all_reduce(buffer, async_op=True))
        summed: list[float] = buffer.tolist()
        return summed

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: collective.Scaler | None, timeline: Timeline
    ) -> _Bucketed:
        return _Bucketed(module, optimiser, scaler, timeline, self._joined)

    def close(self) -> None:
        dist.destroy_process_group()

    def _together(self, begin: Callable[[], Any]) -> None:
        def act() -> None:
            work = begin()
            self._joined.meet()
            work.wait()

        collective.or_rank_failed(act)


def _store(meeting: MeetingPlace, ranks: int) -> Any:
    if isinstance(meeting, StoreAt):
        return dist.TCPStore(  # type: ignore[attr-defined]  # likewise
            meeting.address,
            meeting.port,
            ranks,
            is_master=meeting.listening is not None,
            timeout=timedelta(seconds=PEER_SECONDS),
            wait_for_workers=False,
            master_listen_fd=meeting.listening,
        )
    return dist.FileStore(str(meeting), ranks)  # type: ignore[attr-defined]  # torch's stub does not re-export it


def unsynced_buffers(wrapper: type) -> dict[str, Any]:
    """Name of the argument. torch 2.11 and older use the name `broadcast_buffers`."""
    name = "forward_sync_buffers"
    return {name if name in signature(wrapper).parameters else "broadcast_buffers": False}


PHASES = ("forward pass", "backward pass alone", "all-reduce during the backward pass", "all-reduce alone")
"""Phases of a step that follow from DDP's logging data. They do not overlap."""
_USUAL_SAMPLE_RATE = 100
"""DDP's own interval of sampled steps."""


class _Bucketed(collective.LocalExchange):
    module: Any

    def __init__(
        self,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        scaler: collective.Scaler | None,
        timeline: Timeline,
        joining: collective.Joining,
    ) -> None:
        # no synchronization of its own: values were broadcast before, and running statistics are averaged each epoch
        wrapped = nn.parallel.DistributedDataParallel(
            module,
            device_ids=[joining.device] if joining.device.type == "cuda" else None,
            **unsynced_buffers(nn.parallel.DistributedDataParallel),
            init_sync=False,
            gradient_as_bucket_view=True,
        )
        self._own = _OwnPass()
        wrapped.register_comm_hook(dist.group.WORLD, _marking(self._own, timeline, joining))
        super().__init__(wrapped, optimiser, scaler)
        self._traced: dict[str, float] | None = None
        """Seconds by phase of the traced steps. None: steps are not traced."""
        self._timeline = timeline

    def backward(self, loss: Tensor) -> tuple[Mark, Mark]:
        collective.or_rank_failed(self.scaled(loss).backward)
        return self._own.end, self._timeline.mark()

    def update(self) -> None:
        super().update()
        if self._traced is not None:
            self.module.logger.set_runtime_stats_and_log()
            data = self.module._get_ddp_logging_data()  # nanoseconds of this step (torch 2.13)
            both = data["backward_compute_comm_overlap_time"]
            alone = data["backward_compute_time"] - both, both, data["backward_comm_time"] - both
            for phase, nanoseconds in zip(PHASES, (data["forward_compute_time"], *alone), strict=True):
                self._traced[phase] += nanoseconds / 1e9

    def begin_trace(self, timeline: Path) -> None:
        self.module._set_ddp_runtime_logging_sample_rate(1)
        self._traced = dict.fromkeys(PHASES, 0.0)

    def end_trace(self) -> dict[str, float]:
        self.module._set_ddp_runtime_logging_sample_rate(_USUAL_SAMPLE_RATE)
        seconds, self._traced = self._traced, None
        return seconds or {}


class _OwnPass:
    """End of this rank's own backward pass."""

    end: Mark = 0.0


def _marking(
    own: _OwnPass, timeline: Timeline, joining: collective.Joining
) -> Callable[[Any, GradBucket], torch.futures.Future[Tensor]]:
    """Return the exchange hook of a bucket, which records its time marks.

    The hook must not refer to the network, the optimiser or DDP. DDP's C++ side keeps the hook, and Python's garbage
    collector cannot detect that cycle, so the trial's memory would never be freed.
    """
    hook = default_hooks.fp16_compress_hook if joining.fp16_compression else default_hooks.allreduce_hook

    def marked(state: Any, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        # a bucket is ready with its last gradient. The last bucket's mark is the end of the own backward pass
        own.end = timeline.mark()
        exchanged = hook(state, bucket)
        if bucket.is_last():
            joining.meet()
        return exchanged

    # DDP compares these annotations with its own types, so strings do not match (torch 2.13)
    marked.__annotations__.update({"bucket": GradBucket, "return": torch.futures.Future[Tensor]})
    return marked
