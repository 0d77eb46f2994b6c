"""Speed of extreme weather: the training loop of a detector, reading of both layouts, and mean average precision.

    python -m benchmarks.weather loop [--pairs 8]        # trainer ÷ a plain loop over torchvision's network, seconds
    python -m benchmarks.weather reading [--images 46]   # packed ÷ published layout at 768×1152, bytes per second of a core
    python -m benchmarks.weather precision               # seconds for 1460 images with 100 detections each

The plain loop has the same network, batches, optimiser and threads, and no accounting. `reading` writes 57 MB an image twice.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from aiperf.accounting.average_precision import ImageDetections, mean_average_precision
from aiperf.data.dataset_config import WeatherSyntheticConf
from aiperf.data.files.weather_files import YearFile, YearShape, written_year
from aiperf.data.opened import OpenData
from aiperf.data.opening import open_data
from aiperf.data.sets.weather_synthetic import generated
from aiperf.journal.messages import EpochDone
from aiperf.statistics.interleaved import interleaved
from aiperf.train.detection import Detection
from aiperf.train.loop import train_here
from aiperf.train.trainer_config import TrainerConf
from benchmarks.pairs import describe_machine, order
from morphism import Detector

BATCH = 8
DETECTOR = Detector("faster_rcnn_small", 64, 96)
FIELDS = WeatherSyntheticConf(training_images=8 * BATCH, validation_images=2)


def trainer_seconds(data: OpenData, conf: TrainerConf) -> float:
    """Return the seconds of an epoch's training steps with their input, in the trainer."""
    with tempfile.TemporaryDirectory() as folder:
        messages = list(train_here(order(0, BATCH), conf, data, DETECTOR, Path(folder)))
    (done,) = (message for message in messages if isinstance(message, EpochDone))
    sums = done.advanced
    return sums.busy_seconds - sums.validation_seconds + sums.input_seconds


def plain_seconds(data: OpenData, conf: TrainerConf, dtype: torch.dtype) -> float:
    """Return the seconds of an epoch in a plain loop."""
    module = Detection().initial_network(DETECTOR, 0).train()
    module.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(
        module.parameters(), conf.learning_rate, conf.momentum, weight_decay=conf.weight_decay, fused=True
    )
    batches = data.training(
        BATCH, epoch=1, seed=0, rank=0, ranks=1, device=torch.device("cpu"), channels_last=True, dtype=dtype
    )
    began = time.perf_counter()
    for batch in batches:
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            loss = module(batch.images, batch.targets)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return time.perf_counter() - began


def loop(pairs: int) -> None:
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        conf = TrainerConf(precision=precision, compile="off", learning_rate=0.01)
        with open_data(FIELDS) as data:
            ratio = interleaved(
                lambda data=data, conf=conf, dtype=dtype: plain_seconds(data, conf, dtype),  # type: ignore[misc]
                lambda data=data, conf=conf: trainer_seconds(data, conf),  # type: ignore[misc]
                pairs,
            )
        print(f"{precision}: plain loop ÷ trainer, seconds of an epoch: {ratio}")


def reading(images: int) -> None:
    """Read single images of both layouts at random."""
    shape = YearShape(images, 768, 1152)
    conf = WeatherSyntheticConf(height=shape.height, width=shape.width)
    made = np.stack([generated(conf, image)[0] for image in range(images)])
    rates = {}
    for name, is_published in (("packed", False), ("published", True)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "climo_1979.h5"
            with written_year(path, shape, is_published_layout=is_published) as writer:
                writer.add(made)
            file = YearFile(path)
            chosen = np.random.default_rng(0).permutation(images)[: 2 if is_published else images]
            began = time.perf_counter()
            size = sum(file.read(int(image)).nbytes for image in chosen)
            rates[name] = size / (time.perf_counter() - began)
            print(f"{name}: {path.stat().st_size / 1e9:.2f} GB, {rates[name] / 1e6:.1f} MB/s")
            file.close()
    print(f"packed ÷ published: {rates['packed'] / rates['published']:.0f}")


def precision() -> None:
    draw = np.random.default_rng(0)
    images = []
    for _ in range(1460):
        corner, side = draw.uniform(0, 700, (5, 2)), draw.uniform(20, 80, (5, 2))
        truth = np.concatenate([corner, corner + side, draw.integers(1, 5, (5, 1))], axis=1)
        copies = truth[draw.integers(0, 5, 100)]
        found = np.concatenate(
            [copies[:, :4] + draw.normal(0, 8, (100, 4)), draw.random((100, 1)), copies[:, 4:]], axis=1
        )
        images.append(ImageDetections(truth, found))
    began = time.perf_counter()
    value = mean_average_precision(images)
    print(f"mAP {value:.3f} of 1460 images with 146,000 detections: {time.perf_counter() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("loop", "reading", "precision"))
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--images", type=int, default=46, help="images of the file, at least one chunk")
    arguments = parser.parse_args()
    print(describe_machine())
    match arguments.what:
        case "loop":
            loop(arguments.pairs)
        case "reading":
            reading(arguments.images)
        case _:
            precision()


if __name__ == "__main__":
    main()
