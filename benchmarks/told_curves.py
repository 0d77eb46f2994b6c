"""Real learning curves of starting networks and of children that inherit: what would the search have been told of each?

    python -m benchmarks.told_curves train --images FOLDER --out FILE.csv [--image 16] [--start resnet20] [--seeds 2]
    python -m benchmarks.told_curves FILE.csv …

`train` trains with the product's own trainer, each network once and for 60 epochs, its learning rate annealed over them: a
trial of an early round is the beginning of such a curve, since its learning rate falls by the same slope. Children grow by one
or two morphs, drawn, from what a starting network was after 15 epochs (a parent of round 1) and after 60 (one of a later
round). One line a network: its name, what it inherited (epochs), then the validation accuracy of each epoch.

Without `train` it says, for each scheme of telling and each round, by how much the told value missed the best accuracy of the
same curve after all 60 epochs: mean and standard deviation, over the networks of that kind.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from aiperf.journal.messages import EpochDone, Train
from aiperf.rules.procedure import predicted_accuracy
from morphism import Budget, Graph, choices, encode_morph, start
from morphism.grow import grow
from searchers.growth import drawn

EPOCHS = 60
ROUNDS = (15, 30, 45, 60)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One network's curve."""

    name: str
    inherited: int
    """Epochs that its weights had been trained for; 0: fresh ones."""
    accuracies: tuple[float, ...]


def read(paths: Sequence[Path]) -> list[Recorded]:
    """The curves of these files."""
    rows = [row for path in paths for row in csv.reader(path.read_text().splitlines()) if not row[0].startswith("#")]
    return [Recorded(row[0], int(row[1]), tuple(map(float, row[2:]))) for row in rows]


Scheme = Callable[[int, Sequence[float]], float]
"""What is told of a trial of that round with these accuracies."""


def bounded(accuracies: Sequence[float], epoch: int) -> float:
    """The prediction as it was told: the best seen where the curve allows none, or one outside of [best seen, 1]."""
    best, predicted = max(accuracies), predicted_accuracy(accuracies, epoch)
    return best if predicted is None or not best <= predicted <= 1.0 else predicted


def at_comparable_epoch(accuracies: Sequence[float], among: int, epoch: int) -> float:
    """The law fitted to the first epochs, at an epoch."""
    seen = accuracies[:among]
    fitted = predicted_accuracy(seen, epoch)
    return max(seen) if fitted is None else min(1.0, max(0.0, fitted))


SCHEMES: dict[str, Scheme] = {
    "rules 3: predicted in rounds 1 to 3, then the best": lambda round_, seen: (
        bounded(seen, EPOCHS) if round_ < len(ROUNDS) else max(seen)
    ),
    "predicted in all rounds": lambda _, seen: bounded(seen, EPOCHS),
    "predicted from the first 15 epochs": lambda _, seen: at_comparable_epoch(seen, ROUNDS[0], EPOCHS),
    "best of the first 15 epochs": lambda _, seen: max(seen[: ROUNDS[0]]),
    "fitted to the first 15 epochs, at epoch 15": lambda _, seen: at_comparable_epoch(seen, ROUNDS[0], ROUNDS[0]),
    "fitted to the first 15 epochs, at epoch 30": lambda _, seen: at_comparable_epoch(seen, ROUNDS[0], ROUNDS[1]),
}


def table(curves: Sequence[Recorded]) -> list[str]:
    """Markdown."""
    kinds = {
        "fresh": [each for each in curves if not each.inherited],
        "inherited": [each for each in curves if each.inherited],
    }
    lines = [
        "| told − best of 60 epochs | weights | " + " | ".join(f"round {n}" for n in (1, 2, 3, "4 and later")) + " |"
    ]
    lines.append("| --- | --- |" + " --- |" * len(ROUNDS))
    for name, scheme in SCHEMES.items():
        for kind, of_kind in kinds.items():
            cells = []
            for round_, limit in enumerate(ROUNDS, start=1):
                missed = [scheme(round_, each.accuracies[:limit]) - max(each.accuracies) for each in of_kind]
                spread = statistics.stdev(missed) if len(missed) > 1 else 0.0
                cells.append(f"{statistics.fmean(missed):+.3f} ± {spread:.3f} ({len(missed)})")
            lines.append(f"| {name} | {kind} | " + " | ".join(cells) + " |")
    return lines


def train(images: Path, image: int, start_name: str, seeds: int, out: Path) -> None:
    """Trains, and writes each curve when it is there."""
    import torch

    from aiperf.data.dataset_config import DigitsConf, ImagesConf
    from aiperf.data.opening import open_data
    from aiperf.train.inprocess import train_here
    from aiperf.train.trainer_config import TrainerConf

    torch.set_num_threads(1)
    is_digits = str(images) == "digits"
    data_conf = DigitsConf(noise=0.3, shift=1) if is_digits else ImagesConf(root=str(images), image=image)
    channels = 1 if is_digits else 3
    graph = start(start_name, image=8 if is_digits else image, channels=channels, classes=10)
    budget = Budget.of(graph, 4.0)
    conf = TrainerConf(threads=1, keep_checkpoints_seconds=1e9)
    with out.open("a") as file, tempfile.TemporaryDirectory() as folder, open_data(data_conf) as data:

        def trained(
            name: str, number: int, parent: int | None, morphs: tuple[dict[str, Any], ...], epochs: int
        ) -> None:
            order = Train(
                trial=number,
                attempt=1,
                worker=0,
                lineage=(),
                morphs=morphs,
                parent=parent,
                first_epoch=1,
                last_epoch=epochs,
                patience=EPOCHS,
                improvement=0.0,
                losses=(),
                batch_size=64,
                seed=number,
                progress_seconds=1e6,
                edges=(),
            )
            words = train_here(order, conf, data, graph, Path(folder))
            accuracies = [word.accuracy for word in words if isinstance(word, EpochDone)]
            inherited = 0 if parent is None else (ROUNDS[0] if parent % 100 == 1 else EPOCHS)
            if epochs == EPOCHS:
                file.write(",".join([name, str(inherited), *[f"{each:.4f}" for each in accuracies]]) + "\n")
                file.flush()
                print(name, inherited, f"{accuracies[14]:.3f} {max(accuracies):.3f}", file=sys.stderr, flush=True)

        for seed in range(seeds):
            young, old = 100 * seed + 1, 100 * seed + 2
            trained(f"young-{seed}", young, None, (), ROUNDS[0])
            trained(f"start-{seed}", old, None, (), EPOCHS)
            for child, parent in enumerate((young, old, young, old)):
                random = Random(f"{seed} {child}")
                morphs = _drawn(graph, budget, 1 + child // 2, random)
                trained(f"child-{seed}-{child}", 100 * seed + 10 + child, parent, morphs, EPOCHS)


def _drawn(graph: Graph, budget: Budget, count: int, random: Random) -> tuple[dict[str, Any], ...]:
    morphs: list[dict[str, Any]] = []
    for _ in range(count):
        morph = drawn(choices(graph, budget), random)
        graph = grow(graph, morph)
        morphs.append(encode_morph(morph))
    return tuple(morphs)


def main() -> None:
    """Trains, or prints Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="'train', or CSV files")
    digits = "'digits' (with the default run's noise and shifts)"
    parser.add_argument("--images", type=Path, help=f"{digits}, or a folder with train/CLASS/* and val/CLASS/*")
    parser.add_argument("--image", type=int, default=16)
    parser.add_argument("--start", default="resnet20")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.what == ["train"]:
        train(asked.images, asked.image, asked.start, asked.seeds, asked.out)
    else:
        print("\n".join(table(read([Path(each) for each in asked.what]))))


if __name__ == "__main__":
    main()
