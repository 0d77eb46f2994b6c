"""Rate of each way to launch a training step, in each precision of this device. Run it on a new accelerator.

    python -m benchmarks.launch_ways [--network resnet50_v1] [--batch 256] [--precisions bf16,fp16,tf32] [--ways eager,compiled]

The network is prepared as by a rank (`aiperf/train/execution.py`) for each precision and way (eager, CUDA graphs,
torch.compile, both). Its forward and backward passes alternate with eager ones, so that a drift of the machine affects both.
Printed are images per second, the ratio to eager with its 95 % interval, the preparation time, MFU, and the share of the
ceiling set by memory bandwidth. A failed way is printed with its reason, and the others continue.
`--ways` selects some of them for calls with a time limit. Optimizer and input are not measured. `trainer_speed.py` measures the
whole loop.

On a machine without a GPU, eager and compiled are measured on the processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from aiperf.errors import BadConfiguration
from aiperf.statistics.interleaved import Ratio, interleaved
from aiperf.system.peaks import DataType, board_variant, peak, table
from aiperf.train.execution import Execution
from aiperf.train.execution_mode import EAGER, ExecutionMode, modes_of
from aiperf.train.memory.ceiling import blank
from aiperf.train.network.module import Network, build
from aiperf.train.network.weights import initialise
from aiperf.train.precision import Precision, choose
from aiperf.train.trainer_config import TrainerConf
from benchmarks.pairs import describe_machine
from morphism import Graph, cost, start
from morphism.traffic import gradient_sums, layer_traffic


class Step:
    """A network and its forward and backward pass, launched in one way."""

    def __init__(
        self, graph: Graph, mode: ExecutionMode, precision: Precision, batch: int, device: torch.device
    ) -> None:
        self._device, self._precision = device, precision
        self._network: Network = build(graph)
        initialise(self._network, seed=0)
        self._network.to(device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self._images: Tensor = blank(graph, batch, device, precision, channels_last=True).normal_()
        self._labels = torch.zeros(batch, dtype=torch.int64, device=device)
        self._launch = Execution(self._network, mode, self._images, precision)
        self.do(1)
        self._launch.verify()

    def do(self, times: int) -> float:
        """Return the seconds per pass over `times` passes, including the final wait for the device."""
        began = time.perf_counter()
        for _ in range(times):
            with self._precision.computing():
                logits = self._network(self._images)
                loss = torch.nn.functional.cross_entropy(logits.float(), self._labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self._network.zero_grad(set_to_none=True)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return (time.perf_counter() - began) / times

    def close(self) -> None:
        self._launch.close()


@contextmanager
def prepared(
    graph: Graph, mode: ExecutionMode, precision: Precision, batch: int, device: torch.device
) -> Iterator[Step]:
    step = Step(graph, mode, precision, batch, device)
    try:
        yield step
    finally:
        step.close()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def against_eager(
    graph: Graph,
    mode: ExecutionMode,
    precision: Precision,
    batch: int,
    device: torch.device,
    seconds: float,
    pairs: int,
) -> tuple[Ratio, float]:
    """Return the ratio of seconds per pass to eager, and the preparation time in seconds."""
    with prepared(graph, EAGER, precision, batch, device) as eager:
        times = max(1, round(seconds / eager.do(2)))
        began = time.perf_counter()
        with prepared(graph, mode, precision, batch, device) as other:
            taken = time.perf_counter() - began
            other.do(2)
            return interleaved(lambda: other.do(times), lambda: eager.do(times), pairs), taken


def row(
    graph: Graph,
    mode: ExecutionMode,
    precision: Precision,
    batch: int,
    device: torch.device,
    ratio: Ratio,
    taken: float,
) -> str:
    speed = batch / sorted(ratio.a)[len(ratio.a) // 2]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    counted = cost(graph)
    dtype: DataType = next(each for each in ("fp32", "tf32", "bf16", "fp16") if each == precision.name)
    dense = peak(name, board_variant(name), dtype)
    bandwidth = next((each.memory_bytes_per_second for each in table() if each.example == name), None)
    moved = bytes_per_image(graph, precision.bytes_per_element)
    mfu = (
        "" if dense is None else f"{(counted.tensor_forward_flops + counted.tensor_backward_flops) * speed / dense:.1%}"
    )
    share = "" if bandwidth is None or mode.compiled else f"{speed * moved / bandwidth:.0%} of {bandwidth / moved:,.0f}"
    return f"| {precision.name} | {name_of(mode)} | {speed:,.1f} | {ratio} | {taken:.1f} | {mfu} | {share} |"


def bytes_per_image(graph: Graph, element_bytes: int) -> int:
    """Return the bytes that an eager step moves for each image. Weights are left out, since a batch shares them."""
    return element_bytes * sum(each.forward + each.backward for each in (*layer_traffic(graph), *gradient_sums(graph)))


def name_of(mode: ExecutionMode) -> str:
    return ("compiled" if mode.compiled else "eager") + ("+graphs" if mode.cuda_graphs else "")


def open_modes(device: torch.device) -> tuple[ExecutionMode, ...]:
    if device.type != "cuda":
        return EAGER, ExecutionMode(compiled=True)
    return modes_of(TrainerConf(compile="auto", cuda_graphs="auto"), on_cuda=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50_v1")
    parser.add_argument("--image", type=int, default=None, help="pixels of an edge; the network's own unless given")
    parser.add_argument("--batch", type=int, default=None, help="256 on a GPU, 16 on a processor, unless given")
    parser.add_argument("--precisions", default=None, help="bf16,fp16,tf32 on a GPU, fp32,bf16 on a processor")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a segment")
    parser.add_argument("--pairs", type=int, default=10)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ways = {name_of(mode): mode for mode in open_modes(device)}
    parser.add_argument("--ways", default=",".join(ways), help=f"of {','.join(ways)}; default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.ways.split(",")) - ways.keys():
        parser.error(f"--ways is a list of {', '.join(ways)}, but found {', '.join(sorted(unknown))}")
    on_cuda = device.type == "cuda"
    graph = start(arguments.network) if arguments.image is None else start(arguments.network, image=arguments.image)
    batch = arguments.batch or (256 if on_cuda else 16)
    name = torch.cuda.get_device_name(device) if on_cuda else "no accelerator"
    heading = f"{arguments.network}, batch {batch}, channels_last, forward + backward; {describe_machine()}; {name}"
    print(f"{heading}; torch {torch.__version__}")
    print(f"cuDNN benchmark: {on_cuda}; TF32 in the rows that name it\n")
    print(
        "| precision | way | images/s | time ÷ eager (95 % interval) | s to prepare | MFU | of the bandwidth's ceiling |"
    )
    print("| --- | --- | ---: | --- | ---: | ---: | --- |")
    for precision_name in (arguments.precisions or ("bf16,fp16,tf32" if on_cuda else "fp32,bf16")).split(","):
        modes_chosen = [ways[way] for way in arguments.ways.split(",")]
        measure(graph, precision_name, batch, device, arguments.seconds, arguments.pairs, modes_chosen, print_row)


def print_row(line: str) -> None:
    print(line, flush=True)  # rows stay visible if the call reaches its time limit


def measure(
    graph: Graph, name: str, batch: int, device: torch.device, seconds: float, pairs: int,
    ways: Sequence[ExecutionMode], emit: Callable[[str], None],
) -> None:  # fmt: skip
    """Print a row for each way in one precision."""
    try:
        precision = choose(name, device)
    except BadConfiguration as error:
        emit(f"| {name} | | cannot be used: {error} | | | | |")
        return
    precision.switch_on()
    for mode in ways:
        reason = ""
        try:
            ratio, taken = against_eager(graph, mode, precision, batch, device, seconds, pairs)
            emit(row(graph, mode, precision, batch, device, ratio, taken))
        except Exception as error:  # noqa: BLE001  # an error of one way must not stop the others
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = f"{type(error).__name__}: {' '.join(lines[:2])}"
        if reason:  # outside of the handler: its traceback keeps the tensors alive
            emit(f"| {name} | {name_of(mode)} | failed: {reason} | | | | |")
            if device.type == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
