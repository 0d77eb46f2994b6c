"""Whether inherited weights pay: children against training from scratch, and against their parent trained on.

    python -m benchmarks.inheritance FOLDER --out results.jsonl [--seeds 8] [--epochs 8] [--arms NAME,NAME]
    python -m benchmarks.inheritance --show results.jsonl

FOLDER holds class folders, train/CLASS/* and val/CLASS/* (CIFAR-10 or a part of it). For each seed a parent is trained from
scratch, and a child is grown from it: one widening and one morph of another kind. Every arm then trains by the product's own
trainer, in this process, on one rank and one thread, each with a learning rate that falls to its end within the arm's epochs:

- inherited: the child from its parent's weights, as a run does it, restarted at several learning rates; with other noise, with
  fresh running statistics, with a warm-up;
- scratch: the child from fresh weights, for the child's work, and for that of child and parent together;
- parent on: the parent from its own weights, for the child's work.

Work is counted operations of training. What is done is appended to the file arm by arm, and not done again: an interrupted
benchmark goes on. Shown are medians over the seeds of the error after the first epoch, after the last and of the best, and the
difference of the last within a seed to the child that inherits at the full learning rate, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from aiperf.data.dataset_config import ImagesConf
from aiperf.data.opened import OpenData
from aiperf.data.opening import open_data
from aiperf.journal.messages import Done, EpochDone, Train
from aiperf.rng import derive
from aiperf.train.checkpoint import Snapshot, load, save
from aiperf.train.checkpoint_files import CheckpointFolder
from aiperf.train.inprocess import train_here
from aiperf.train.symmetry_noise import break_symmetry
from aiperf.train.trainer_config import TrainerConf
from aiperf.train.weights import carry_out
from benchmarks.pairs import FEWEST_PAIRS, describe_machine, interval_of_median
from morphism import Budget, Graph, Morph, WeightPlan, Widen, apply, choices, cost, encode_morph, start

TODAY = "inherited, 0.1"
"""What the others are compared with: the full learning rate anew, noise of 1e-3 on copies."""
NOISE = 1e-3
PARENT, CHANGED, TRIAL = 1, 2, 3
"""Numbers of the parent, of the child's weights as an arm changed them, and of the arm itself."""

State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Family:
    """A parent and the child that grew from it."""

    parent: Graph
    child: Graph
    morphs: tuple[Morph, ...]
    plans: tuple[WeightPlan, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to spend work."""

    name: str
    inherits: bool = True
    is_parent: bool = False
    """The parent is trained on, and no child."""
    with_parents_work: bool = False
    """The parent's work is spent too."""
    conf: Mapping[str, Any] | None = None
    """Options of the trainer that are another way."""
    change: Callable[[Family, State, int], State] | None = None
    """Makes the child's weights of the parent's and the trial's seed; None: as a run does."""


def inherited(family: Family, state: State, seed: int, relative: float) -> State:
    """The child's weights, with noise of another size."""
    for number, plan in enumerate(family.plans):
        state = carry_out(plan, state, derive(seed, "plan", number))
        if relative:
            state = break_symmetry(state, plan, derive(seed, "noise", number), relative)
    return state


def _without_noise(family: Family, state: State, seed: int) -> State:
    return inherited(family, state, seed, 0.0)


def _with_more_noise(family: Family, state: State, seed: int) -> State:
    return inherited(family, state, seed, 10 * NOISE)


def _with_fresh_statistics(family: Family, state: State, seed: int) -> State:
    fresh = {"running_mean": torch.zeros_like, "running_var": torch.ones_like, "num_batches_tracked": torch.zeros_like}
    return {
        name: fresh[kind](tensor) if (kind := name.rpartition(".")[2]) in fresh else tensor
        for name, tensor in inherited(family, state, seed, NOISE).items()
    }


def warmed_up(batch: int) -> dict[str, Any]:
    """From an eighth of the learning rate to all of it in the first epoch."""
    rate = TrainerConf().learning_rate
    return {"learning_rate": rate / 8, "scale_learning_rate": True, "reference_batch": batch // 8, "warmup_epochs": 1}


def arms(batch: int) -> tuple[Arm, ...]:
    """All of them, the most telling first."""
    return (
        Arm(TODAY),
        Arm("scratch, child's work", inherits=False),
        Arm("inherited, 0.03", conf={"learning_rate": 0.03}),
        Arm("parent on, 0.1", is_parent=True),
        Arm("scratch, child's and parent's work", inherits=False, with_parents_work=True),
        Arm("inherited, 0.05", conf={"learning_rate": 0.05}),
        Arm("parent on, 0.03", is_parent=True, conf={"learning_rate": 0.03}),
        Arm("inherited, 0.01", conf={"learning_rate": 0.01}),
        Arm("inherited, 0.1, warmed up for an epoch", conf=warmed_up(batch)),
        Arm("inherited, 0.1, no noise", change=_without_noise),
        Arm("inherited, 0.1, noise 1e-2", change=_with_more_noise),
        Arm("inherited, 0.1, statistics anew", change=_with_fresh_statistics),
    )


def family_of(parent: Graph, seed: int) -> Family:
    """One widening and one morph of another kind, both drawn, within four times the parent."""
    random, budget = Random(f"inheritance {seed}"), Budget.of(parent)
    others = [kind for kind in choices(parent, budget).kinds() if kind is not Widen]
    graph = parent
    morphs: list[Morph] = []
    plans: list[WeightPlan] = []
    for kind in (Widen, random.choice(others)):
        morph = random.choice(choices(graph, budget).of(kind))
        graph, plan = apply(graph, morph)
        morphs.append(morph)
        plans.append(plan)
    return Family(parent, graph, tuple(morphs), tuple(plans))


def _seed(seed: int, trial: int) -> int:
    return derive(seed, "trial", trial)


def operations(graph: Graph) -> int:
    """Of training with one image."""
    counted = cost(graph)
    return counted.forward_flops + counted.backward_flops


@dataclass(frozen=True, slots=True)
class Bench:
    """What all arms share."""

    data: OpenData
    conf: TrainerConf
    epochs: int
    batch: int

    def parent(self, family: Family, seed: int, folder: Path) -> list[EpochDone]:
        """Trains it, and leaves its checkpoint in the folder."""
        return self._train(PARENT, family.parent, family.parent, (), None, self.epochs, {}, seed, folder)

    def run(self, arm: Arm, family: Family, seed: int, folder: Path) -> list[EpochDone]:
        """The epochs of an arm, whose parent's checkpoint lies in the folder."""
        graph = family.parent if arm.is_parent else family.child
        work = self.epochs * operations(family.child)
        if arm.with_parents_work:
            work += self.epochs * operations(family.parent)
        epochs = max(1, round(work / operations(graph)))
        parent = PARENT if arm.inherits else None
        morphs = () if arm.is_parent else family.morphs
        begins = family.parent
        if arm.change is not None:
            found = load(CheckpointFolder(folder), PARENT, family.parent.fingerprint)
            state = arm.change(family, dict(found.weights), _seed(seed, TRIAL))
            save(Snapshot(CHANGED, 0, graph.fingerprint, state, {}, {}), CheckpointFolder(folder))
            parent, morphs, begins = CHANGED, (), graph
        return self._train(TRIAL, begins, graph, morphs, parent, epochs, arm.conf or {}, seed, folder)

    def _train(
        self,
        trial: int,
        begins: Graph,
        graph: Graph,
        morphs: Sequence[Morph],
        parent: int | None,
        epochs: int,
        changed: Mapping[str, Any],
        seed: int,
        folder: Path,
    ) -> list[EpochDone]:
        CheckpointFolder(folder).drop(trial)
        order = Train(
            trial=trial,
            attempt=1,
            worker=0,
            lineage=(),
            morphs=tuple(encode_morph(morph) for morph in morphs),
            parent=parent,
            first_epoch=1,
            last_epoch=epochs,
            patience=epochs,
            improvement=0.001,
            losses=(),
            batch_size=self.batch,
            seed=_seed(seed, trial),
            progress_seconds=3600.0,
            edges=(),
        )
        conf = replace(self.conf, decay_epochs=epochs, **changed)
        words = list(train_here(order, conf, self.data, begins, folder))
        done = [word for word in words if isinstance(word, EpochDone)]
        assert isinstance(words[-1], Done) and len(done) == epochs, words[-1]
        return done


def part_of(folder: Path, images: Mapping[str, int], into: Path) -> Path:
    """A folder of links to the first images of each class, so many in all of each split."""
    for split, count in images.items():
        classes = sorted(path for path in (folder / split).iterdir() if path.is_dir())
        for path in classes:
            (into / split / path.name).mkdir(parents=True)
            for file in sorted(path.iterdir())[: count // len(classes)]:
                (into / split / path.name / file.name).symlink_to(file.resolve())
    return into


def measure(arguments: argparse.Namespace) -> None:
    """Every arm of every seed that is not in the file yet, one line each."""
    out: Path = arguments.out
    done = {(line["seed"], line["arm"]) for line in read(out)} if out.exists() else set()
    chosen = [arm for arm in arms(arguments.batch) if not arguments.arms or arm.name in arguments.arms.split(";")]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = part_of(
            arguments.folder, {"train": arguments.images, "val": arguments.validation}, Path(scratch) / "images"
        )
        with open_data(ImagesConf(root=str(folder), image=arguments.image)) as data:
            bench = Bench(data, TrainerConf(threads=1), arguments.epochs, arguments.batch)
            graph = start(arguments.start, image=arguments.image, channels=3, classes=data.description.classes)
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                left = [arm for arm in chosen if (seed, arm.name) not in done]
                if left:
                    _one_seed(bench, left, family_of(graph, seed), seed, Path(scratch) / f"seed-{seed}", out)


def _one_seed(bench: Bench, left: Sequence[Arm], family: Family, seed: int, folder: Path, out: Path) -> None:
    bench.parent(family, seed, folder)
    for arm in left:
        began = time.process_time()
        errors = [1.0 - epoch.accuracy for epoch in bench.run(arm, family, seed, folder)]
        line = {
            "seed": seed,
            "arm": arm.name,
            "growth": operations(family.child) / operations(family.parent),
            "errors": errors,
            "seconds": time.process_time() - began,
        }
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"seed {seed}  {arm.name:<40} {' '.join(f'{error:.3f}' for error in errors)}", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The results as a table, an arm a row."""
    errors = {(line["seed"], line["arm"]): line["errors"] for line in lines}
    names = list(dict.fromkeys(line["arm"] for line in lines))
    rows = [
        "| arm | seeds | first epoch | last epoch | best | last − that of today's | better |",
        "| --- | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for name in names:
        found = {seed: curve for (seed, arm), curve in errors.items() if arm == name}
        ends = [statistics.median(pick(curve) for curve in found.values()) for pick in (_first, _last, min)]
        pairs = [_last(curve) - _last(errors[seed, TODAY]) for seed, curve in found.items() if (seed, TODAY) in errors]
        between = ""
        if len(pairs) >= FEWEST_PAIRS:
            low, high = interval_of_median(pairs)
            between = f" ({low:+.3f} to {high:+.3f})"
        compared = "" if name == TODAY or not pairs else f"{statistics.median(pairs):+.3f}{between}"
        better = "" if name == TODAY else f"{sum(pair < 0 for pair in pairs)} of {len(pairs)}"
        shown = " | ".join(f"{end:.3f}" for end in ends)
        rows.append(f"| {name} | {len(found)} | {shown} | {compared} | {better} |")
    return rows


def _first(curve: Sequence[float]) -> float:
    return curve[0]


def _last(curve: Sequence[float]) -> float:
    return curve[-1]


def main() -> None:
    """Measures what is not measured yet, and shows all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="train/CLASS/* and val/CLASS/*")
    parser.add_argument("--out", type=Path, help="results, appended to")
    parser.add_argument("--show", type=Path, help="only shows the results in this file")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=8, help="of the parent, and of a child")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--validation", type=int, default=1000)
    parser.add_argument("--image", type=int, default=16, help="height and width, in pixels")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--start", default="resnet20")
    parser.add_argument("--arms", default="", help="names, separated by ';'; all unless given")
    arguments = parser.parse_args()
    if arguments.show is None:
        if arguments.folder is None or arguments.out is None:
            parser.error("a folder of images and --out are needed, or --show")
        measure(arguments)
    path = arguments.show or arguments.out
    print(f"\n{describe_machine()}; {sum(line['seconds'] for line in read(path)):.0f} s of processor time\n")
    print("\n".join(table(read(path))))


if __name__ == "__main__":
    main()
