"""Images per second of the trainer's own loop ÷ the best plain PyTorch loop, side by side in one process.

    python -m benchmarks.trainer_speed [--networks resnet20,resnet50_v1_5] [--precisions fp32,bf16] [--pairs 10]

Both train the same architecture at the same batch and precision with the same optimiser. The plain loop is what an expert
writes: torchvision's ResNet-50 (the usual ResNet-20 for 32×32), channels_last, autocast, fused SGD, and its images lie in
memory as the very tensors that the network wants, so that it pays nothing for input. Ours is the loop that every
rank runs: images are picked from the data set, every step is accounted for and reported. Timed from outside: from the end of an
epoch's first training step to the end of its last; validation and checkpoints are outside in both.

A ratio above 1 means that ours is faster. On a GPU the absolute figure and MFU are printed too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

from aiperf.messages import Advanced, EpochDone, Train, Word
from aiperf.system.peaks import DataType, board_variant, peak
from aiperf.train.collective import Alone
from aiperf.train.conf import TrainerConf
from aiperf.train.data.conf import SyntheticConf
from aiperf.train.data.opening import open_data
from aiperf.train.loop import train
from aiperf.train.place import Place
from aiperf.train.precision import choose
from benchmarks.pairs import describe_machine, interleaved
from morphism import cost, start

CLASSES = 10


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


def plain_loop(network: str, precision: str, batch: int, steps: int, device: torch.device) -> Callable[[], float]:
    """Gives a function that does `steps` steps and tells the seconds of one image."""
    make, image = PLAIN[network]
    chosen = choose(precision, device)
    module = make().to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-5, fused=True)
    images = torch.randn(batch * steps, 3, image, image, device=device, dtype=chosen.dtype)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (batch * steps,), device=device)
    module.train()

    def step(at: int) -> None:
        with torch.autocast(device.type, chosen.dtype) if chosen.bytes_per_element == 2 else nullcontext():
            logits = module(images[at : at + batch])
            loss = F.cross_entropy(logits, labels[at : at + batch], label_smoothing=0.1)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    def run() -> float:
        step(0)
        _wait(device)
        began = time.perf_counter()
        for number in range(1, steps):
            step(number * batch)
        _wait(device)
        return (time.perf_counter() - began) / ((steps - 1) * batch)

    return run


def own_loop(network: str, precision: str, batch: int, steps: int, device: torch.device) -> Callable[[], float]:
    """The same of a trial's next epoch."""
    image = PLAIN[network][1]
    data = open_data(
        SyntheticConf(training_images=batch * steps, validation_images=batch, classes=CLASSES, image=image, channels=3)
    )
    order = Train(
        trial=1,
        attempt=1,
        worker=0,
        round=1,
        lineage=(),
        morphs=(),
        parent=None,
        first_epoch=1,
        last_epoch=10**6,
        patience=10**6,
        improvement=0.001,
        losses=(),
        best_accuracy=0.0,
        batch_size=batch,
        seed=0,
        progress_seconds=0.0,  # a word after each step: more than a run would have
        edges=(),
    )
    conf = TrainerConf(precision=precision, learning_rate=0.01, decay_epochs=10**6)
    graph = start(network, image=image, classes=CLASSES)
    # without a writer of checkpoints: words are held back until an epoch's file stands, and would come late
    words = train(order, Place.make(conf, data, graph, device, Alone(), writer=None), time.monotonic())

    def run() -> float:
        advanced = _until(words, lambda word: isinstance(word, Advanced) and word.training_images == batch)
        began = time.perf_counter()
        _until(words, lambda word: isinstance(word, Advanced) and word.training_images == batch * steps)
        seconds = time.perf_counter() - began
        _until(words, lambda word: isinstance(word, EpochDone))
        assert advanced
        return seconds / ((steps - 1) * batch)

    return run


def _until(words: Iterator[Word], wanted: Callable[[Word], bool]) -> Word:
    return next(word for word in words if wanted(word))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="resnet20,resnet50_v1_5")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument(
        "--batch", type=int, default=None, help="128 and 16 on a CPU, 1024 and 256 on a GPU, unless given"
    )
    parser.add_argument(
        "--steps", type=int, default=None, help="of one epoch; 11 and 4 on a CPU, 51 on a GPU, unless given"
    )
    chosen = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_cuda = device.type == "cuda"
    print(f"trainer's loop ÷ plain PyTorch loop, images per second; {describe_machine()}; torch {torch.__version__}")
    for network in chosen.networks.split(","):
        is_small = PLAIN[network][1] == 32
        batch = chosen.batch or ((1024 if is_small else 256) if on_cuda else (128 if is_small else 16))
        steps = chosen.steps or (51 if on_cuda else 11 if is_small else 4)
        for precision in chosen.precisions.split(","):
            own = own_loop(network, precision, batch, steps, device)
            ratio = interleaved(plain_loop(network, precision, batch, steps, device), own, chosen.pairs)
            speeds = sorted(1.0 / seconds for seconds in ratio.b)
            speed = speeds[len(speeds) // 2]
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
