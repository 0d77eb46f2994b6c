"""A plan tells whether an epoch fits the window, for every device and schedule."""

from __future__ import annotations

import pytest

from aiperf.config import RunConf, configure
from aiperf.journal.events import WorkerShape
from aiperf.planning.epoch_time import SHARE, epoch_note
from aiperf.system.peaks import table
from tests.rigs.user import User

IMAGENET = 29.9e15
"""Operations of an epoch of resnet50_v1."""


def conf_of(*words: str) -> RunConf:
    return configure(words)


def shape(device: str, ranks: int = 1) -> WorkerShape:
    return WorkerShape(source="", device=device, accelerators=ranks, ranks=ranks, cores=8, memory_bytes=2**36)


@pytest.mark.parametrize("device", sorted({row.example for row in table()}))
@pytest.mark.parametrize(("words", "window"), [((), 160.0), (("schedule=hour",), 3300.0)])
def test_an_epoch_beyond_the_window_is_told_for_every_known_device(
    device: str, words: tuple[str, ...], window: float
) -> None:
    fastest = max(max(row.dense_flops.values()) for row in table() if row.example == device)

    note = epoch_note(conf_of(*words), shape(device), IMAGENET)

    assert (note is not None) == (IMAGENET / (SHARE * fastest) > window)
    assert note is None or "has no score. Take schedule=hour" in note


@pytest.mark.parametrize(
    ("device", "ranks", "words", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 1, (), "one takes 4 min 00 s at 40.0 % of the peak (1 × 312 TFLOPS)"),
        ("NVIDIA A100-SXM4-80GB", 8, (), None),
        ("A100", 1, (), "longer than the window of 2 min 40 s"),  # as declared for nodes that do not exist yet
        ("NVIDIA A100-SXM4-80GB", 1, ("trainer.precision=fp32",), "(1 × 19.5 TFLOPS)"),
        ("AMD EPYC", 2, (), "cannot be told: no peak of AMD EPYC is published or declared (system.peak)"),
        ("AMD EPYC", 2, ("system.peak={fp32: 1e12, source: sheet}",), "(2 × 1.00 TFLOPS)"),
        ("AMD EPYC", 2, ("system.peak={fp32: 1e15, source: sheet}",), None),
        ("", 1, (), "cannot be told"),
    ],
)
def test_the_estimate_names_its_figures(device: str, ranks: int, words: tuple[str, ...], expected: str | None) -> None:
    note = epoch_note(conf_of(*words), shape(device, ranks), IMAGENET)

    assert (note is None) == (expected is None) and (expected or "") in (note or "")


SLURM = ("dry_run=true", "+cluster=slurm", "cluster.nodes=1", "dataset=imagenet", "dataset.root=/data/imagenet")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("cluster.accelerator=A100", "cluster.gpus_per_node=1", "cluster.accelerator_memory=80G"), "has no score"),
        (("cluster.gpus_per_node=1", "cluster.accelerator_memory=80G"), "cannot be told: no peak of a device that is"),
        ((), "cannot be told: no peak of a device that is not known yet"),
    ],
)
def test_lines_for_slurm_have_the_estimate(aiperf: User, words: tuple[str, ...], expected: str) -> None:
    answer = aiperf(*SLURM, *words)

    assert answer.status == 0 and expected in " ".join(answer.out.split())
