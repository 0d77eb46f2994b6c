"""Interface of a collective over the ranks of one worker, and the case of a single rank.

Horovod's implementation is in `horovod_collective.py`, torch's in `torch_collective.py`. `join` imports the chosen one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import torch
import torch.distributed
from torch import Tensor, nn

from aiperf.errors import BadConfiguration
from aiperf.train.collectives.rendezvous_place import MeetingPlace
from aiperf.train.device_errors import is_out_of_memory
from aiperf.train.device_timer import Mark, Timeline
from aiperf.train.trainer_config import COLLECTIVES, COLLECTIVES_IN_WORDS

Scaler = torch.amp.GradScaler
Meet = Callable[[], None]
"""Called when this rank has sent its part of an exchange and begins to wait for the others. If all ranks are silent, the one
with the fewest exchanges is the one that hangs. An earlier call would let a rank that stops just before sending look like the
waiting ones."""


@dataclass(frozen=True, slots=True)
class Joining:
    """Arguments with which a rank joins the others of its worker."""

    rank: int
    ranks: int
    meeting: MeetingPlace
    """Rendezvous of torch's ranks. Horovod's ranks find theirs in the environment."""
    device: torch.device
    fp16_compression: bool
    """Send gradients as 16-bit floats."""
    meet: Meet
    """Must be called in each exchange, after this rank's part is sent and before it waits."""
    is_traced: bool = False
    """Exchanges may be traced (`Exchange.begin_trace`)."""


class Exchange(Protocol):
    """Gradient exchange of one trial. After `backward` every rank has the mean of all ranks' gradients. Then call `update`."""

    module: nn.Module
    """Module for the forward pass of training."""
    optimiser: torch.optim.Optimizer
    """Optimiser of the update, whose state has the momentum."""

    def backward(self, loss: Tensor) -> tuple[Mark, Mark] | None:
        """Run the backward pass of a scalar loss (), overlapped with the exchange.

        Return the marks between which the rank waited for the exchange after its own backward pass. None if nothing is
        exchanged.
        """

    def update(self) -> None:
        """Run the optimiser's step and release the gradients."""

    def begin_trace(self, timeline: Path) -> None:
        """Record the phases of the following exchanges, on rank 0 and between two steps. Horovod writes them to `timeline`."""
        ...

    def end_trace(self) -> dict[str, float]:
        """End the record. Return the seconds by phase, or nothing if they are in the timeline or were not recorded."""
        ...

    def close(self) -> None:
        """Release everything of the trial."""


class Collective(Protocol):
    """Operations over the ranks of a worker. Every rank calls the same methods in the same order."""

    name: str
    """Name and version in the report, for example 'horovod 0.28.1 (gloo)'."""
    rank: int
    ranks: int

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Copy rank 0's values into every rank's tensors, in place. Shapes and types must be equal on all ranks."""

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace every rank's tensors by the mean over ranks, in place.

        Floating point only. Shapes must be equal on all ranks.
        """

    def total(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all ranks, element by element, in double precision."""

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None, timeline: Timeline
    ) -> Exchange:
        """Prepare a trial's exchange of gradients. The module's values must be equal on all ranks (see `broadcast`)."""

    def close(self) -> None:
        """Leave the group."""


class RankFailed(Exception):
    """The exchange broke because another rank is lost. The group's supervisor identifies it."""


def is_of_exchange(error: BaseException) -> bool:
    """Return True if the error means that the exchange between ranks is broken, in any part of a step.

    Hooks exchange within the backward pass, and DDP also within the forward pass. Full device memory while NCCL starts is not a
    broken exchange. torch has no exception class for a lost peer, so the messages of Gloo and NCCL are searched.
    """
    if is_out_of_memory(error):
        return False
    if isinstance(error, RankFailed | torch.distributed.DistError) or type(error).__name__ == "HorovodInternalError":
        return True
    words = ("gloo", "Gloo", "NCCL", "Connection", "Horovod has been shut down")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def or_rank_failed(act: Callable[[], object]) -> None:
    """Run a part of an exchange. Raises RankFailed if another rank is lost."""
    try:
        act()
    except RuntimeError as error:
        if is_of_exchange(error):
            raise RankFailed(str(error)) from error
        raise


class SingleRank:
    """Collective of one rank: nothing is exchanged."""

    name = "none"
    rank = 0
    ranks = 1

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        return None

    def average(self, tensors: Sequence[Tensor]) -> None:
        return None

    def total(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None, timeline: Timeline
    ) -> Exchange:
        return _Local(module, optimiser, scaler)

    def close(self) -> None:
        return None


class _Local:
    def __init__(self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None) -> None:
        self.module = module
        self.optimiser = optimiser
        self._scaler = scaler

    def backward(self, loss: Tensor) -> None:
        scaled = loss if self._scaler is None else self._scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def update(self) -> None:
        step(self.optimiser, self._scaler)

    def begin_trace(self, timeline: Path) -> None:
        return None

    def end_trace(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        return None


def step(optimiser: torch.optim.Optimizer, scaler: Scaler | None) -> None:
    """Run one update and release the gradients. Loss scaling skips the update if a gradient overflowed."""
    if scaler is None:
        optimiser.step()
    else:
        scaler.step(optimiser)
        scaler.update()
    optimiser.zero_grad()


def dense_view(tensor: Tensor) -> Tensor:
    """Return the tensor's memory as a contiguous tensor: itself, or a channels_last (N, C, H, W) viewed as (N, H, W, C).

    Raises ValueError for a layout with gaps.
    """
    if tensor.is_contiguous():
        return tensor
    if tensor.dim() == 4:
        moved = tensor.permute(0, 2, 3, 1)
        if moved.is_contiguous():
            return moved
    raise ValueError(f"neither contiguous nor channels_last: strides {tensor.stride()} of shape {tuple(tensor.shape)}")


def as_bytes(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return the tensors' memory as uint8 tensors (bytes,). Tensors of several types can then be copied in one buffer."""
    return [dense_view(tensor.detach()).reshape(-1).view(torch.uint8) for tensor in tensors]


def in_one_piece(tensors: Iterable[Tensor], act: Callable[[Tensor], None]) -> None:
    """Apply a collective operation to many tensors as one buffer (elements,) per type and device, in place."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor.detach())
    with torch.no_grad():
        for members in kinds.values():
            buffer = torch.cat([dense_view(member).reshape(-1) for member in members])
            act(buffer)
            at = 0
            for member in members:
                view = dense_view(member)
                view.copy_(buffer[at : at + view.numel()].view_as(view))
                at += view.numel()


class CollectiveModule(Protocol):
    """Interface of a module in `COLLECTIVES`. It can be imported without the library that it uses."""

    def missing(self, *, on_cuda: bool) -> str | None:
        """Return the reason why the collective cannot be used here, as text. None if it can."""

    def join(self, joining: Joining) -> Collective:
        """Join the other ranks. Every rank must call it."""


def module_of(name: str) -> CollectiveModule:
    """Import and return the module of a collective by its name in COLLECTIVES. Raises KeyError for another name."""
    return cast(CollectiveModule, importlib.import_module(COLLECTIVES[name]))


def choose(choice: str, ranks: int, *, on_cuda: bool) -> str:
    """Return a name in COLLECTIVES, or 'none', for `trainer.collective`.

    `auto` chooses none for one rank, else the first that is available (Horovod if it is built, for CUDA with NCCL).
    Raises BadConfiguration for an explicit choice that is not available, and for 'none' with several ranks.
    """
    if choice == "auto":
        if ranks == 1:
            return "none"
        return next(name for name in COLLECTIVES if module_of(name).missing(on_cuda=on_cuda) is None)
    if choice == "none":
        if ranks > 1:
            raise BadConfiguration(
                f"trainer.collective='none' is one rank, but found {ranks}: take {COLLECTIVES_IN_WORDS}"
            )
        return choice
    if (missing := module_of(choice).missing(on_cuda=on_cuda)) is not None:
        raise BadConfiguration(f"trainer.collective={choice!r} is not available: {missing}")
    return choice


def join(choice: str, joining: Joining) -> Collective:
    """Join the ranks by `trainer.collective` and return the collective. Raises BadConfiguration if it is not available."""
    name = choose(choice, joining.ranks, on_cuda=joining.device.type == "cuda")
    return SingleRank() if name == "none" else module_of(name).join(joining)
