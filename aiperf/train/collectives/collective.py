"""Interface of the exchange between the ranks of one worker, and the case of a single rank."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import torch
import torch.distributed
from torch import Tensor, nn

from aiperf.errors import BadConfiguration, conflict
from aiperf.train.collectives import MeetingPlace
from aiperf.train.device import Mark, Timeline, is_out_of_memory
from aiperf.train.trainer_config import COLLECTIVES, COLLECTIVES_IN_WORDS

Scaler = torch.amp.GradScaler
Meet = Callable[[], None]
"""Called when this rank has sent its part of an exchange and begins to wait for the others. If all ranks are silent, the one
with the fewest exchanges is the one that hangs. An earlier call would let a rank that stops just before sending look like the
waiting ones."""


@dataclass(frozen=True, slots=True)
class Joining:
    """Properties with which a rank (training process) joins the other ranks of its worker."""

    rank: int
    ranks: int
    meeting: MeetingPlace
    """Meeting point of torch's ranks. Horovod's ranks find theirs in the environment."""
    device: torch.device
    fp16_compression: bool
    """Send gradients as 16-bit floats."""
    meet: Meet
    """Called, without arguments, in each exchange after this rank has sent its part and before it waits."""
    is_traced: bool = False
    """True if the time of each phase of an exchange may be recorded later (`Exchange.begin_trace`)."""


class Exchange(Protocol):
    """Gradient exchange of one trial (training of one network) on one rank."""

    module: nn.Module
    """Module for the forward pass of training."""
    optimiser: torch.optim.Optimizer
    """Optimiser of the update. Its state has the momentum."""

    def backward(self, loss: Tensor) -> tuple[Mark, Mark] | None:
        """Run the backward pass of a scalar loss (), overlapped with the exchange of gradients.

        Return the time marks (begin, end) of this rank's wait for the exchange after its own backward pass. None if nothing is
        exchanged. Raise RankFailed if another rank is lost.
        """

    def update(self) -> None:
        """Run the optimiser's step and set the gradients to None."""

    def begin_trace(self, timeline: Path) -> None:
        """Begin to record the time of each phase of the exchanges. Call it on rank 0 only, and between two steps.

        `timeline`: file that Horovod writes. Other implementations do not write it.
        """
        ...

    def end_trace(self) -> dict[str, float]:
        """End the record. Return the seconds by phase of the exchange, summed over the recorded steps.

        Empty if they are in the timeline file, or if nothing was recorded.
        """
        ...

    def close(self) -> None:
        """Release what this trial's exchange holds in memory. Call it at the end of the trial."""


class Collective(Protocol):
    """Interface of operations over all ranks (processes) of a worker."""

    name: str
    """Name and version in the report, for example 'horovod 0.28.1 (gloo)'."""
    rank: int
    ranks: int

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Copy rank 0's values into every rank's tensors, in place. Shapes and types must be equal on all ranks."""

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace every rank's tensors by the mean over ranks, in place. The tensors must be floating point.

        Shapes must be equal on all ranks.
        """

    def total(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all ranks, element by element, in double precision. `values`: equally many on every rank."""

    def exchange(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None, timeline: Timeline
    ) -> Exchange:
        """Return a new gradient exchange for one trial.

        The module's values must be equal on all ranks (call `broadcast` before). `scaler`: loss scaling, None for none.
        `timeline`: clock of the device, for the time marks of `Exchange.backward`.
        """

    def close(self) -> None:
        """Leave the group of ranks. No other method may be called afterwards."""


class RankFailed(Exception):
    """Error of an exchange between ranks: another rank (process) of the worker is lost. The message is the library's."""


def is_of_exchange(error: BaseException) -> bool:
    """Return True if the error means that the exchange between ranks is broken, in any part of a training step.

    DDP exchanges within the forward and the backward pass, Horovod within the backward pass. Full device memory is not a broken
    exchange, also while NCCL starts. torch has no exception class for a lost rank, and therefore the messages of Gloo and NCCL
    are searched.
    """
    if is_out_of_memory(error):
        return False
    if isinstance(error, RankFailed | torch.distributed.DistError) or type(error).__name__ == "HorovodInternalError":
        return True
    texts = ("gloo", "Gloo", "NCCL", "Connection", "Horovod has been shut down")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in texts)


_LINKS = {"NVL": "NVLink", "NVB": "NVLink", "C2C": "NVLink", "XGMI": "Infinity Fabric"}


def nccl_transport(log: str) -> str | None:
    """Return how NCCL or RCCL connected a rank with the others, such as 'NVLink, network (IB)', from its log. None if unknown.

    Possible: NVLink, Infinity Fabric, PCIe, shared memory, network (with the library). `log`: written with NCCL_DEBUG=INFO and
    the subsystems INIT and GRAPH.

    >>> nccl_transport("Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct")
    'shared memory'
    """
    between = re.search(r"Pattern \d+, .*type (\w+)/", log)
    link = "PCIe or NVLink" if between is None else _LINKS.get(between[1], "PCIe")
    names = {"P2P": link, "SHM": "shared memory"}
    used = dict.fromkeys(re.findall(r"\[\w+\](?: \[(?:send|receive)\])? via (P2P|SHM|NET/\w+)", log))
    return ", ".join(names.get(each) or f"network ({each[4:]})" for each in used) or None


def or_rank_failed(act: Callable[[], object]) -> None:
    """Call `act`, a part of an exchange. Raise RankFailed if its RuntimeError means that another rank is lost."""
    try:
        act()
    except RuntimeError as error:
        if is_of_exchange(error):
            raise RankFailed(str(error)) from error
        raise


class SingleRank:
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
        return LocalExchange(module, optimiser, scaler)

    def close(self) -> None:
        return None


class LocalExchange:
    """A step without an exchange, and the base of those with one."""

    def __init__(self, module: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None) -> None:
        self.module = module
        self.optimiser = optimiser
        self._scaler = scaler

    def scaled(self, loss: Tensor) -> Tensor:
        return loss if self._scaler is None else self._scaler.scale(loss)

    def backward(self, loss: Tensor) -> tuple[Mark, Mark] | None:
        self.scaled(loss).backward()  # type: ignore[no-untyped-call]
        return None

    def update(self) -> None:
        """With loss scaling, the step is skipped if a gradient overflowed."""
        if self._scaler is None:
            self.optimiser.step()
        else:
            self._scaler.step(self.optimiser)
            self._scaler.update()
        self.optimiser.zero_grad()

    def begin_trace(self, timeline: Path) -> None:
        return None

    def end_trace(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        return None


def dense_view(tensor: Tensor) -> Tensor:
    """Return a view of the tensor's memory without gaps: itself, or (N, H, W, C) of channels_last. No value is copied."""
    if tensor.is_contiguous():
        return tensor
    if tensor.dim() == 4:
        moved = tensor.permute(0, 2, 3, 1)
        if moved.is_contiguous():
            return moved
    raise ValueError(
        f"a tensor must be contiguous or channels_last, but found strides {tensor.stride()} of shape {tuple(tensor.shape)}: "
        "report this as a defect of AIPerf"
    )


def as_bytes(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return the memory of each tensor as a uint8 tensor (bytes,), without a copy. Different types then fit in one buffer."""
    return [dense_view(tensor.detach()).reshape(-1).view(torch.uint8) for tensor in tensors]


def in_one_piece(tensors: Iterable[Tensor], act: Callable[[Tensor], None]) -> None:
    """Apply `act` to many tensors as one buffer (elements,) per data type and device. It changes them in place."""
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
    """Interface of a module that implements a collective (exchange between ranks). It can be imported without its library."""

    def missing(self, *, on_cuda: bool) -> str | None:
        """Return the reason, as text, for which this collective cannot be used on this host. None if it can be used.

        `on_cuda`: True if the ranks train on accelerators.
        """

    def join(self, joining: Joining) -> Collective:
        """Join the other ranks, and return the collective. Every rank must call it. It blocks until all ranks have joined."""


def module_of(name: str) -> CollectiveModule:
    return cast(CollectiveModule, importlib.import_module(COLLECTIVES[name]))


def choose(choice: str, ranks: int, *, on_cuda: bool) -> str:
    """Return the name of the collective for the option `trainer.collective`.

    'auto' is 'none' for one rank, else Horovod if it is usable (with NCCL for accelerators, else Gloo), else torch. Raise
    BadConfiguration if the chosen collective is not available, or for 'none' with several ranks.
    """
    if choice == "auto":
        if ranks == 1:
            return "none"
        return next(name for name in COLLECTIVES if module_of(name).missing(on_cuda=on_cuda) is None)
    if choice == "none":
        if ranks > 1:
            raise conflict("trainer.collective='none'", f"{ranks} ranks", f"Take {COLLECTIVES_IN_WORDS}")
        return choice
    if (missing := module_of(choice).missing(on_cuda=on_cuda)) is not None:
        raise BadConfiguration(f"trainer.collective={choice!r} is not available: {missing}")
    return choice


def join(choice: str, joining: Joining) -> Collective:
    """Join the other ranks. Blocks until all have joined. Raise BadConfiguration if the collective is not available."""
    name = choose(choice, joining.ranks, on_cuda=joining.device.type == "cuda")
    return SingleRank() if name == "none" else module_of(name).join(joining)
