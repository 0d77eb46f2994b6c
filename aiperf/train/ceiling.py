"""The largest batch that fits on a device.

On CUDA it is measured: forward and backward passes at growing batches, with what lies beside them reckoned (`footprint.py`).
A CPU never says that it is out of memory before the kernel kills somebody, so there it is computed: the modelled training
memory (see `morphism.cost`) against the memory a rank may use.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from aiperf.data.available_memory import available_bytes
from aiperf.errors import BadConfiguration
from aiperf.train.batch_sizes import largest, nothing_fits
from aiperf.train.collectives.collective import Collective
from aiperf.train.footprint import CudaMemory, beside_a_step, peak_of
from aiperf.train.module import build
from aiperf.train.precision import Precision
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph, Map, cost


class DoesNotFit(Exception):
    """Out of memory, or by the model sure to be."""


def memory_of_rank(conf: TrainerConf, device: torch.device, collective: Collective, on_host: int) -> int:
    """Bytes that each rank may use: `conf.memory_limit_bytes`, the accelerator's memory, or the host's divided by its ranks.

    The least that any rank found, so that all judge a batch alike without asking each other. All ranks must call it.
    `on_host`: how many of them are on this rank's host."""
    if conf.memory_limit_bytes is not None:
        own = conf.memory_limit_bytes
    elif device.type == "cuda":
        own = torch.cuda.get_device_properties(device).total_memory
    else:
        own = available_bytes() // on_host
    found = collective.total([own if rank == collective.rank else 0 for rank in range(collective.ranks)])
    return int(min(found))


def check(graph: Graph, batch: int, precision: Precision, limit: int) -> None:
    """Raises DoesNotFit where a step needs more than the limit at the least."""
    needed = cost(graph).training_memory(batch, precision.bytes_per_element)
    if needed > limit:
        raise DoesNotFit(f"batch {batch} needs at least {needed} bytes, and a rank may use {limit}")


def largest_batch(
    graph: Graph, device: torch.device, precision: Precision, conf: TrainerConf, limit: int, ranks: int = 1
) -> int:
    """The largest multiple of 8, up to 8192 and to 3 %, with which a trial fits into `conf.ceiling_share` of the limit.

    Raises BadConfiguration where not even the smallest batch does: nothing could be trained there.
    """
    allowed = int(limit * conf.ceiling_share)

    def fits(batch: int) -> bool:
        if device.type != "cuda":
            return cost(graph).training_memory(batch, precision.bytes_per_element) <= allowed
        return _peak(graph, batch, device, precision, ranks, channels_last=conf.channels_last) <= allowed

    found = largest(fits)
    if not found:
        raise BadConfiguration(nothing_fits(graph, precision.bytes_per_element, allowed))
    return found


def _peak(
    graph: Graph, batch: int, device: torch.device, precision: Precision, ranks: int, *, channels_last: bool
) -> int:
    """Bytes of the device that a trial takes at most; 2⁶³ when it was full."""
    network: nn.Module | None = None
    try:
        network = build(graph).to(device)
        if channels_last:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        images = blank(graph, batch, device, precision, channels_last=channels_last)
        step = partial(rehearse, network, images, precision)
        return peak_of(step, CudaMemory(device)) + beside_a_step(graph, batch, precision.bytes_per_element, ranks)
    except torch.cuda.OutOfMemoryError:
        return 2**63
    finally:
        step = network = images = None  # type: ignore[assignment]  # else the next batch is tried beside this one
        torch.cuda.empty_cache()


def rehearse(network: nn.Module, images: Tensor, precision: Precision) -> None:
    """One forward and backward pass, nothing kept of it but what it changed in running statistics.

    Done before weights are given: it tells whether the batch fits, and lets kernels be chosen and compiled.
    """
    network.train()
    with precision.computing():
        logits = network(images)
        labels = torch.zeros(len(images), device=images.device, dtype=torch.int64)
        loss = nn.functional.cross_entropy(logits.float(), labels)
    loss.backward()  # type: ignore[no-untyped-call]
    network.zero_grad(set_to_none=True)


def rehearse_eager_passes(network: nn.Module, images: Tensor, last: int, precision: Precision) -> None:
    """What goes eagerly where whole batches are replayed from CUDA graphs: validation, and the one training step of `last`
    images where a set is smaller than a whole step (else 0).

    Graphs keep their memory in a pool of their own; these passes need theirs beside it, which shows here and not in the
    middle of an epoch.
    """
    network.eval()
    with torch.inference_mode(), precision.computing():
        network.forward(images)
    if last:
        rehearse(network, images[:last], precision)
    network.train()


def blank(graph: Graph, batch: int, device: torch.device, precision: Precision, *, channels_last: bool) -> Tensor:
    """A batch of zeros, as the graph's input takes it."""
    shape = graph.shapes[0]
    assert isinstance(shape, Map)
    if channels_last:
        # strides as those of a batch of the data set, by which compiled code is chosen: of images with one channel torch takes
        # either layout for channels_last
        images = torch.zeros(batch, shape.height, shape.width, shape.channels, device=device, dtype=precision.dtype)
        return images.permute(0, 3, 1, 2)
    return torch.zeros(batch, shape.channels, shape.height, shape.width, device=device, dtype=precision.dtype)
