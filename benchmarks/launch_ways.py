"""Every way to launch a training step, in every precision that this device has, measured: the one command for a GPU.

    python -m benchmarks.launch_ways [--network resnet50_v1] [--batch 256] [--precisions bf16,fp16,tf32] [--seconds 3]

For each precision × way (eager, CUDA graphs, fused by hand: norm and conv, fused and graphed, torch.compile, compiled and
graphed) the network is prepared as a rank prepares it (`aiperf/train/execution.py`), its first step is made, and forward and
backward passes are timed in turn with eager ones, so that a machine's drift meets both. Printed are images a second, the
ratio to eager with its 95 % interval, seconds to prepare the way, MFU, and the share of the ceiling that the memory's
bandwidth sets (`memory_traffic.py`; its model of eager for what is not fused by hand). Fused kernels are first held to
torch's own; a way that cannot be had is printed with the reason, and the others go on. Optimiser and input are not in it:
`trainer_speed.py` has the whole loop.

On a machine without a GPU it measures what there is: eager and compiled on the processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from aiperf.errors import BadConfiguration
from aiperf.system.peaks import DataType, board_variant, peak, table
from aiperf.train.ceiling import blank
from aiperf.train.execution import Execution, NotHad
from aiperf.train.execution_mode import EAGER, ExecutionMode, modes
from aiperf.train.fused import missing
from aiperf.train.initialise import initialise
from aiperf.train.module import Network, build
from aiperf.train.precision import Precision, choose
from benchmarks.memory_traffic import bytes_per_image
from benchmarks.pairs import Ratio, describe_machine, interleaved
from morphism import Graph, cost, start

MODELLED = {"no": "eager", "norm": "norm", "conv": "conv"}


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
        """Seconds of a pass, of so many; the device is waited for at the end."""
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
    if mode.fused != "no":
        from aiperf.train.fused.check import worst

        if (problem := worst(device, precision.dtype, mode.fused)) is not None:
            raise NotHad(f"does not compute what torch does: {problem}")
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
    """Seconds of a pass in this way ÷ eagerly, and the seconds it took to prepare it."""
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
    moved = bytes_per_image(graph, MODELLED[mode.fused], precision.bytes_per_element)
    mfu = (
        "" if dense is None else f"{(counted.tensor_forward_flops + counted.tensor_backward_flops) * speed / dense:.1%}"
    )
    share = "" if bandwidth is None or mode.compiled else f"{speed * moved / bandwidth:.0%} of {bandwidth / moved:,.0f}"
    return f"| {precision.name} | {spoken(mode)} | {speed:,.1f} | {ratio} | {taken:.1f} | {mfu} | {share} |"


def spoken(mode: ExecutionMode) -> str:
    parts = ["compiled"] if mode.compiled else [] if mode.fused == "no" else [f"fused={mode.fused}"]
    return " + ".join([*(parts or ["eager"]), *(["CUDA graphs"] if mode.cuda_graphs else [])])


def open_modes(device: torch.device, compiles: bool) -> tuple[ExecutionMode, ...]:
    on_cuda = device.type == "cuda"
    if not on_cuda:
        return (EAGER, ExecutionMode(compiled=True)) if compiles else (EAGER,)
    found = modes("auto" if compiles else "off", "auto", on_cuda=True, fused="auto", cannot_fuse=missing(on_cuda=True))
    return tuple(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50_v1")
    parser.add_argument("--image", type=int, default=None, help="pixels of an edge; the network's own unless given")
    parser.add_argument("--batch", type=int, default=None, help="256 on a GPU, 16 on a processor, unless given")
    parser.add_argument("--precisions", default=None, help="bf16,fp16,tf32 on a GPU, fp32,bf16 on a processor")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a segment")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    chosen = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_cuda = device.type == "cuda"
    graph = start(chosen.network) if chosen.image is None else start(chosen.network, image=chosen.image)
    batch = chosen.batch or (256 if on_cuda else 16)
    name = torch.cuda.get_device_name(device) if on_cuda else "no accelerator"
    told = f"{chosen.network}, batch {batch}, channels_last, forward + backward; {describe_machine()}; {name}"
    print(f"{told}; torch {torch.__version__}")
    print(
        f"cuDNN benchmark: {on_cuda}; TF32 where it is named; not fused by hand: {missing(on_cuda=on_cuda) or 'nothing'}\n"
    )
    print(
        "| precision | way | images/s | time ÷ eager (95 % interval) | s to prepare | MFU | of the bandwidth's ceiling |"
    )
    print("| --- | --- | ---: | --- | ---: | ---: | --- |")
    for precision_name in (chosen.precisions or ("bf16,fp16,tf32" if on_cuda else "fp32,bf16")).split(","):
        measure(graph, precision_name, batch, device, chosen.seconds, chosen.pairs, chosen.compile, print)


def measure(
    graph: Graph, name: str, batch: int, device: torch.device, seconds: float, pairs: int, compiles: bool,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """A row for each way in one precision."""
    try:
        precision = choose(name, device)
    except BadConfiguration as error:
        say(f"| {name} | | cannot be had: {error} | | | | |")
        return
    precision.switch_on()
    for mode in open_modes(device, compiles):
        try:
            ratio, taken = against_eager(graph, mode, precision, batch, device, seconds, pairs)
        except (NotHad, torch.cuda.OutOfMemoryError) as error:
            say(f"| {name} | {spoken(mode)} | cannot be had: {error} | | | | |")
            continue
        say(row(graph, mode, precision, batch, device, ratio, taken))


if __name__ == "__main__":
    main()
