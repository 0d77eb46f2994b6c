"""Program of one rank, `python -m aiperf.train.ranks.rank FD`: it joins once, and ends with the thread that started it."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import queue
import signal
import sys
import threading
import traceback
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiperf.errors import BadConfiguration
from aiperf.files import host_name, read_bounded
from aiperf.system.host import near_processors, processor_name
from aiperf.system.processes import signal_at_end_of_parent
from aiperf.train.heartbeat import HeartbeatFile, RankHeartbeat, Stage
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, Ready, Setup

if TYPE_CHECKING:
    import torch

    from aiperf.train.checkpoints.checkpoint import Writer
    from aiperf.train.memory_limits import CeilingKey
    from aiperf.train.rank_context import RankContext

SWITCH_SECONDS = 0.0005
"""Maximum time for which the checkpoint's thread may keep the interpreter while training waits for it, after each message or
exchange. Python's default of 0.005 was visible as idle time."""
LEAST_EXCHANGES, MOST_EXCHANGES = 2, 6
"""Measured exchanges of gradients at the start. The first one opens connections."""
LARGEST_NCCL_LOG = 64 << 20
"""Bytes. Eight GPUs of a host write about 100 kB."""
EXCHANGES_SECONDS = 0.5
"""Time after which no further exchange is measured."""


def main() -> None:
    """The argument is the pipe's file descriptor. Errors after the settings were received are reported through it."""
    pipe = Connection(int(sys.argv[1]))
    _die_with_parent()
    setup = pipe.recv()
    assert isinstance(setup, Setup), setup
    os.nice(setup.recipe.conf.nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends ranks in order
    try:
        _serve(setup, pipe)
    except BaseException as error:  # noqa: BLE001  # reported to the supervisor
        with contextlib.suppress(OSError):
            pipe.send(_failure(error))
        with contextlib.suppress(OSError):  # the log's disk may be full
            traceback.print_exc()
            sys.stderr.flush()
        # not sys.exit: a waiting thread of Horovod or NCCL would keep the process alive
        os._exit(1)


def _serve(setup: Setup, pipe: Connection) -> None:
    recipe, seat, conf = setup.recipe, setup.seat, setup.recipe.conf
    liveness = RankHeartbeat(HeartbeatFile(setup.heartbeats, setup.ranks), seat.rank)
    patience = conf.start_seconds
    liveness.enter(Stage.IMPORT, patience)

    import torch

    from aiperf.data.dataset_config import FilesConf
    from aiperf.data.decode import require_nvjpeg
    from aiperf.data.opening import open_data
    from aiperf.journal.messages import CorruptImagesFound
    from aiperf.train import loop
    from aiperf.train.checkpoints.checkpoint import Writer
    from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
    from aiperf.train.collectives.collective import Joining, join
    from aiperf.train.memory_limits import largest_batch, shared_ceiling
    from aiperf.train.rank_context import RankContext
    from morphism import Graph, decode_architecture

    torch.set_num_threads(setup.threads)
    sys.setswitchinterval(SWITCH_SECONDS)
    device = torch.device("cpu") if seat.accelerator is None else torch.device("cuda", seat.accelerator)
    if device.type == "cuda":
        _require_accelerated_torch(torch.__version__, torch.version.cuda, torch.version.hip)
        torch.cuda.set_device(device)
        # so that decoding threads and pinned memory are on the accelerator's NUMA node
        os.sched_setaffinity(0, near_processors(pci_address(device), os.sched_getaffinity(0), setup.cores))
    if isinstance(recipe.dataset, FilesConf) and recipe.dataset.decoder == "gpu":
        require_nvjpeg(device)
    start = decode_architecture(recipe.start_graph)
    liveness.enter(Stage.DATA, patience)
    data = open_data(recipe.dataset, cores=setup.cores)
    liveness.enter(Stage.JOIN, patience)
    liveness.meet()
    fp16, is_traced = conf.fp16_compression, conf.profile_steps > 0
    joining = Joining(seat.rank, setup.ranks, setup.meeting, device, fp16, liveness.meet, is_traced)
    collective = join(conf.collective, joining)
    liveness.enter(Stage.WARM_UP, patience)
    is_first = seat.rank == 0
    folder, keep = CheckpointFolder(recipe.run_folder / "checkpoints"), conf.keep_checkpoints_seconds
    writer = Writer(folder, keep, liveness.device_wait) if is_first else None
    context = RankContext.make(
        conf, data, start, device, collective, writer, liveness, seat.local_size, seat.local_rank
    )
    _warm_up(context)

    def measure() -> int:
        liveness.enter(Stage.CEILING, patience)
        assert isinstance(start, Graph)
        with liveness.device_wait():
            return largest_batch(start, device, context.precision, conf, context.memory_bytes, setup.ranks)

    liveness.enter(Stage.QUEUE if is_first else Stage.JOIN, inf if is_first else patience)
    # while one rank measures, the others wait: they share the host's memory and, on CPUs, its cores
    is_measured = is_first and isinstance(start, Graph)
    largest = shared_ceiling(recipe.run_folder / "ceilings", _kind(setup, context), measure) if is_measured else 0
    collective.total([0.0])
    liveness.enter(Stage.PEAK, patience)
    # together, as they will train: one core alone is faster than each of them
    is_cpu = device.type == "cpu"
    peak = _measured_peak(context, setup.threads) if is_cpu else None
    bandwidth = _measured_bandwidth(context, setup.threads, seat.local_size) if is_cpu else None
    bus = _measured_bus(context) if setup.ranks > 1 else None
    pipe.send(
        Ready(
            ranks=setup.ranks,
            device=_name_of(device),
            device_memory_bytes=context.memory_bytes,
            collective=collective.name,
            family=start.fingerprint,
            largest_batch=largest,
            precision=context.precision.name,
            matmul_flops=peak,
            memory_bytes_per_second=bandwidth,
            bus_bytes_per_second=bus,
            transport=_transport() if bus is not None else None,
        )
    )
    orders: queue.SimpleQueue[ExecuteOrder] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, orders, writer), name="orders", daemon=True).start()
    while True:
        liveness.beat(0, Stage.IDLE, inf)
        do = orders.get()
        for message in loop.train(do.order, context, do.taken):
            if is_first or isinstance(message, CorruptImagesFound):  # each rank reads other images
                pipe.send(message)


def _warm_up(context: RankContext) -> None:
    """Load what the first trial would wait for: one step of a tiny network runs through everything that a trial uses."""
    import torch
    from torch import nn

    from aiperf.train.optimiser import optimiser_of
    from aiperf.train.torch_network import placed

    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 2 * 2, 2))
    placed(network, context.device, channels_last=context.conf.channels_last)
    context.collective.broadcast([*network.state_dict().values()])
    exchange = context.collective.exchange(
        network, optimiser_of(network, context.conf), context.scaler(), context.timeline
    )
    images = torch.zeros(2, 1, 4, 4, device=context.device, dtype=context.precision.dtype)
    with context.precision.computing():
        loss = nn.functional.cross_entropy(
            exchange.module(images).float(),
            torch.zeros(2, dtype=torch.int64, device=context.device),
            label_smoothing=0.1,
        )
    exchange.backward(loss)
    exchange.update()
    exchange.close()
    if any(mode.needs_compiler for mode in context.modes):
        importlib.import_module("torch._dynamo")  # takes a second
    torch.save(network.state_dict(), io.BytesIO())
    context.timeline.anchor()


def pci_address(device: torch.device) -> str:
    """Return the PCI address of an accelerator in the kernel's form, such as '0000:3b:00.0'."""
    import torch

    of: Any = torch.cuda.get_device_properties(device)  # torch's stub lacks the PCI numbers
    return f"{of.pci_domain_id:04x}:{of.pci_bus_id:02x}:{of.pci_device_id:02x}.0"


def _require_accelerated_torch(version: str, cuda: str | None, hip: str | None) -> None:
    if cuda is None and hip is None:
        raise BadConfiguration(
            f"a worker with accelerators needs a torch built for CUDA or ROCm, but found torch {version}: install such a build "
            "(docs/setup.md, GPUs), or hide the accelerators with CUDA_VISIBLE_DEVICES="
        )


def _kind(setup: Setup, context: RankContext) -> CeilingKey:
    import torch

    from aiperf.train.memory_limits import CeilingKey

    if context.device.type == "cuda":
        memory = f"{torch.cuda.get_device_properties(context.device).total_memory} bytes"
    else:  # free memory varies
        memory = f"the host's, between {setup.seat.local_size}"
    return CeilingKey(host_name(), _name_of(context.device), memory, context.start.fingerprint, context.precision.name)


def _measured_peak(context: RankContext, threads: int) -> float:
    from aiperf.measure.matrix_product import matmul_passes

    passes = matmul_passes(context.precision.name, threads)
    while True:
        flops, is_faster = next(passes)
        if context.collective.total([float(is_faster)]) == [0.0]:
            return flops


def _measured_bandwidth(context: RankContext, threads: int, local_ranks: int) -> float:
    from aiperf.measure.memory_bandwidth import triad_passes

    for one in triad_passes(threads, context.device, local_ranks):
        if context.collective.total([float(not one.is_final)]) == [0.0]:
            break
    return max(one.rates)


def _measured_bus(context: RankContext) -> float:
    """Bus bandwidth of the fastest all-reduce of the starting network's gradients."""
    import torch

    from aiperf.measure.all_reduce import bus_bandwidth
    from morphism import cost_of

    collective, timeline = context.collective, context.timeline
    gradients = torch.zeros(cost_of(context.start).parameters, device=context.device)
    seconds: list[float] = []
    while len(seconds) < LEAST_EXCHANGES or (len(seconds) < MOST_EXCHANGES and sum(seconds) < EXCHANGES_SECONDS):
        begin = timeline.mark()
        collective.average([gradients])
        end = timeline.mark()
        # the mean of all ranks, which also lets them begin the next one together
        seconds.append(collective.total([timeline.second(end) - timeline.second(begin)])[0] / collective.ranks)
    return bus_bandwidth(gradients.nbytes, min(seconds), collective.ranks)


def _transport() -> str | None:
    from aiperf.train.collectives.collective import nccl_transport

    try:
        log = read_bounded(Path(os.environ["NCCL_DEBUG_FILE"]), LARGEST_NCCL_LOG)
    except (KeyError, OSError):
        return None
    return nccl_transport(log.decode(errors="replace"))


def _listen(pipe: Connection, orders: queue.SimpleQueue[ExecuteOrder], writer: Writer | None) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            orders.put(pipe.recv())
    if writer is not None:
        writer.settle(timeout=5.0)  # the supervisor kills what takes longer
    os._exit(0)


def _failure(error: BaseException) -> FailureReport:
    from aiperf.errors import AiperfError
    from aiperf.train.collectives.collective import RankFailed, is_of_exchange
    from aiperf.train.device import is_of_device
    from aiperf.train.loop import RankOutOfMemory
    from morphism import DamagedMorph, IllegalMorph

    match error:
        case RankFailed():
            return FailureReport(f"the exchange with the others broke: {error}", is_peer=True)
        case RankOutOfMemory():
            if error.message is not None:
                return FailureReport(str(error), messages=(error.message,))
            return FailureReport(str(error), retry=False, cause="memory")
        case IllegalMorph() | DamagedMorph():
            return FailureReport(str(error), retry=False, cause="network")
        case AiperfError():
            return FailureReport(str(error), is_fixable=True)
        case _ if is_of_exchange(error):
            return FailureReport(f"the exchange with the others broke: {error}", is_peer=True)
        case _:
            return FailureReport("".join(traceback.format_exception_only(error)).strip(), is_device=is_of_device(error))


def _name_of(device: torch.device) -> str:
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return processor_name()


def _die_with_parent() -> None:
    parent = os.getppid()
    signal_at_end_of_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before prctl


if __name__ == "__main__":
    main()
