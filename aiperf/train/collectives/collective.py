"""How the ranks of one worker act as one: the protocol, and the case of a single rank.

Horovod's implementation is in `horovod_collective.py`, torch's own in `torch_collective.py`; `choice.py` chooses. This file
imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed
from torch import Tensor, nn

from aiperf.train.device_timer import Mark, Timeline
from aiperf.train.meeting_place import MeetingPlace

Scaler = torch.amp.GradScaler
Meet = Callable[[], None]
"""Told when this rank has handed over its part of an exchange and waits for the others' from now on: of ranks that are all
silent, the one that has come to fewer exchanges is the one that hangs. Told earlier, a rank that fell asleep between the word
and the deed would look like those that wait for it."""


@dataclass(frozen=True, slots=True)
class Joining:
    """What a rank brings when it meets the others of its worker."""

    rank: int
    ranks: int
    meeting: MeetingPlace
    """Where torch's ranks find each other; Horovod's find theirs in the environment."""
    device: torch.device
    fp16_compression: bool
    """Gradients travel as 16-bit floats."""
    meet: Meet
    """To be called in each exchange, once this rank's part is handed over and before it waits."""


class Exchange(Protocol):
    """One trial's gradients: after `backward` every rank holds the mean of all ranks' gradients, then `update`."""

    module: nn.Module
    """What the forward pass of training is called on."""
    optimiser: torch.optim.Optimizer
    """The one that updates, whose state holds the momentum."""

    def backward(self, loss: Tensor) -> tuple[Mark, Mark] | None:
        """Backward pass with the exchange overlapped; gives the marks between which the rank waited for the exchange
        after its own backward pass was through (None where nothing is exchanged)."""
        ...

    def update(self) -> None:
        """The optimiser's step; lets go of the gradients."""
        ...

    def close(self) -> None:
        """The trial is over: nothing of it is held any more."""
        ...


class Collective(Protocol):
    """What the ranks of a worker do together. Every rank calls the same methods in the same order."""

    name: str
    """What it is and its version, as the report names it: 'horovod 0.28.1 (gloo)'."""
    rank: int
    ranks: int

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Rank 0's values into every rank's tensors, in place."""
        ...

    def average(self, tensors: Sequence[Tensor]) -> None:
        """The ranks' mean into every rank's tensors, in place; floating point only."""
        ...

    def total(self, values: Sequence[float]) -> list[float]:
        """The sums over all ranks, in double precision."""
        ...

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None, timeline: Timeline
    ) -> Exchange:
        """Prepares a trial's exchange of gradients. The module's values must agree already (see `broadcast`)."""
        ...

    def close(self) -> None:
        """Leaves the group."""
        ...


class RankFailed(Exception):
    """The exchange broke because another rank is gone. Which one it was, the group's supervisor sees."""


def is_of_exchange(error: BaseException) -> bool:
    """Whether the exchange broke, wherever in a step it showed: hooks exchange within the backward pass, and DDP within the
    forward pass too.

    torch has no class of its own for a peer that is gone: Gloo's and NCCL's own words tell it.
    """
    if isinstance(error, RankFailed | torch.distributed.DistError) or type(error).__name__ == "HorovodInternalError":
        return True
    words = ("gloo", "Gloo", "NCCL", "Connection", "Horovod has been shut down")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


class Alone:
    """One rank: nothing is exchanged."""

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

    def close(self) -> None:
        return None


def step(optimiser: torch.optim.Optimizer, scaler: Scaler | None) -> None:
    """One update; under loss scaling it is left out where a gradient overflowed."""
    if scaler is None:
        optimiser.step()
    else:
        scaler.step(optimiser)
        scaler.update()
    optimiser.zero_grad()


def dense_view(tensor: Tensor) -> Tensor:
    """The tensor's memory as a contiguous tensor: itself, or a channels_last one with its channel moved last.

    Raises ValueError for a layout that has gaps.
    """
    if tensor.is_contiguous():
        return tensor
    if tensor.dim() == 4:
        moved = tensor.permute(0, 2, 3, 1)
        if moved.is_contiguous():
            return moved
    raise ValueError(f"neither contiguous nor channels_last: strides {tensor.stride()} of shape {tuple(tensor.shape)}")


def as_bytes(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors' memory as bytes: what is only to be copied goes in one piece then, whatever its types."""
    return [dense_view(tensor.detach()).reshape(-1).view(torch.uint8) for tensor in tensors]


def in_one_piece(tensors: Iterable[Tensor], act: Callable[[Tensor], None]) -> None:
    """Applies a collective operation to many tensors as one buffer for each type and device, in place."""
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
