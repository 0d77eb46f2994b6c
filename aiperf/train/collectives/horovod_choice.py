"""Availability of Horovod, and joining ranks by it. Can be imported without Horovod."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from aiperf.train.collectives.collective import Joining

if TYPE_CHECKING:
    from aiperf.train.collectives.horovod_collective import Horovod

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
    from aiperf.train.collectives.horovod_collective import Horovod

    return Horovod(fp16_compression=joining.fp16_compression, meet=joining.meet, is_traced=joining.is_traced)
