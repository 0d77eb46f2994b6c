"""Compare two single-core processes, joined by Horovod or DistributedDataParallel, with one process on two cores.

    python -m benchmarks.collectives [--networks digits_small,resnet20] [--batch 128] [--pairs 10]

All three use the same global batch and network. Measured are images per second of training steps, and the seconds of
communication that the backward pass did not hide. Both are by rank 0's clock and include waiting for input. All three groups
exist during the whole run and train in turns, in changing order. Ratios are formed within a turn.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import torch

from aiperf.data.dataset_config import SyntheticConf
from aiperf.journal.messages import Crashed, EpochDone, Train, TrialDone, Word
from aiperf.statistics.interleaved import interval_of_median
from aiperf.train.ranks.group import RankGroup
from aiperf.train.trainer_config import TrainerConf
from benchmarks.pairs import describe_machine
from morphism import Graph, Map, encode, start

KINDS = {"none": 1, "horovod": 2, "torch": 2}


def order(trial: int, batch: int, epochs: int = 1) -> Train:
    return Train(
        trial=trial,
        attempt=1,
        worker=0,
        lineage=(),
        morphs=(),
        parent=None,
        first_epoch=1,
        last_epoch=epochs,
        patience=10**6,
        improvement=0.001,
        losses=(),
        batch_size=batch,
        seed=0,
        progress_seconds=1000.0,
        edges=(),
    )


def carry_out(group: RankGroup, train: Train) -> list[EpochDone]:
    group.order(train)
    words: list[Word] = []
    while not (words and isinstance(words[-1], TrialDone | Crashed)):
        words += group.words(timeout=10.0)
    assert isinstance(words[-1], TrialDone), words[-1]
    return [word for word in words if isinstance(word, EpochDone)]


def groups(folder: Path, graph: Graph, data: SyntheticConf, precision: str) -> dict[str, RankGroup]:
    made = {}
    for kind, ranks in KINDS.items():
        conf = TrainerConf(collective=kind, ranks=ranks, threads=2 // ranks, precision=precision)
        made[kind] = RankGroup(conf, data, encode(graph), folder / kind, accelerators=0, cores=2)
        made[kind].start()
    return made


def speed(network: str, batch: int, steps: int, pairs: int, precision: str) -> None:
    graph = start(network, classes=10)
    shape = graph.shapes[0]
    assert isinstance(shape, Map)
    data = SyntheticConf(
        training_images=batch * steps, validation_images=10, image=shape.height, channels=shape.channels
    )
    with tempfile.TemporaryDirectory() as folder:
        running = groups(Path(folder), graph, data, precision)
        rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
        shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
        try:
            for turn in range(pairs + 1):
                kinds = list(KINDS)
                for kind in kinds if turn % 2 else reversed(kinds):
                    done = carry_out(running[kind], order(turn, batch // KINDS[kind]))[0].advanced
                    if turn:  # the first turn is a warm-up
                        training = done.busy_seconds - done.validation_seconds + done.input_seconds
                        rates[kind].append(done.training_images / training)
                        shares[kind].append(done.communication_seconds / training)
        finally:
            for group in running.values():
                group.close()
    print(f"{network}, global batch {batch}, {precision}:")
    for kind in KINDS:
        line = f"  {kind:8} {statistics.median(rates[kind]):8.1f} images/s, communication {statistics.median(shares[kind]):.1%}"
        for other in KINDS:
            if other != kind:
                ratios = [a / b for a, b in zip(rates[kind], rates[other], strict=True)]
                low, high = interval_of_median(ratios)
                line += f"; ÷ {other} {statistics.median(ratios):.3f} ({low:.3f}–{high:.3f})"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="digits_small,resnet20")
    parser.add_argument("--batch", type=int, default=128, help="global")
    parser.add_argument("--steps", type=int, default=20, help="of one turn")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--precision", default="auto")
    chosen = parser.parse_args()
    print(f"two processes of one core against one of two; {describe_machine()}; torch {torch.__version__}")
    for network in chosen.networks.split(","):
        speed(network, chosen.batch, chosen.steps, chosen.pairs, chosen.precision)


if __name__ == "__main__":
    main()
