"""Training from JPEG files ÷ training from memory: images a second of the trainer's own loop, the same network and batch.

    python -m benchmarks.files_speed FOLDER [--network resnet50_v1_5] [--batch 16] [--pairs 10] [--seconds 5]

FOLDER/train/CLASS/*.JPEG; a small folder is walked repeatedly. From files means: nothing is cached, every image is read,
decoded, cropped and flipped for the step that needs it. From memory means: a synthetic set of the same size and shape, without
files or decoding. Each side has a process of its own, of which one sleeps while the other trains: segments of a few seconds
alternate within one long epoch. 1 means that the input costs nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from aiperf.data.dataset_config import DataSetConf, ImagesConf, SyntheticConf
from aiperf.data.opening import open_data
from benchmarks.input_speed import repeated
from benchmarks.pairs import Asleep, describe_machine, interleaved
from benchmarks.trainer_speed import CONF, OwnLoop
from morphism import STARTS, start

IMAGE = 224


class Side:
    """What one side's process holds."""

    def __init__(self, conf: DataSetConf, network: str, batch: int, precision: str, threads: int) -> None:
        torch.set_num_threads(threads)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        data = open_data(conf)
        graph = start(network, image=IMAGE, channels=3, classes=data.description.classes)
        self._loop = OwnLoop(data, graph, batch, replace(CONF, precision=precision), device)

    def seconds(self, steps: int) -> float:
        """Of one step, of so many."""
        began = time.perf_counter()
        self._loop.do(steps)
        return (time.perf_counter() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds train/CLASS/*.JPEG")
    parser.add_argument("--network", default="resnet50_v1_5", choices=STARTS)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", default="auto", help="auto: bf16 where the hardware has it, else fp32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch's threads (all cores)")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a segment, two steps at least (5)")
    asked = parser.parse_args()
    made_of = asked.network, asked.batch, asked.precision, asked.threads
    with tempfile.TemporaryDirectory() as scratch:
        # 50 images a second and thread, more than any of the networks trains: the epoch outlasts the last segment
        images = round(asked.batch * 8 + asked.seconds * (asked.pairs + 2) * 50 * asked.threads)
        root = repeated(asked.folder, Path(scratch), images)
        files = ImagesConf(root=str(root), image=IMAGE, cache="none")
        with open_data(files) as opened:
            listed = opened.description
        memory = SyntheticConf(
            training_images=listed.training_images,
            validation_images=listed.validation_images,
            classes=listed.classes,
            image=IMAGE,
        )
        with Asleep(Side, memory, *made_of) as from_memory, Asleep(Side, files, *made_of) as from_files:
            from_memory.ask("seconds", 1)  # chooses kernels
            steps = max(2, round(asked.seconds / from_memory.ask("seconds", 1)))
            ratio = interleaved(
                lambda: from_memory.ask("seconds", steps), lambda: from_files.ask("seconds", steps), asked.pairs
            )
    print(f"machine: {describe_machine()}, {asked.threads} threads")
    print(f"{asked.network} at {IMAGE}×{IMAGE}, batch {asked.batch}, {asked.precision}, segments of {steps} steps")
    print(f"images/s from files ÷ from memory: {ratio}")


if __name__ == "__main__":
    main()
