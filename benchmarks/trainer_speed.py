"""Images per second of the trainer's own loop ÷ the best plain PyTorch loop, side by side.

    python -m benchmarks.trainer_speed [--networks resnet20,resnet50_v1_5] [--precisions fp32,bf16] [--pairs N]

Both train the same architecture from the same weights on the same images, at the same batch and precision, with the same
optimiser and loss; the script refuses to compare where the losses of the first steps differ. The plain loop is what an
expert writes: torchvision's ResNet-50 (the usual ResNet-20 for 32×32), and its images lie in memory as the very tensors
that the network wants, so that it pays nothing for input. Its ways (memory format, fused or multi-tensor SGD,
torch.compile; on a GPU also max-autotune and CUDA graphs) are tried on this machine first, and the fastest is taken. Both
sides have the same switches: TF32 where it is named and nowhere else, cuDNN's search for algorithms on. `--own` gives our
side's options. Ours is the loop that every rank runs: images are picked from the data set and normalised, every step is
accounted for and reported. Validation and checkpoints are outside in both.

Each side has a process of its own, of which one sleeps while the other works: segments of a few seconds alternate
(a b, b a, …), so that a machine's drift meets both. The plain one is PyTorch as it comes; ours keeps its memory as every rank
does (`aiperf/train/allocator.py`), and `--keep-memory` gives the plain one that too. A ratio above 1 means that ours is faster.
`--clock processor` takes the process's processor time instead of the wall's, for a machine with other work to do; then with
`--threads 1`, since threads that wait for one another burn it. On a GPU the absolute figure and MFU are printed too.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal, assert_never

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

from aiperf.data.dataset_config import SyntheticConf
from aiperf.data.opened import OpenData
from aiperf.data.opening import open_data
from aiperf.journal.messages import Advanced, EpochDone, Train, Word
from aiperf.rng import derive
from aiperf.system.peaks import DataType, board_variant, peak
from aiperf.train.allocator import keep_freed_memory
from aiperf.train.collectives.collective import Alone
from aiperf.train.initialise import initialise
from aiperf.train.loop import train
from aiperf.train.module import build
from aiperf.train.precision import choose
from aiperf.train.rank_context import RankContext
from aiperf.train.trainer_config import TrainerConf
from benchmarks.pairs import Asleep, Ratio, describe_machine, interleaved
from morphism import Graph, cost, start

CLASSES = 10
SEED = 0
CONF = TrainerConf(learning_rate=0.01, decay_epochs=10**6)
HELD_BATCHES = 8
"""Of the plain loop, in memory; it walks them round and round."""
TRIED_SECONDS = 1.0
"""Of each way of the plain loop, in each of three rounds, before the fastest is taken; a step at least."""
STEPS = 20_000
"""Of the one long epoch of ours: more than a comparison takes."""
COMPARED_STEPS = 3
"""Of the steps whose losses must agree, so that both sides are known to compute the same."""
LOSS_TOLERANCE = 0.01

Clock = Literal["wall", "processor"]
CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}


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
    """What both sides train."""

    network: str
    precision: str
    batch: int
    steps: int
    """Of the one long epoch that ours walks."""
    device: torch.device
    own: tuple[tuple[str, str], ...] = ()
    """Options of our side, as `trainer.*` has them."""

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
    """A way to write the plain loop."""

    channels_last: bool = True
    fused: bool = True
    """The optimiser: one kernel; else the multi-tensor one."""
    launched: Launched = "eager"

    def __str__(self) -> str:
        return ", ".join(
            (
                "channels_last" if self.channels_last else "contiguous",
                "fused SGD" if self.fused else "multi-tensor SGD",
                self.launched,
            )
        )


WAYS = (
    Way(),
    Way(fused=False),
    Way(channels_last=False),
    Way(launched="compiled"),
    Way(launched="max-autotune"),
    Way(launched="graphed"),
)
ON_CUDA_ALONE: tuple[Launched, ...] = ("max-autotune", "graphed")
"""On a processor max-autotune searches for many minutes, and there are no CUDA graphs."""


class PlainLoop:
    """The loop of an expert who has this one task."""

    def __init__(self, task: Task, way: Way) -> None:
        self._device = task.device
        precision = choose(task.precision, task.device)
        precision.switch_on()  # as ours: TF32 and cuDNN's search are no matter of the loop
        self._dtype, self._scaler = precision.dtype, precision.scaler()
        layout = torch.channels_last if way.channels_last else torch.contiguous_format
        network = build(task.graph)
        initialise(network, derive(SEED, "weights"))  # as a trial without a parent begins, and so are the keys' order
        module = PLAIN[task.network][0]()
        module.load_state_dict(dict(zip(module.state_dict(), network.state_dict().values(), strict=True)))
        module.to(task.device).to(memory_format=layout).train()  # type: ignore[call-overload]  # torch's stub lacks it
        self._module: Callable[[Tensor], Tensor] = module
        self._optimiser = torch.optim.SGD(
            module.parameters(),
            lr=CONF.learning_rate,
            momentum=CONF.momentum,
            weight_decay=CONF.weight_decay,
            fused=way.fused,
            foreach=not way.fused,
        )
        with task.open() as data:
            walk = data.training(
                task.batch,
                rank=0,
                ranks=1,
                epoch=1,
                seed=derive(SEED, "order"),
                device=task.device,
                channels_last=way.channels_last,
                dtype=self._dtype,
            )
            self._held = [(batch.images, batch.labels) for batch, _ in zip(walk, range(HELD_BATCHES), strict=False)]
            walk.close()
        self._next = 0
        self._launch(way, module)

    def _launch(self, way: Way, module: nn.Module) -> None:
        match way.launched:
            case "compiled":
                self._module = torch.compile(module, dynamic=False)
            case "max-autotune":  # torch 2.13's takes CUDA graphs too
                self._module = torch.compile(module, dynamic=False, mode="max-autotune")
            case "graphed":
                cached = torch.is_autocast_cache_enabled()
                torch.set_autocast_cache_enabled(False)  # a cast weight that is kept would not be cast anew in a replay
                with self._computing():
                    torch.cuda.make_graphed_callables(module, (self._held[0][0],))  # its forward is replaced
                torch.set_autocast_cache_enabled(cached)
            case "eager":
                pass
            case _:
                assert_never(way.launched)

    def _computing(self) -> AbstractContextManager[object]:
        return torch.autocast(self._device.type, self._dtype) if self._dtype.itemsize == 2 else nullcontext()

    def do(self, steps: int) -> Tensor:
        """The last step's loss."""
        for _ in range(steps):
            images, labels = self._held[self._next]
            self._next = (self._next + 1) % len(self._held)
            with self._computing():
                loss = F.cross_entropy(self._module(images), labels, label_smoothing=CONF.label_smoothing)
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


class OwnLoop:
    """A trial's first epoch, advanced as far as is asked."""

    def __init__(self, data: OpenData, graph: Graph, batch: int, conf: TrainerConf, device: torch.device) -> None:
        self._device = device
        order = Train(
            trial=1,
            attempt=1,
            worker=0,
            lineage=(),
            morphs=(),
            parent=None,
            first_epoch=1,
            last_epoch=1,
            patience=1,
            improvement=0.001,
            losses=(),
            batch_size=batch,
            seed=SEED,
            progress_seconds=0.0,  # a word after each step: more than a run would have
            edges=(),
        )
        place = RankContext.make(conf, data, graph, device, Alone(), writer=None)
        self._words: Iterator[Word] = train(order, place, time.monotonic())

    def do(self, steps: int) -> None:
        """On a GPU the words are two steps behind, here as in a run; as many steps are queued as are heard of."""
        for _ in range(steps):
            while not isinstance(next(self._words), Advanced):
                pass
        _wait(self._device)

    def epoch_loss(self) -> float:
        """Of the whole epoch."""
        return next(word.training_loss for word in self._words if isinstance(word, EpochDone))


class PlainSide:
    """What the plain loop's process holds."""

    def __init__(self, task: Task, tries_compiled: bool, keeps_memory: bool, clock: Clock, threads: int) -> None:
        torch.set_num_threads(threads)
        if keeps_memory:
            assert keep_freed_memory()
        self._task, self._clock = task, CLOCKS[clock]
        self._ways = [way for way in WAYS if tries_compiled or way.launched in ("eager", "graphed")]
        if task.device.type != "cuda":
            self._ways = [way for way in self._ways if way.launched not in ON_CUDA_ALONE]

    def loss(self) -> float:
        """The mean loss of the first COMPARED_STEPS steps."""
        loop = PlainLoop(replace(self._task, steps=COMPARED_STEPS), Way())
        return sum(float(loop.do(1)) for _ in range(COMPARED_STEPS)) / COMPARED_STEPS

    def choose(self) -> float:
        """Takes the way that needs least time here, each measured by its best of three rounds; the seconds of a step."""
        loops = {way: PlainLoop(self._task, way) for way in self._ways}
        for loop in loops.values():
            loop.do(1)
        least = {way: self._timed(loop, 1) for way, loop in loops.items()}
        for _ in range(3):
            for way, loop in loops.items():
                least[way] = min(least[way], self._timed(loop, max(1, round(TRIED_SECONDS / least[way]))))
        for way, seconds in least.items():
            print(f"  plain loop, {way}: {1e3 * seconds:.1f} ms a step", flush=True)
        best = min(least, key=lambda way: least[way])
        self._loop = loops[best]
        return least[best]

    def seconds(self, steps: int) -> float:
        """Of one step, of so many."""
        return self._timed(self._loop, steps)

    def _timed(self, loop: PlainLoop, steps: int) -> float:
        began = self._clock()
        loop.do(steps)
        return (self._clock() - began) / steps


class OwnSide:
    """What our loop's process holds."""

    def __init__(self, task: Task, clock: Clock, threads: int) -> None:
        torch.set_num_threads(threads)
        self._task, self._clock = task, CLOCKS[clock]
        self._loop = task.own_loop()

    def loss(self) -> float:
        """The mean loss of an epoch of COMPARED_STEPS steps, over the same images in the same order."""
        return replace(self._task, steps=COMPARED_STEPS).own_loop().epoch_loss()

    def seconds(self, steps: int) -> float:
        """Of one step, of so many."""
        began = self._clock()
        self._loop.do(steps)
        return (self._clock() - began) / steps


def compare(
    task: Task, tries_compiled: bool, keeps_memory: bool, clock: Clock, threads: int, seconds: float, pairs: int
) -> tuple[Ratio, float]:
    """Seconds a step of the plain loop ÷ ours, and our images a second."""
    with (
        Asleep(PlainSide, task, tries_compiled, keeps_memory, clock, threads) as plain,
        Asleep(OwnSide, task, clock, threads) as own,
    ):
        losses = plain.ask("loss"), own.ask("loss")
        if not math.isclose(*losses, rel_tol=LOSS_TOLERANCE):
            sys.exit(f"both must do the same arithmetic; the loss of the first {COMPARED_STEPS} steps: {losses!r}")
        steps = max(2, round(seconds / plain.ask("choose")))
        ratio = interleaved(lambda: plain.ask("seconds", steps), lambda: own.ask("seconds", steps), pairs)
    return ratio, task.batch / sorted(ratio.b)[len(ratio.b) // 2]


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
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="try a compiled plain loop too (a minute each)",
    )
    parser.add_argument(
        "--keep-memory", action="store_true", help="the plain loop's process keeps its freed memory too"
    )
    parser.add_argument("--own", default="", help="our side's options: compile=on,cuda_graphs=on,fused=conv")
    chosen = parser.parse_args()
    own = tuple((name, value) for name, _, value in (each.partition("=") for each in chosen.own.split(",") if each))
    threads = chosen.threads or torch.get_num_threads()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_cuda = device.type == "cuda"
    if on_cuda and chosen.clock == "processor":
        parser.error("--clock processor: a GPU's work takes none of the processor's time")
    print(
        f"trainer's loop ÷ plain PyTorch loop, images per second, {chosen.clock} time; {describe_machine()}; "
        f"torch {torch.__version__}, {threads} threads"
    )
    for network in chosen.networks.split(","):
        is_small = PLAIN[network][1] == 32
        batch = chosen.batch or ((1024 if is_small else 256) if on_cuda else (128 if is_small else 16))
        pairs = chosen.pairs or (20 if is_small else 10)
        for precision in chosen.precisions.split(","):
            task = Task(network, precision, batch, STEPS, device, own)
            ratio, speed = compare(
                task, chosen.compile, chosen.keep_memory, chosen.clock, threads, chosen.seconds, pairs
            )
            print(
                f"{network} batch {batch} {precision}: {ratio}; ours {speed:.1f} images/s{_mfu(network, precision, speed)}",
                flush=True,
            )


def _mfu(network: str, precision: DataType, images_per_second: float) -> str:
    """Model FLOPS utilisation by the tensor count, where the device's peak is known."""
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
