"""What the model says about the score: bandwidth against arithmetic, the number of workers, and zero padding.

    python -m benchmarks.modelled_validity [--hours 12] [--reached SHARE]
    python -m benchmarks.modelled_validity --kernels              zero padding of larger kernels, at once

A ranking run is simulated as 16 workers of 8 accelerators and as 128 of 1, at the rate of ResNet-50 on the first machine. The
rates of the networks that it trained are those of the roofline of each layer (`aiperf/accounting/network_roofline.py`), caches
and launches left out. Nothing is measured.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiperf.accounting.network_roofline import floor, layers
from aiperf.config import configure
from aiperf.journal.journal import NAME, read
from aiperf.report.architecture import graphs_of_trials
from aiperf.report.fold import collect
from aiperf.report.phrases import search_reach
from aiperf.report.write import report_of
from aiperf.simulate.session import drive, open_run, world_of
from aiperf.system.peaks import memory_bandwidth, peak
from aiperf.units import flops_per_second, share
from morphism import Graph, Kernel, cost, start
from morphism.cost import padded_flops
from morphism.grow import enlarge
from morphism.sites import kernel_sites, useful_kernels

DEVICE = "NVIDIA H200"
BATCH = 448
MOST_TRIALS = 200
Machine = tuple[float, float]
Work = Sequence[tuple[Graph, int, float]]
"""Network, batch and images of each trial."""


def rate(work: Work, machine: Machine) -> float:
    """Operations ÷ shortest time of training, in FLOPS of one accelerator."""
    steps = [(images / batch, floor(layers(graph, batch, 2, *machine))) for graph, batch, images in work]
    return sum(n * flops for n, (flops, _) in steps) / sum(n * seconds for n, (_, seconds) in steps)


def padding(work: Work) -> float:
    """Share of the operations of training that multiply zeros of the padding."""
    operations = sum(images * cost(graph).training_flops for graph, _, images in work)
    return sum(images * sum(padded_flops(graph)) for graph, _, images in work) / operations


def with_kernels(graph: Graph, kernel: int) -> Graph:
    """Return the graph with this kernel in each convolution that the search may give it."""
    grown = [graph.nodes[site].name for site in kernel_sites(graph) if kernel in useful_kernels(graph, site)]
    return enlarge(graph, [Kernel(name, kernel) for name in grown])


def kernel_lines() -> Iterator[str]:
    yield "| network | as it starts | 5×5 kernels | 7×7 kernels |\n| --- | --- | --- | --- |"
    for name in ("resnet50_v1", "digits_small"):
        graph = start(name)
        of = [padding([(each, 1, 1.0)]) for each in (graph, with_kernels(graph, 5), with_kernels(graph, 7))]
        yield f"| {name} | {' | '.join(map(share, of))} |"


def simulated(workers: int, accelerators: int, hours: float, flops: float) -> tuple[str, Work]:
    """Return how far the search of a ranking run got, and its trials with the most work."""
    of_run = ["+cluster=simulated", "dataset=imagenet", "schedule=ranking", f"schedule.duration_seconds={3600 * hours}"]
    shape = [f"cluster.workers={workers}", f"cluster.accelerators={accelerators}", f"cluster.flops={flops}"]
    opening = open_run(configure([*of_run, *shape]))
    with tempfile.TemporaryDirectory() as folder:
        drive(world_of(opening), opening.first, Path(folder) / NAME)
        run, report = collect(read(Path(folder) / NAME)), report_of(Path(folder))
    done = sorted(report.trials, key=lambda each: -each.in_window.operations)[:MOST_TRIALS]
    graphs = graphs_of_trials(run, [each.number for each in done])
    return search_reach(report) or "", [
        (graphs[each.number], each.batch_size, each.in_window.trained_images) for each in done if each.number in graphs
    ]


def lines(hours: float, reached: float) -> Iterator[str]:
    dense, bandwidth = peak(DEVICE, "SXM", "bf16"), memory_bandwidth(DEVICE, "SXM")
    assert dense is not None and bandwidth is not None, "a row of peaks.json"
    machines: tuple[Machine, Machine] = (dense * reached, bandwidth), (dense * reached / 2, 2 * bandwidth)
    yield f"{DEVICE}, and half its arithmetic with twice its bandwidth\n"
    yield "| networks | rate | the other ÷ it | zero padding |\n| --- | --- | --- | --- |"
    works: dict[str, Work] = {"ResNet-50": [(start("resnet50_v1"), BATCH, 1.0)]}
    texts = []
    for workers, each in ((16, 8), (128, 1)):
        name = f"ranking run of {workers} × {each}"
        text, works[name] = simulated(workers, each, hours, rate(works["ResNet-50"], machines[0]))
        texts.append(f"\n{name}: {text}")
    for name, work in works.items():
        rates = [rate(work, machine) for machine in machines]
        padded = share(padding(work))
        yield f"| {name} | {flops_per_second(rates[0])} | {rates[1] / rates[0]:.3f} | {padded} |"
    yield from texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=12.0, help="length of the simulated runs")
    parser.add_argument("--reached", type=float, default=1.0, help="share of the peak that arithmetic reaches at best")
    parser.add_argument("--kernels", action="store_true", help="print the padding of 5×5 and 7×7 kernels alone")
    given = parser.parse_args()
    for line in kernel_lines() if given.kernels else lines(given.hours, given.reached):
        print(line, flush=True)


if __name__ == "__main__":
    main()
