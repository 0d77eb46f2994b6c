"""What the score speaks for: training of its networks and of others, interleaved, in several settings of this machine.

    python -m benchmarks.validity [--run RUN|FILE] [--settings avx2,avx512,bf16,threads] [--out FILE] [--others FILE…]

The settings stand for machines. "run" is the time of a run's networks, by the images that each was trained on. Rates are steps
per second of processor time and thread, and the wall time stands beside. Files of other machines (--out) are further settings.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torchvision import models

from aiperf.accounting.work_log import window
from aiperf.journal.journal import NAME, read
from aiperf.journal.run_folder import run_folder
from aiperf.report.architecture import graphs_of_trials
from aiperf.report.fold import collect
from aiperf.report.trial_facts import trials
from aiperf.statistics.interleaved import FEWEST_PAIRS, Ratio
from aiperf.train.torch_network import build, initialise
from benchmarks.pairs import describe_machine, side_process
from benchmarks.trainer_speed import Loop, Way
from morphism.codec import decode, encode

RECORDED = Path(__file__).with_name("validity.json")
MOST_NETWORKS = 6
"""Networks of the run, those with the most work, beside its start."""
SEGMENT_SECONDS = 0.3
FEWEST_CORRELATED = 5
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
AVX512 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
SETTINGS: dict[str, tuple[dict[str, str], str, int]] = {
    "avx2": (AVX2, "fp32", 1),
    "avx512": (AVX512, "fp32", 1),
    "bf16": ({}, "bf16", 1),
    "threads": (AVX512, "fp32", 2),
}
"""Variables of the environment, precision and threads."""


def scored(network: nn.Module, scores: Callable[[Any], Tensor]) -> nn.Module:
    """Return a network whose output is that part of its outputs."""
    network.register_forward_hook(lambda *given: scores(given[-1]))
    return network


IMAGES = (3, 96, 96)
OTHERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet18": (models.resnet18, (8, *IMAGES)),
    "resnet50": (models.resnet50, (4, *IMAGES)),
    "vit_s, 6 layers": (lambda: models.VisionTransformer(IMAGES[1], 16, 6, 6, 384, 1536), (8, *IMAGES)),
    "lstm, 2 layers": (
        lambda: scored(nn.LSTM(512, 512, 2, batch_first=True), lambda out: out[0][:, -1]),
        (32, 32, 512),
    ),
    "fcn_resnet50": (
        lambda: scored(models.segmentation.fcn_resnet50(weights_backbone=None), lambda out: out["out"]),
        (2, *IMAGES),
    ),
}
"""Function that builds each network, and the shape of a batch."""


Recorded = tuple[str, int, float]
"""A network of a run: graph, batch, and the images on which the run trained it in its window."""


def recorded(file: Path) -> list[Recorded]:
    """Return the start and the networks with the most work of a run, or those of a file of this benchmark."""
    if file.suffix == ".json":
        return [tuple(each) for each in json.loads(file.read_text())["networks"]]
    run = collect(read(run_folder(str(file)) / NAME))
    first, *others = trials(run, window(run.work_log))
    others.sort(key=lambda each: -each.in_window.operations)
    taken = [first, *others[:MOST_NETWORKS]]
    graphs = graphs_of_trials(run, [each.number for each in taken])
    return [
        (encode(graphs[each.number]), each.batch_size, each.in_window.trained_images)
        for each in taken
        if each.number in graphs
    ]


class Side:
    """Process of one setting. It holds one network at a time."""

    def __init__(self, setting: str, networks: list[Recorded]) -> None:
        variables, self._precision, self._threads = SETTINGS[setting]
        os.environ.update(variables)  # before the first operation, at which the libraries read them
        torch.set_num_threads(self._threads)
        self._networks = networks

    def begin(self, network: str) -> int:
        """Build a network. Return the steps of a segment."""
        if network in OTHERS:
            module, shape = OTHERS[network][0](), OTHERS[network][1]
        else:
            encoded, batch, _ = self._networks[int(network)]
            graph = decode(encoded)
            initialise(module := build(graph), 0)
            shape = (batch, *astuple(graph.shapes[0]))
        images = torch.randn(shape)
        with torch.no_grad():
            labels = module(images).argmax(1)  # of the right shape, and within the classes
        self._loop = Loop(module, [(images, labels)], self._precision, Way(), torch.device("cpu"))
        self.step(1)
        return max(1, round(SEGMENT_SECONDS / self.step(1)[1]))

    def step(self, steps: int) -> tuple[float, float]:
        """Return the processor time of a step and thread, and its wall time."""
        wall, processor = time.perf_counter(), time.process_time()
        self._loop.do(steps)
        used, passed = time.process_time() - processor, time.perf_counter() - wall
        return used / steps / self._threads, passed / steps


Times = dict[str, dict[str, Any]]
"""Times of a step by network and setting, shape (rounds, 2): processor time of a thread, wall time."""


def measured(names: list[str], networks: list[Recorded], rounds: int) -> Times:
    times: Times = {}
    numbers = ["start", *(f"trial {number}" for number in range(1, len(networks)))]
    with ExitStack() as stack:
        sides = {name: stack.enter_context(side_process(Side, name, networks)) for name in names}
        for network in (*range(len(networks)), *OTHERS):
            steps = {name: side("begin", str(network)) for name, side in sides.items()}
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
            for turn in range(rounds):
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    taken[name].append(sides[name]("step", steps[name]))
            times[numbers[network] if isinstance(network, int) else network] = taken
    weights = [images / batch for _, batch, images in networks]
    of_run = {name: np.tensordot(weights, [times[number][name] for number in numbers], 1).tolist() for name in names}
    return {"run": of_run, **times}


def tables(times: Times) -> Iterator[str]:
    """Yield the ratios of all pairs of settings, and the rank correlations."""
    names = list(times["run"])
    for a, b in itertools.combinations(names, 2):
        yield f"\n| {b} ÷ {a} | processor time | wall time |\n| --- | --- | --- |"
        orders = {}
        for network, of in times.items():
            ratios = [Ratio.of(*pair) for pair in zip(np.transpose(of[a]), np.transpose(of[b]), strict=True)]
            orders[network] = int(ratios[0].low > 1) - int(ratios[0].high < 1)
            yield f"| {network} | {' | '.join(f'{each.median:.2f} ({each.low:.2f}–{each.high:.2f})' for each in ratios)} |"
        turned = [f"{x} and {y}" for x, y in itertools.combinations(orders, 2) if orders[x] * orders[y] < 0]
        yield f"\norder turns round between: {', '.join(turned) or 'none'}"
    if len(names) >= FEWEST_CORRELATED:
        medians = {network: np.median([of[name] for name in names], axis=1)[:, 0] for network, of in times.items()}
        ranked = (f"{network} {spearmanr(medians['run'], each).statistic:.2f}" for network, each in medians.items())
        yield f"\nrank correlation with the run: {', '.join(ranked)}"


def joined(files: list[Mapping[str, Any]]) -> Times:
    """Times of the networks that all files have. Settings of several machines are named `MACHINE: SETTING`."""
    fewest = min(each["rounds"] for each in files)
    return {
        network: {
            f"{each['machine']}: {name}" if len(files) > 1 else name: taken[:fewest]
            for each in files
            for name, taken in each["times"][network].items()
        }
        for network in files[0]["times"]
        if all(network in each["times"] for each in files)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=RECORDED, help="run whose networks are trained (a default run)")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--rounds", type=int, default=FEWEST_PAIRS)
    parser.add_argument("--out", type=Path, help="write the measurements as JSON")
    parser.add_argument("--others", type=Path, nargs="*", default=[], help="such files of other machines")
    arguments = parser.parse_args()
    networks, machine = recorded(arguments.run), f"{describe_machine()}, torch {torch.__version__}"
    times = measured(arguments.settings.split(","), networks, arguments.rounds)
    own = {"machine": machine, "rounds": arguments.rounds, "networks": networks, "times": times}
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(own) + "\n")
    files = [own, *(json.loads(file.read_text()) for file in arguments.others)]
    print(f"{machine}, {len(networks)} networks of the run", *tables(joined(files)), sep="\n")


if __name__ == "__main__":
    main()
