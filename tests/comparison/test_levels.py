"""Levels of HPC AI500: nine pairs of real runs, each different in one layer, at three levels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiperf.report.sections
from aiperf.__main__ import main
from aiperf.comparison.comparability import differences_by_layer
from aiperf.ranking.levels import levels_of, rules
from aiperf.report.facts import Report
from aiperf.report.write import report_of
from tests.builders.forged_journal import lines_of, write

BASE = (
    "benchmark=hpc_ai500_ic executor=inline dataset=synthetic dataset.training_images=64 dataset.validation_images=16 "
    "dataset.image=8 dataset.channels=1 start=digits_small schedule.epochs=[1] schedule.duration_seconds=300 batch.default=16 "
    "benchmark.target_quality=0.1 preflight.probes=none"
)
Line = dict[str, Any]


def of_worker(**changes: Any) -> Callable[[Line], None]:
    """Return the change of the line of each worker, as another machine would write it."""

    def change(line: Line) -> None:
        if line["event"] == "WorkerJoined":
            machine = line["machine"] | changes.get("machine", {})
            line.update(changes | {"machine": machine})

    return change


def of_version(name: str, version: str) -> Callable[[Line], None]:
    def change(line: Line) -> None:
        if line["event"] == "RunStarted":
            line["versions"] = line["versions"] | {name: version}

    return change


EVERY, CLOSED_HARDWARE, ONLY_FREE, NEVER = (True, True, True), (False, True, True), (False, False, True), (False,) * 3
PAIRS: dict[int, tuple[str | Callable[[Line], None], str, tuple[bool, ...]]] = {
    # layer: changed word or line, name of the difference, verdicts at hardware, system and free
    1: (of_worker(machine={"cpu_model": "Abacus 9"}), "cpu_model", EVERY),
    2: (of_worker(machine={"kernel": "7.0.0"}), "kernel", EVERY),
    3: (of_worker(collective="horovod 0.29.0 (nccl)"), "collective", EVERY),
    4: (of_worker(device="NVIDIA H200"), "device", EVERY),
    5: (of_version("torch", "3.0.0+cpu"), "torch", CLOSED_HARDWARE),
    6: ("trainer.ranks=1", "trainer.ranks", EVERY),
    7: ("start=resnet20", "start", ONLY_FREE),
    8: ("trainer.momentum=0.5", "trainer.momentum", ONLY_FREE),
    9: ("benchmark.target_quality=0.2", "benchmark.target_quality", NEVER),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def trained(runs: Path, name: str, *changed: str) -> Path:
    """Return the folder of a real run."""
    options = {word.partition("=")[0]: word for word in (*BASE.split(), *changed)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(aiperf.report.sections, "SECTIONS", ())  # no test opens the pages
        assert main([*options.values(), f"runs={runs}", f"name={name}"]) == 0
    (folder,) = runs.glob(f"*-{name}")
    return folder


@pytest.fixture(scope="module")
def base(runs: Path) -> Path:
    return trained(runs, "base")


def other(runs: Path, base: Path, layer: int) -> Report:
    """Return a run that differs from the base in one layer: trained, or with the description of another machine."""
    change = PAIRS[layer][0]
    if isinstance(change, str):
        return report_of(trained(runs, f"layer-{layer}", change))
    lines = lines_of(base / "journal.jsonl")
    for line in lines:
        change(line)
    return report_of(write(runs / f"layer-{layer}", lines))


@pytest.mark.parametrize("layer", PAIRS)
def test_a_difference_in_one_layer_has_its_verdict_at_each_level(layer: int, runs: Path, base: Path) -> None:
    _, name, verdicts = PAIRS[layer]

    differences = differences_by_layer(other(runs, base, layer), report_of(base))

    assert {each.layer for each in differences} == {layer}, differences
    assert name in [each.name for each in differences]
    assert tuple(level in levels_of(differences) for level in rules().levels) == verdicts


def test_a_repeat_satisfies_every_level(runs: Path, base: Path) -> None:
    repeat = trained(runs, "repeat", "seed=7")

    assert differences_by_layer(report_of(repeat), report_of(base)) == ()
