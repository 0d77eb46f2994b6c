"""Morphism search with Ray Tune: real training on the digits, with each child starting from its parent's trained weights.

    python examples/ray_tune_morphism.py [--trials 6] [--epochs 2] [--concurrent 2]

Tune schedules the trials. `MorphismSearch` proposes the network of each trial. A trainable reads its parent's weights from a
folder that all trials share, under the id that the search gives. Takes about half a minute on two cores.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from aiperf.train.torch_network import build, carry_out, initialise
from morphism import Budget, Graph, apply, decode, decode_morph, start
from searchers.history import Space
from searchers.ray_tune import MorphismSearch
from searchers.searcher_config import MorphismConf, TpeConf

TRAINING_IMAGES = 1437  # of 1797


def train(config: dict[str, Any]) -> None:
    """Train the network of `config["graph"]` from its parent's weights and report the accuracy."""
    torch.set_num_threads(1)
    torch.manual_seed(config["number"])
    folder, trial_id = Path(config["folder"]), tune.get_context().get_trial_id()
    (folder / f"{trial_id}.graph").write_text(config["graph"])
    graph = decode(config["graph"])
    module = build(graph)
    module.load_state_dict(inherited(config, folder))
    images, labels = digits()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    for _ in range(config["epochs"]):
        module.train()
        for batch in torch.randperm(TRAINING_IMAGES).split(config["batch_size"]):  # type: ignore[no-untyped-call]  # so in torch
            optimiser.zero_grad()
            loss = cross_entropy(module(images[batch]), labels[batch])
            loss.backward()  # type: ignore[no-untyped-call]  # so in torch
            optimiser.step()
        module.eval()
        with torch.no_grad():
            right = module(images[TRAINING_IMAGES:]).argmax(dim=1) == labels[TRAINING_IMAGES:]
        accuracy = float(right.float().mean())
        # before the last report: Tune may start a child as soon as it receives the report
        torch.save(module.state_dict(), folder / f"{trial_id}.pt")
        tune.report({"accuracy": accuracy})


def inherited(config: dict[str, Any], folder: Path) -> dict[str, torch.Tensor]:
    """Return the child's weights, computed morph by morph from its parent's, or from a new starting graph without a parent."""
    graph: Graph = start("digits_small")
    if config["parent"] is None:
        module = build(graph)
        initialise(module, config["number"])
        state = dict(module.state_dict())
    else:
        graph = decode((folder / f"{config['parent']}.graph").read_text())
        state = torch.load(folder / f"{config['parent']}.pt", weights_only=True)
    for number, encoded in enumerate(config["morphs"]):
        graph, plan = apply(graph, decode_morph(encoded))
        state = carry_out(plan, state, seed=1000 * config["number"] + number)
    return state


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return images (1797, 1, 8, 8) with values 0 to 1, and labels (1797,), in a fixed random order."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8)[order] / 16, torch.tensor(labels)[order]


def search(trials: int, epochs: int, concurrent: int, folder: Path) -> tune.ResultGrid:
    """Run `trials` trials on the connected Ray."""
    graph = start("digits_small")
    space = Space(
        start=graph,
        budget=Budget.of(graph),
        default_batch_size=64,
        smallest_batch_size=32,
        largest_batch_size=128,
        tuning_from_round=2,
    )
    algorithm = MorphismSearch(
        space, MorphismConf().build(), TpeConf().build(), seed=1, trials_per_round=4, metric="accuracy", mode="max"
    )
    tuner = tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={"folder": str(folder), "epochs": epochs},
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", search_alg=algorithm, num_samples=trials, max_concurrent_trials=concurrent
        ),
        run_config=tune.RunConfig(storage_path=str(folder), name="digits", verbose=0),
    )
    return tuner.fit()


def main() -> None:
    """Start a local Ray, search, and print each trial."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--concurrent", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="morphism-") as folder:
        ray.init(address="local", num_cpus=arguments.concurrent, include_dashboard=False, log_to_driver=False)
        try:
            results = search(arguments.trials, arguments.epochs, arguments.concurrent, Path(folder))
        finally:
            ray.shutdown()
        trials = [results[index] for index in range(len(results))]
        ended = [(result.config, result.metrics) for result in trials if result.config and result.metrics]
        numbers = {metrics["trial_id"]: config["number"] for config, metrics in ended}
        for config, metrics in sorted(ended, key=lambda trial: int(trial[0]["number"])):
            origin = "the starting graph" if config["parent"] is None else f"trial {numbers[config['parent']]}"
            morphs = ", ".join(morph["kind"] for morph in config["morphs"]) or "nothing"
            print(f"trial {config['number']}: {origin} + {morphs}: accuracy {metrics['accuracy']:.3f}")
        for failure in results.errors:
            print(f"failed: {failure}")
        if ended:
            print(f"best accuracy {max(metrics['accuracy'] for _, metrics in ended):.3f}")


if __name__ == "__main__":
    main()
