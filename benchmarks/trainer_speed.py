"""Images per second of the trainer's loop ÷ the best plain PyTorch loop, in interleaved pairs.

    python -m benchmarks.trainer_speed [--networks resnet20,resnet50_v1_5] [--precisions fp32,bf16] [--pairs N]
    python -m benchmarks.trainer_speed --networks resnet20 --regions 24 [--batch 64]

Both train the same architecture from the same weights on the same images, at the same batch and precision, with the same
optimizer and loss. The script stops if the losses of the first steps differ. The plain loop is the code of an expert:
torchvision's ResNet-50 (the usual ResNet-20 for 32×32). Its images are in memory as the tensors that the network needs, so its
input is free. Its ways (memory format, fused or multi-tensor SGD, torch.compile; on a GPU also max-autotune and CUDA graphs)
are tried on this machine first, and the fastest is used. Both sides have the same switches: TF32 only where it is named, and
cuDNN's search for algorithms. `--own` sets options of AIPerf's side, which is the loop of every rank: images are picked from
the data set and normalized, every step is accounted for and reported. Neither side validates or writes checkpoints.

Each side has its own process, and one sleeps while the other works. Segments of a few seconds alternate (a b, b a, …), so that
a drift of the machine affects both. The plain process uses PyTorch's defaults. AIPerf's process keeps freed memory as every
rank does (`aiperf/train/rank_context.py`), and `--keep-memory` enables this for the plain one too. A ratio above 1 means
that AIPerf is faster. On a GPU the absolute value and MFU are printed too.

`--regions N` compares trainer.compile=regions with eager steps instead (processor time on a processor). It prints what regions
add to the starts of trials of a network and N descendants by random morphs.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, assert_never

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

from aiperf.data.dataset_config import SyntheticConf
from aiperf.data.opened import OpenData
from aiperf.data.opening import open_data
from aiperf.journal.messages import Advanced, EpochDone, Message
from aiperf.rng import derive
from aiperf.statistics.interleaved import Ratio, interleaved
from aiperf.system.peaks import DataType, board_variant, peak
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.execution import Execution
from aiperf.train.execution_mode import EAGER, REGIONAL
from aiperf.train.loop import train
from aiperf.train.memory_limits import blank, rehearse
from aiperf.train.precision import choose
from aiperf.train.rank_context import RankContext, keep_freed_memory
from aiperf.train.regions import compilations
from aiperf.train.torch_network import build, initialise, placed
from aiperf.train.trainer_config import TrainerConf
from benchmarks.pairs import describe_machine, order, side_process
from morphism import Budget, Graph, cost, start
from morphism.grow import grow
from morphism.legal import choices

CLASSES = 10
SEED = 0
CONF = TrainerConf(learning_rate=0.01, decay_epochs=10**6)
HELD_BATCHES = 8
"""Batches that the plain loop keeps in memory and repeats."""
TRIED_SECONDS = 1.0
"""Time for each way of the plain loop in each of three rounds. At least one step."""
STEPS = 20_000
"""Steps of the single long epoch of AIPerf's side: more than a comparison needs."""
COMPARED_STEPS = 3
"""Number of first steps with equal losses on both sides, to show that both compute the same."""
LOSS_TOLERANCE = 0.01


class _Block(nn.Module):
    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        activated: Tensor = self.relu(out)
        return activated


def resnet20() -> nn.Module:
    """He et al. 2015, section 4.2, with projection shortcuts."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    channels = 16
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        for number in range(3):
            layers.append(_Block(channels, width, stride if number == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


PLAIN: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "resnet20": (resnet20, 32),
    "resnet50_v1_5": (lambda: torchvision.models.resnet50(num_classes=CLASSES), 224),
}


@dataclass(frozen=True, slots=True)
class Task:
    network: str
    precision: str
    batch: int
    steps: int
    """Steps of the single long epoch of AIPerf's side."""
    device: torch.device
    own: tuple[tuple[str, str], ...] = ()
    """Options of AIPerf's side, as in `trainer.*`."""

    @property
    def image(self) -> int:
        return PLAIN[self.network][1]

    @property
    def graph(self) -> Graph:
        return start(self.network, image=self.image, classes=CLASSES)

    def open(self) -> OpenData:
        return open_data(
            SyntheticConf(
                training_images=self.batch * self.steps,
                validation_images=self.batch,
                classes=CLASSES,
                image=self.image,
                channels=3,
            )
        )

    def own_loop(self) -> OwnLoop:
        conf = replace(CONF, precision=self.precision, **dict(self.own))  # type: ignore[arg-type]
        return OwnLoop(self.open(), self.graph, self.batch, conf, self.device)


Launched = Literal["eager", "compiled", "max-autotune", "graphed"]


@dataclass(frozen=True, slots=True)
class Way:
    channels_last: bool = True
    fused: bool = True
    """Optimizer: one fused kernel if true, otherwise the multi-tensor one."""
    launched: Launched = "eager"

    def __str__(self) -> str:
        layout = "channels_last" if self.channels_last else "contiguous"
        return f"{layout}, {'fused' if self.fused else 'multi-tensor'} SGD, {self.launched}"


WAYS = (
    Way(),
    Way(fused=False),
    Way(channels_last=False),
    Way(launched="compiled"),
    Way(launched="max-autotune"),
    Way(launched="graphed"),
)
ON_CUDA_ALONE: tuple[Launched, ...] = ("max-autotune", "graphed")
"""Excluded on processors: max-autotune takes many minutes there, and there are no CUDA graphs."""


class Loop:
    """Steps of SGD on batches in memory."""

    def __init__(
        self, module: nn.Module, held: Sequence[tuple[Tensor, Tensor]], precision: str, way: Way, device: torch.device
    ) -> None:
        self._device, self._held, self._next = device, held, 0
        chosen = choose(precision, device)
        chosen.switch_on()  # as in AIPerf's loop: TF32 and cuDNN's search are not part of the comparison
        self._dtype, self._scaler = chosen.dtype, chosen.scaler()
        layout = torch.channels_last if way.channels_last else torch.contiguous_format
        module.to(device).to(memory_format=layout).train()  # type: ignore[call-overload]  # torch's stub lacks it
        self._module: Callable[[Tensor], Tensor] = module
        assert CONF.learning_rate is not None and CONF.weight_decay is not None
        self._optimiser = torch.optim.SGD(
            module.parameters(),
            lr=CONF.learning_rate,
            momentum=CONF.momentum,
            weight_decay=CONF.weight_decay,
            fused=way.fused,
            foreach=not way.fused,
        )

    def _computing(self) -> AbstractContextManager[object]:
        return torch.autocast(self._device.type, self._dtype) if self._dtype.itemsize == 2 else nullcontext()

    def do(self, steps: int) -> Tensor:
        for _ in range(steps):
            images, labels = self._held[self._next]
            self._next = (self._next + 1) % len(self._held)
            with self._computing():
                loss = F.cross_entropy(self._module(images), labels, label_smoothing=CONF.label_smoothing or 0.0)
            if self._scaler is None:
                loss.backward()  # type: ignore[no-untyped-call]
                self._optimiser.step()
            else:
                self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
                self._scaler.step(self._optimiser)
                self._scaler.update()
            self._optimiser.zero_grad(set_to_none=True)
        _wait(self._device)
        return loss.detach()


class PlainLoop(Loop):
    def __init__(self, task: Task, way: Way) -> None:
        network = build(task.graph)
        initialise(network, derive(SEED, "weights"))  # as for a trial without a parent, with the same order of keys
        module = PLAIN[task.network][0]()
        module.load_state_dict(dict(zip(module.state_dict(), network.state_dict().values(), strict=True)))
        with task.open() as data:
            walk = data.training(
                task.batch,
                rank=0,
                ranks=1,
                epoch=1,
                seed=derive(SEED, "order"),
                device=task.device,
                channels_last=way.channels_last,
                dtype=choose(task.precision, task.device).dtype,
            )
            held = [(batch.images, batch.targets) for batch, _ in zip(walk, range(HELD_BATCHES), strict=False)]
            walk.close()
        super().__init__(module, held, task.precision, way, task.device)
        self._launch(way, module)

    def _launch(self, way: Way, module: nn.Module) -> None:
        match way.launched:
            case "compiled":
                self._module = torch.compile(module, dynamic=False)
            case "max-autotune":  # torch 2.13 uses CUDA graphs too
                self._module = torch.compile(module, dynamic=False, mode="max-autotune")
            case "graphed":
                cached = torch.is_autocast_cache_enabled()
                torch.set_autocast_cache_enabled(False)  # a cached cast weight would not be updated in a replay
                with self._computing():
                    torch.cuda.make_graphed_callables(module, (self._held[0][0],))  # its forward is replaced
                torch.set_autocast_cache_enabled(cached)
            case "eager":
                pass
            case _:
                assert_never(way.launched)


class OwnLoop:
    def __init__(self, data: OpenData, graph: Graph, batch: int, conf: TrainerConf, device: torch.device) -> None:
        self._device = device
        place = RankContext.make(conf, data, graph, device, SingleRank(), writer=None)
        # a message after each step: more often than in a run. A long trial, so that cuDNN searches as on the other side
        self._words: Iterator[Message] = train(order(1, batch, 10_000, progress_seconds=0.0), place, time.monotonic())

    def do(self, steps: int) -> None:
        """Run the steps. On a GPU messages are two steps behind, as in a run. As many steps are queued as are reported."""
        for _ in range(steps):
            while not isinstance(next(self._words), Advanced):
                pass
        _wait(self._device)

    def epoch_loss(self) -> float:
        return next(message.training_loss for message in self._words if isinstance(message, EpochDone))


class PlainSide:
    """State of the plain loop's process."""

    def __init__(self, task: Task, tries_compiled: bool, keeps_memory: bool, threads: int) -> None:
        torch.set_num_threads(threads)
        if keeps_memory:
            assert keep_freed_memory()
        self._task = task
        self._ways = [way for way in WAYS if tries_compiled or way.launched == "eager"]
        if task.device.type != "cuda":
            self._ways = [way for way in self._ways if way.launched not in ON_CUDA_ALONE]

    def loss(self) -> float:
        loop = PlainLoop(replace(self._task, steps=COMPARED_STEPS), Way())
        return sum(float(loop.do(1)) for _ in range(COMPARED_STEPS)) / COMPARED_STEPS

    def choose(self) -> float:
        """Choose the fastest way, measured by its best of three rounds. Return its seconds per step."""
        least = math.inf
        for way in self._ways:
            reason = ""
            try:
                seconds = self._try(way, least)
                print(f"  plain loop, {way}: {1e3 * seconds:.1f} ms a step", flush=True)
                least = min(least, seconds)
            except Exception as error:  # noqa: BLE001  # an error of one way must not stop the others
                reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            if reason:
                print(f"  plain loop, {way}: failed: {reason}", flush=True)
            if self._task.device.type == "cuda":
                torch.cuda.empty_cache()
        if least == math.inf:
            sys.exit("no way of the plain loop could be measured")
        return least

    def _try(self, way: Way, least: float) -> float:
        """Return the seconds per step. Keep the loop if it is faster than `least`, otherwise release its memory and graphs."""
        loop = PlainLoop(self._task, way)
        loop.do(1)
        seconds = _timed(loop, 1)
        for _ in range(3):
            seconds = min(seconds, _timed(loop, max(1, round(TRIED_SECONDS / seconds))))
        if seconds < least:
            self._loop = loop
        return seconds

    def seconds(self, steps: int) -> float:
        return _timed(self._loop, steps)


class OwnSide:
    """State of the process of AIPerf's loop."""

    def __init__(self, task: Task, threads: int) -> None:
        torch.set_num_threads(threads)
        self._task = task
        self._loop = task.own_loop()

    def loss(self) -> float:
        """Return the mean loss of an epoch of COMPARED_STEPS steps, over the same images in the same order."""
        return replace(self._task, steps=COMPARED_STEPS).own_loop().epoch_loss()

    def seconds(self, steps: int) -> float:
        return _timed(self._loop, steps)

    def used_seconds(self, steps: int) -> float:
        """Seconds of a processor's threads, or of the clock for an accelerator."""
        return _timed(self._loop, steps, time.process_time if self._task.device.type == "cpu" else time.perf_counter)


def _timed(loop: Loop | OwnLoop, steps: int, clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    loop.do(steps)
    return (clock() - began) / steps


def compare(
    task: Task, tries_compiled: bool, keeps_memory: bool, threads: int, seconds: float, pairs: int
) -> tuple[Ratio, float]:
    """Return seconds per step of the plain loop ÷ AIPerf's, and AIPerf's images per second."""
    with (
        side_process(PlainSide, task, tries_compiled, keeps_memory, threads) as plain,
        side_process(OwnSide, task, threads) as own,
    ):
        losses = plain("loss"), own("loss")
        if not math.isclose(*losses, rel_tol=LOSS_TOLERANCE):
            sys.exit(f"both sides must compute the same; losses of the first {COMPARED_STEPS} steps: {losses!r}")
        steps = max(2, round(seconds / plain("choose")))
        ratio = interleaved(lambda: plain("seconds", steps), lambda: own("seconds", steps), pairs)
    return ratio, task.batch / sorted(ratio.b)[len(ratio.b) // 2]


def gain_of_regions(task: Task, threads: int, seconds: float, pairs: int) -> Ratio:
    """Return seconds per step eager ÷ by regions."""
    of_mode = [replace(task, own=(*task.own, ("compile", compile))) for compile in ("off", "regions")]
    with side_process(OwnSide, of_mode[0], threads) as eager, side_process(OwnSide, of_mode[1], threads) as regional:
        losses = eager("loss"), regional("loss")
        if not math.isclose(*losses, rel_tol=LOSS_TOLERANCE):
            sys.exit(f"both sides must compute the same; losses of the first {COMPARED_STEPS} steps: {losses!r}")
        steps = max(2, round(seconds / eager("used_seconds", 2)))
        return interleaved(lambda: eager("used_seconds", steps), lambda: regional("used_seconds", steps), pairs)


def starts_by_regions(task: Task, children: int) -> Iterator[tuple[float, int]]:
    """Yield for each network of a lineage the processor seconds that regions add to two first steps, and new functions."""
    graph, draw, precision = task.graph, Random(SEED), choose(task.precision, task.device)
    budget, conf = Budget.of(graph, 8.0), replace(CONF, compile="off")
    for _ in range(children + 1):
        spent = []
        before = compilations()
        for mode in (EAGER, REGIONAL):
            network = placed(build(graph), task.device, channels_last=conf.channels_last)
            initialise(network, SEED)
            images = blank(graph, task.batch, task.device, precision, channels_last=conf.channels_last)
            began = sum(os.times()[:4])  # with the compiler's processes
            execution = Execution(network, mode, images, precision)
            for _ in (1, 2):
                rehearse(network, images, precision)
            execution.verify()
            spent.append(sum(os.times()[:4]) - began)
        yield spent[1] - spent[0], compilations() - before
        found = choices(graph, budget)
        graph = grow(graph, draw.choice(found.of(draw.choice(found.kinds()))))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="resnet20,resnet50_v1_5")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--pairs", type=int, default=None, help="20 at 32×32 and 10 at 224×224, unless given")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a segment, two steps at least (3)")
    parser.add_argument(
        "--batch", type=int, default=None, help="128 and 16 on a CPU, 1024 and 256 on a GPU, unless given"
    )
    parser.add_argument("--threads", type=int, default=None, help="torch's threads; all cores unless given")
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="try compiled and graphed plain loops too (a minute each)",
    )
    parser.add_argument(
        "--keep-memory", action="store_true", help="the plain loop's process keeps its freed memory too"
    )
    parser.add_argument("--own", default="", help="our side's options: compile=on,cuda_graphs=on")
    parser.add_argument("--regions", type=int, metavar="CHILDREN", help="compare regions with eager steps")
    arguments = parser.parse_args()
    own = tuple((name, value) for name, _, value in (each.partition("=") for each in arguments.own.split(",") if each))
    threads = arguments.threads or torch.get_num_threads()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_cuda = device.type == "cuda"
    print(
        f"trainer's loop ÷ plain PyTorch loop, images per second; {describe_machine()}; "
        f"torch {torch.__version__}, {threads} threads"
    )
    for network in arguments.networks.split(","):
        is_small = PLAIN[network][1] == 32
        batch = arguments.batch or ((1024 if is_small else 256) if on_cuda else (128 if is_small else 16))
        pairs = arguments.pairs or (20 if is_small else 10)
        for precision in arguments.precisions.split(","):
            task = Task(network, precision, batch, STEPS, device, own)
            if arguments.regions:
                gain = gain_of_regions(task, threads, arguments.seconds, pairs)
                print(f"{network} batch {batch} {precision}, images/s by regions ÷ eager: {gain}", flush=True)
                added, new = zip(*starts_by_regions(task, arguments.regions), strict=True)
                print(
                    f"start of a trial: +{added[0]:.1f} s and {new[0]} functions in the first, "
                    f"{sum(added) / len(added):+.2f} s in the mean of {len(added)}, at most {max(new[1:])} new ones a child",
                    flush=True,
                )
                continue
            ratio, speed = compare(task, arguments.compile, arguments.keep_memory, threads, arguments.seconds, pairs)
            print(
                f"{network} batch {batch} {precision}: {ratio}; ours {speed:.1f} images/s{_mfu(network, precision, speed)}",
                flush=True,
            )


def _mfu(network: str, precision: DataType, images_per_second: float) -> str:
    """Return the model FLOPS utilization by the tensor count as text. '' without a GPU."""
    if not torch.cuda.is_available():
        return ""
    counted = cost(start(network, image=PLAIN[network][1], classes=CLASSES))
    model = torch.cuda.get_device_name()
    dense = peak(model, board_variant(model), precision)
    if dense is None:
        return ", no peak known"
    return f", MFU {(counted.tensor_forward_flops + counted.tensor_backward_flops) * images_per_second / dense:.1%}"


if __name__ == "__main__":
    main()
