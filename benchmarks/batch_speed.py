"""Images per second of the trainer's own loop over the batch: what small batches cost an accelerator.

    python -m benchmarks.batch_speed [--network resnet20] [--precision fp32] [--batches 16,32,64,128,256,512] [--rounds 6]

One process holds a loop of each batch, and they take turns, a round after another, so that a machine's drift meets all. Each
turn trains as many images as the largest batch has, at least a step. Given are medians over the rounds, and their share of the
best. It is what the lower bound of tuned batches is held against (`searchers.tpe.SMALLEST_SHARE`): of an accelerator where
there is one, of a processor elsewhere.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from benchmarks.pairs import describe_machine
from benchmarks.trainer_speed import PLAIN, Task


def measured(network: str, precision: str, batches: list[int], rounds: int) -> dict[int, list[float]]:
    """Images per second of every batch, by round; the round before the first warms up and is left out."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    turns = {batch: max(1, max(batches) // batch) for batch in batches}
    tasks = {batch: Task(network, precision, batch, (rounds + 2) * turns[batch], device) for batch in batches}
    loops = {batch: task.own_loop() for batch, task in tasks.items()}
    found: dict[int, list[float]] = {batch: [] for batch in batches}
    for number in range(rounds + 1):
        for batch, loop in loops.items():
            steps = turns[batch]
            began = time.perf_counter()
            loop.do(steps)
            seconds = time.perf_counter() - began
            if number:
                found[batch].append(steps * batch / seconds)
    return found


def main() -> None:
    """Prints Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=PLAIN, default="resnet20")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--batches", default="16,32,64,128,256,512")
    parser.add_argument("--rounds", type=int, default=6)
    asked = parser.parse_args()
    batches = [int(word) for word in asked.batches.split(",")]
    found = measured(asked.network, asked.precision, batches, asked.rounds)
    speeds = {batch: statistics.median(rounds) for batch, rounds in found.items()}
    best = max(speeds.values())
    print(f"{describe_machine()}; {asked.network}, {asked.precision}, {asked.rounds} rounds\n")
    print("| batch | images/s, median (smallest to largest of the rounds) | of the best |")
    print("| ---: | --- | ---: |")
    for batch, rounds in found.items():
        print(
            f"| {batch} | {speeds[batch]:.0f} ({min(rounds):.0f} to {max(rounds):.0f}) | {speeds[batch] / best:.0%} |"
        )


if __name__ == "__main__":
    main()
