"""Compare two single-core processes, joined by Horovod or DistributedDataParallel, with one process on two cores.

    python -m benchmarks.collectives [--networks digits_small,resnet20] [--batch 128] [--pairs 10] [--cycles 1,5]

All use the same global batch and network. Measured are images per second of training steps, processor time per image of all
ranks, the seconds of communication that the backward pass did not hide, and the processor time of waiting ranks. Rates are by
rank 0's clock and include waiting for input. One group exists at a time, because the threads of waiting groups slow the others
down. The kinds take turns in changing order, and ratios are formed within a turn. Processor time depends little on other
programs. --cycles: values of HOROVOD_CYCLE_TIME in milliseconds, each a kind of its own (default: that of training).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from aiperf.data.dataset_config import SyntheticConf
from aiperf.journal.messages import Crashed, EpochDone, Message, Train, TrialDone
from aiperf.statistics.interleaved import interval_of_median
from aiperf.train.ranks.group import RankGroup
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.trainer_config import TrainerConf
from benchmarks.pairs import describe_machine, order
from morphism import Graph, Map, encode, start

WAITING_SECONDS = 2.0
CYCLE = "HOROVOD_CYCLE_TIME"


@dataclass(frozen=True, slots=True)
class Turn:
    images_per_second: float
    milliseconds_per_image: float
    """Processor time of all ranks."""
    communication_share: float
    """Share of the time in training."""
    waiting_cores: float
    """Processor time of one rank that waits for an order ÷ time."""


def kinds(cycles: Sequence[str]) -> dict[str, tuple[str, int, str | None]]:
    """Return collective, ranks and HOROVOD_CYCLE_TIME by name."""
    horovod: dict[str, tuple[str, int, str | None]]
    horovod = {f"horovod {cycle} ms": ("horovod", 2, cycle) for cycle in cycles} or {"horovod": ("horovod", 2, None)}
    return {"none": ("none", 1, None), **horovod, "torch": ("torch", 2, None)}


def carry_out(group: RankGroup, train: Train) -> list[EpochDone]:
    group.order(train)
    messages: list[Message] = []
    while not (messages and isinstance(messages[-1], TrialDone | Crashed)):
        messages += group.messages(timeout=10.0)
    assert isinstance(messages[-1], TrialDone), messages[-1]
    return [message for message in messages if isinstance(message, EpochDone)]


@contextmanager
def running(
    kind: tuple[str, int, str | None], graph: Graph, data: SyntheticConf, precision: str
) -> Iterator[RankGroup]:
    """Start the only group."""
    collective, ranks, cycle = kind
    conf = TrainerConf(collective=collective, ranks=ranks, threads=2 // ranks, precision=precision, compile="off")
    if cycle is not None:
        os.environ[CYCLE] = cycle
    with tempfile.TemporaryDirectory() as folder:
        group = RankGroup(Recipe(conf, data, encode(graph), Path(folder), 2), accelerators=0)
        try:
            group.start()
            yield group
        finally:
            group.close()
            if cycle is not None:
                del os.environ[CYCLE]


def processor_seconds(group: RankGroup) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in group.pids())


def turn(group: RankGroup, batch: int) -> Turn:
    """Warm up, wait, and train one epoch. `batch`: images per rank."""
    carry_out(group, order(0, batch))
    before, began = processor_seconds(group), time.monotonic()
    time.sleep(WAITING_SECONDS)
    waiting = (processor_seconds(group) - before) / (time.monotonic() - began) / len(group.pids())
    before = processor_seconds(group)
    done = carry_out(group, order(1, batch))[0].advanced
    spent = processor_seconds(group) - before
    training = done.busy_seconds - done.validation_seconds + done.input_seconds
    return Turn(
        done.training_images / training,
        1e3 * spent / done.training_images,
        done.communication_seconds / training,
        waiting,
    )


def speed(network: str, chosen: argparse.Namespace) -> None:
    graph = start(network, classes=10)
    shape = graph.shapes[0]
    assert isinstance(shape, Map)
    data = SyntheticConf(
        training_images=chosen.batch * chosen.steps, validation_images=10, image=shape.height, channels=shape.channels
    )
    compared = kinds([each for each in chosen.cycles.split(",") if each])
    turns: dict[str, list[Turn]] = {name: [] for name in compared}
    for number in range(chosen.pairs):
        names = list(compared)
        for name in names if number % 2 else reversed(names):
            with running(compared[name], graph, data, chosen.precision) as group:
                turns[name].append(turn(group, chosen.batch // compared[name][1]))
    print(f"{network}, global batch {chosen.batch}, {chosen.precision}:")
    for name, own in turns.items():
        print(
            f"  {name:12} {_middle(own, 'images_per_second'):8.1f} images/s, processor time "
            f"{_middle(own, 'milliseconds_per_image'):.3f} ms an image, communication "
            f"{100 * _middle(own, 'communication_share'):.1f} %, waiting ranks {_middle(own, 'waiting_cores'):.3f} cores each"
        )
        for other in ("none", "torch"):
            if other != name:
                for field in ("images_per_second", "milliseconds_per_image"):
                    pairs = zip(own, turns[other], strict=True)
                    ratios = [getattr(one, field) / getattr(base, field) for one, base in pairs]
                    print(f"    {field.replace('_', ' ')} ÷ {other}: {_ratio(ratios)}")


def _middle(turns: Sequence[Turn], field: str) -> float:
    values: list[float] = [getattr(each, field) for each in turns]
    return statistics.median(values)


def _ratio(ratios: Sequence[float]) -> str:
    low, high = interval_of_median(ratios)
    return f"{statistics.median(ratios):.3f} ({low:.3f}–{high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="digits_small,resnet20")
    parser.add_argument("--batch", type=int, default=128, help="global")
    parser.add_argument("--steps", type=int, default=20, help="of one turn")
    parser.add_argument("--pairs", type=int, default=10, help="turns, at least 6")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--cycles", default="", help="milliseconds, separated by commas")
    chosen = parser.parse_args()
    print(f"two processes of one core against one of two; {describe_machine()}; torch {torch.__version__}")
    for network in chosen.networks.split(","):
        speed(network, chosen)


if __name__ == "__main__":
    main()
