"""Memory of a training step on a device, and the largest batch that fits, in images per rank.

On CUDA a step is measured after its kernels are chosen, because cuDNN's search also reserves workspaces of rejected algorithms.
On a CPU it is computed, because the kernel kills processes instead of raising an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor, nn

from aiperf.atomic_files import replace_file
from aiperf.errors import BadConfiguration
from aiperf.files import lock
from aiperf.own_files import RUN, append_own, make_own_folder, read_own
from aiperf.system.control_groups import available_bytes
from aiperf.train.collectives.collective import Collective, Exchange
from aiperf.train.device import first_line, is_out_of_memory
from aiperf.train.precision import Precision
from aiperf.train.torch_network import build, placed
from aiperf.train.trainer_config import TrainerConf, nothing_fits
from morphism import Architecture, Graph, Map, TokenNumbers, cost, cost_of
from searchers.batch_sizes import largest

SNAPSHOTS = 3
"""Maximum number of snapshots on the device: the epoch's, which a retry starts from, one that is queued or being copied to the
host, and the new one."""


def bytes_outside_a_step(graph: Graph, batch: int, bytes_per_element: int, ranks: int) -> int:
    """Return the most bytes of a trial beside weights, gradients and activations of a training step.

    They are the moments, snapshots of weights and moments, the next batch (as bytes, FP32 and input type), and with several
    ranks a copy of the gradients: DDP's buckets, or Horovod's fusion buffer, which is no larger. `batch`: images per rank.
    """
    weights, moments = 4 * cost(graph).parameters, cost(graph).moments
    shape = graph.shapes[0]
    # of tokens two numbers of 8 bytes: the input and the target
    following = batch * shape.elements * (16 if isinstance(shape, TokenNumbers) else 1 + 4 + bytes_per_element)
    return moments * weights + (weights if ranks > 1 else 0) + SNAPSHOTS * (1 + moments) * weights + following


class CudaMemory:
    """Memory of a device, as its allocator reports it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def release(self) -> None:
        """Free the memory that the allocator has reserved and that is not in use."""
        torch.cuda.empty_cache()

    def begin(self) -> None:
        """Begin a new measurement of `peak`."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        return torch.cuda.max_memory_reserved(self._device)

    def hold(self, size: int) -> object:
        """Allocate `size` bytes. They are freed with the returned object."""
        return torch.empty(size, dtype=torch.uint8, device=self._device)


def peak_of(step: Callable[[], None], memory: CudaMemory) -> int:
    """Return the maximum bytes of the second of two runs. The first run chooses the kernels."""
    step()
    memory.release()
    memory.begin()
    step()
    return memory.peak()


def shortage(step: Callable[[], None], other_bytes: int, memory: CudaMemory) -> str | None:
    """None if a training step fits in addition to `other_bytes`, else ': ' and the device's text."""
    block: object = None
    try:
        step()
        memory.release()
        block = memory.hold(other_bytes)
        step()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return first_line(error)
    else:
        return None
    finally:
        del block
        memory.release()


class DoesNotFit(Exception):
    """Error for a batch that ran out of memory, or that needs too much memory by the memory model."""


def memory_of_rank(conf: TrainerConf, device: torch.device, collective: Collective, on_host: int) -> int:
    """Bytes that each rank may use for training, the minimum over all ranks. All ranks must call it."""
    if conf.memory_limit_bytes is not None:
        own = conf.memory_limit_bytes
    elif device.type == "cuda":
        own = torch.cuda.get_device_properties(device).total_memory
    else:
        own = available_bytes() // on_host
    by_rank = collective.total([own if rank == collective.rank else 0 for rank in range(collective.ranks)])
    return int(min(by_rank))


def check(network: Architecture, batch: int, precision: Precision, limit: int) -> None:
    """Raise DoesNotFit if a training step exceeds `limit` bytes by the memory model. `batch`: images per rank."""
    needed = cost_of(network).training_memory(batch, precision.bytes_per_element)
    if needed > limit:
        raise DoesNotFit(f"batch {batch} needs at least {needed} bytes, and a rank may use {limit}")


def largest_batch(
    graph: Graph, device: torch.device, precision: Precision, conf: TrainerConf, limit: int, ranks: int = 1
) -> int:
    """At most 8192, within trainer.ceiling_share of `limit` bytes. Raise BadConfiguration if 8 do not fit."""
    allowed = int(limit * conf.ceiling_share)
    said = ""

    def fits(batch: int) -> bool:
        nonlocal said
        if device.type != "cuda":
            return cost(graph).training_memory(batch, precision.bytes_per_element) <= allowed
        peak, said = _peak(graph, batch, device, precision, ranks, channels_last=conf.channels_last)
        return peak <= allowed

    batch_size = largest(fits)
    if not batch_size:
        raise BadConfiguration(nothing_fits(graph, precision.bytes_per_element, allowed) + said)
    return batch_size


def _peak(
    graph: Graph, batch: int, device: torch.device, precision: Precision, ranks: int, *, channels_last: bool
) -> tuple[int, str]:
    """Return the maximum bytes of the device that a trial needs, and ''. 2⁶³ and the device's text if the device was full."""
    network: nn.Module | None = None
    try:
        network = placed(build(graph), device, channels_last=channels_last)
        images = blank(graph, batch, device, precision, channels_last=channels_last)
        step = partial(rehearse, network, images, precision)
        beside = bytes_outside_a_step(graph, batch, precision.bytes_per_element, ranks)
        return peak_of(step, CudaMemory(device)) + beside, ""
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return 2**63, f". The device said{first_line(error)}"
    finally:
        step = network = images = None  # type: ignore[assignment]  # free them before the next batch is tried
        torch.cuda.empty_cache()


def rehearse(network: nn.Module, images: Tensor, precision: Precision, exchange: Exchange | None = None) -> None:
    """Run one forward and backward pass: it shows if the batch fits, and lets kernels be chosen and compiled.

    Only running statistics are changed, so it runs before the weights are loaded.
    """
    network.train()
    with precision.computing():
        logits = (network if exchange is None else exchange.module)(images)
        logits = logits.flatten(0, -2)  # of tokens, a row for each
        labels = torch.zeros(len(logits), device=images.device, dtype=torch.int64)
        loss = nn.functional.cross_entropy(logits.float(), labels)
    if exchange is None:
        loss.backward()  # type: ignore[no-untyped-call]
    else:
        exchange.backward(loss)
    network.zero_grad(set_to_none=True)


def rehearse_eager_passes(network: nn.Module, images: Tensor, last: int, precision: Precision) -> None:
    """Passes that CUDA graphs do not replay: those have their own pool. `last`: images of a set below a whole step, or 0."""
    network.eval()
    with torch.inference_mode(), precision.computing():
        network.forward(images)
    if last:
        rehearse(network, images[:last], precision)
    network.train()


def blank(graph: Graph, batch: int, device: torch.device, precision: Precision, *, channels_last: bool) -> Tensor:
    """Zeros (batch, channels, height, width) in the input type of the precision, or token numbers (batch, length)."""
    shape = graph.shapes[0]
    if isinstance(shape, TokenNumbers):
        return torch.zeros(batch, shape.length, device=device, dtype=torch.int64)
    assert isinstance(shape, Map)
    if channels_last:
        # the same strides as a batch of the data set, because compiled code depends on them: for images with one channel
        # torch accepts either layout as channels_last
        images = torch.zeros(batch, shape.height, shape.width, shape.channels, device=device, dtype=precision.dtype)
        return images.permute(0, 3, 1, 2)
    return torch.zeros(batch, shape.channels, shape.height, shape.width, device=device, dtype=precision.dtype)


@dataclass(frozen=True, slots=True)
class CeilingKey:
    """Conditions of a measured largest batch. Groups of ranks with equal conditions share the result."""

    host: str
    device: str
    memory: str
    """Memory of a rank, as text that is equal for equal groups."""
    family: str
    """The starting graph's fingerprint."""
    precision: str


def shared_ceiling(folder: Path, kind: CeilingKey, measure: Callable[[], int]) -> int:
    """Return the largest batch for the conditions `kind` from a file in `folder`. Measure and store it if absent.

    Groups of ranks that start together wait for the one that measures (flock, which the kernel releases when its holder
    dies). On a file system without locks each group measures, and the last result stays.
    """
    make_own_folder(folder)
    name = blake2b("\n".join(asdict(kind).values()).encode(), digest_size=8).hexdigest()
    file = folder / f"{name}.json"
    with append_own(folder / f"{name}.lock") as one_at_a_time:
        lock(one_at_a_time, waits=True)
        if file.exists():
            return int(json.loads(read_own(file, RUN))["batch_size"])
        measured = measure()
        replace_file(file, json.dumps({**asdict(kind), "batch_size": measured}, indent=1).encode() + b"\n")
        return measured
