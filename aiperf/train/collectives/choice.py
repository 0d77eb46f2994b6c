"""Choice of the collective of a worker's ranks by `trainer.collective`, among the modules in `COLLECTIVES`."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from aiperf.errors import BadConfiguration
from aiperf.train.collectives.collective import Collective, Joining, SingleRank
from aiperf.train.trainer_config import COLLECTIVES, COLLECTIVES_IN_WORDS


class CollectiveModule(Protocol):
    """Interface of a module in `COLLECTIVES`. It can be imported without the library that it uses."""

    def missing(self, *, on_cuda: bool) -> str | None:
        """Return why the collective cannot be used here. None if it can."""
        ...

    def join(self, joining: Joining) -> Collective:
        """Join the other ranks. Every rank must call it."""
        ...


def module_of(name: str) -> CollectiveModule:
    """Import and return the module of a collective."""
    return cast(CollectiveModule, importlib.import_module(COLLECTIVES[name]))


def choose(choice: str, ranks: int, *, on_cuda: bool) -> str:
    """Return a name in COLLECTIVES, or 'none', for `trainer.collective`.

    `auto` chooses none for one rank, else the first that is available (Horovod if it is built, for CUDA with NCCL).
    Raises BadConfiguration for an explicit choice that is not available.
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
    """Join the ranks by `trainer.collective`. Raises BadConfiguration if it is not available."""
    name = choose(choice, joining.ranks, on_cuda=joining.device.type == "cuda")
    return SingleRank() if name == "none" else module_of(name).join(joining)
