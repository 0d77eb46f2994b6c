"""Training from JPEG files ÷ training from memory: images a second of the trainer's own loop, on the same images.

    python -m benchmarks.files_speed FOLDER [--network resnet50_v1_5] [--batch 16] [--pairs 10]

FOLDER/train/CLASS/*.JPEG and FOLDER/val (where there is none, the training images validate). From files means: nothing is
cached, every image is read, decoded, cropped and flipped anew in each epoch. From memory means: a synthetic set of the same
size and shape, held as tensors. Timed from outside, one epoch each, in turns; 1 means that the input costs nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from aiperf.messages import EpochDone, Train
from aiperf.train.conf import TrainerConf
from aiperf.train.data.conf import DataSetConf, ImagesConf, SyntheticConf
from aiperf.train.data.opening import open_data
from aiperf.train.inprocess import train_here
from benchmarks.pairs import describe_machine, interleaved
from morphism import STARTS, start

IMAGE = 224


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds train/CLASS/*.JPEG")
    parser.add_argument("--network", default="resnet50_v1_5", choices=STARTS)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = _with_validation(asked.folder, Path(scratch))
        files = ImagesConf(root=str(root), image=IMAGE, cache="none")
        with open_data(files) as opened:
            listed = opened.description
        memory = SyntheticConf(
            training_images=listed.training_images,
            validation_images=listed.validation_images,
            classes=listed.classes,
            image=IMAGE,
        )
        epochs = {name: _epoch(conf, asked.network, asked.batch, Path(scratch)) for name, conf in
                  (("files", files), ("memory", memory))}  # fmt: skip
        ratio = interleaved(epochs["memory"], epochs["files"], asked.pairs)
    print(f"machine: {describe_machine()}, {torch.get_num_threads()} threads")
    print(f"{asked.network} at {IMAGE}×{IMAGE}, batch {asked.batch}, {listed.training_images} training images an epoch")
    print("images/s from files ÷ from memory (seconds of an epoch the other way round), median (95 % interval):")
    print(f"{ratio.median:.3f} ({ratio.low:.3f}–{ratio.high:.3f})")


def _epoch(conf: DataSetConf, network: str, batch: int, scratch: Path) -> Callable[[], float]:
    """Seconds of one epoch, training and validation, measured from outside."""
    data = open_data(conf)
    graph = start(
        network, image=data.description.image, channels=data.description.channels, classes=data.description.classes
    )
    order = Train(
        trial=0, attempt=1, worker=0, round=1, lineage=(), morphs=(), parent=None, first_epoch=1, last_epoch=1, patience=9,
        improvement=0.0, losses=(), best_accuracy=0.0, batch_size=batch, seed=0, progress_seconds=1e9, edges=(),
    )  # fmt: skip

    def run() -> float:
        words = train_here(order, TrainerConf(), data, graph, scratch / "checkpoints")
        next(words)  # the network stands
        began = time.perf_counter()
        for word in words:
            if isinstance(word, EpochDone):
                return time.perf_counter() - began
        raise AssertionError("an epoch ends with its word")

    return run


def _with_validation(folder: Path, scratch: Path) -> Path:
    if (folder / "val").is_dir() and any((folder / "val").iterdir()):
        return folder
    root = scratch / "images"
    root.mkdir()
    for split in ("train", "val"):
        (root / split).symlink_to((folder / "train").resolve())
    return root


if __name__ == "__main__":
    main()
