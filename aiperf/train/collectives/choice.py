"""Which collective joins the ranks of a worker, by `trainer.collective`; the modules it knows are those of `COLLECTIVES`."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from aiperf.errors import BadConfiguration
from aiperf.train.collectives.collective import Alone, Collective, Joining
from aiperf.train.trainer_config import COLLECTIVES, COLLECTIVES_IN_WORDS


class CollectiveModule(Protocol):
    """What a module in `COLLECTIVES` offers. It can be imported where the library that it stands for is missing."""

    def missing(self, *, on_cuda: bool) -> str | None:
        """Why it cannot be used here, in words; None where it can."""
        ...

    def join(self, joining: Joining) -> Collective:
        """Meets the other ranks; every rank calls it."""
        ...


def module_of(name: str) -> CollectiveModule:
    """The module of a collective, imported."""
    return cast(CollectiveModule, importlib.import_module(COLLECTIVES[name]))


def choose(choice: str, ranks: int, *, on_cuda: bool) -> str:
    """A name in COLLECTIVES, or 'none', for `trainer.collective`.

    `auto` takes none for one rank, and else the first that can be had (Horovod where it is built; for CUDA: with NCCL). An
    explicit choice that cannot be had is refused with BadConfiguration, never replaced.
    """
    if choice == "auto":
        if ranks == 1:
            return "none"
        return next(name for name in COLLECTIVES if module_of(name).missing(on_cuda=on_cuda) is None)
    if choice == "none":
        if ranks > 1:
            raise BadConfiguration(f"trainer.collective='none' is one rank, found {ranks}: take {COLLECTIVES_IN_WORDS}")
        return choice
    if (missing := module_of(choice).missing(on_cuda=on_cuda)) is not None:
        raise BadConfiguration(f"trainer.collective={choice!r} cannot be had: {missing}")
    return choice


def join(choice: str, joining: Joining) -> Collective:
    """The ranks joined as `trainer.collective` says. Raises BadConfiguration where that cannot be had."""
    name = choose(choice, joining.ranks, on_cuda=joining.device.type == "cuda")
    return Alone() if name == "none" else module_of(name).join(joining)
