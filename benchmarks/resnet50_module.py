"""Compare AIPerf's ResNet-50 module with torchvision's, and time building a grown network and transferring its weights.

Run from the repository's root: `python -m benchmarks.resnet50_module [--pairs 10] [--batch 16] [--threads 2]`.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from random import Random

import torch
import torchvision
from torch import Tensor, nn

from aiperf.train.network.initialise import initialise
from aiperf.train.network.module import build
from aiperf.train.network.weights import carry_out
from benchmarks.pairs import describe_machine, interleaved
from morphism import Budget, Graph, WeightPlan, apply, legal, start

MORPHS = 30


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--batch", type=int, default=16, help="images of 224×224 a step")
    arguments.add_argument("--threads", type=int, default=None, help="torch's threads; all cores without it")
    chosen = arguments.parse_args()
    if chosen.threads is not None:
        torch.set_num_threads(chosen.threads)

    print(f"{describe_machine()}; torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| what | ours | compared with | ratio (95 % interval) |\n| --- | --- | --- | --- |")
    for precision in (torch.float32, torch.bfloat16):
        print(_step_against_torchvision(precision, chosen.batch, 224, chosen.pairs), flush=True)
    # so little arithmetic that the overhead per layer dominates
    print(_step_against_torchvision(torch.float32, 2, 32, 5 * chosen.pairs), flush=True)
    print(_build_against_torchvision(chosen.pairs), flush=True)
    grown, plans = grow(start("resnet50_v1_5"), MORPHS)
    print(f"| building the module, grown by {MORPHS} morphs | {_milliseconds(lambda: build(grown))} | | |", flush=True)
    print(_carrying_out(plans))


def grow(graph: Graph, morphs: int) -> tuple[Graph, list[WeightPlan]]:
    """Return the graph after random morphs within the default budget, and the plan of each."""
    random, budget, plans = Random(0), Budget.of(graph), []
    for _ in range(morphs):
        graph, plan = apply(graph, random.choice(legal(graph, budget)))
        plans.append(plan)
    return graph, plans


def _step_against_torchvision(precision: torch.dtype, batch: int, image: int, pairs: int) -> str:
    """Return a row: one forward and backward pass in training, channels_last, with equal weights and images."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ours, theirs = build(start("resnet50_v1_5")), torchvision.models.resnet50()
    initialise(ours, seed=0)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    images = torch.randn(batch, 3, image, image, generator=torch.Generator().manual_seed(0))
    images = images.to(device, memory_format=torch.channels_last)

    def step(module: nn.Module) -> Callable[[], None]:
        module.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]  # torch's stubs lack it

        def forward_and_backward() -> None:
            module.zero_grad()
            with torch.autocast(device.type, precision, enabled=precision is not torch.float32):
                loss: Tensor = module(images).logsumexp(1).mean()
            torch.autograd.backward(loss)
            if device.type == "cuda":
                torch.cuda.synchronize()

        return forward_and_backward

    ratio = interleaved(step(ours), step(theirs), pairs)
    a, b = statistics.median(ratio.a), statistics.median(ratio.b)
    name = str(precision).removeprefix("torch.")
    what = f"forward + backward, {name}, {batch} images of {image}×{image}"
    return f"| {what} | {1e3 * a:.1f} ms | torchvision {1e3 * b:.1f} ms | {ratio} |"


def _build_against_torchvision(pairs: int) -> str:
    ratio = interleaved(
        lambda: _ignore(build(start("resnet50_v1_5"))), lambda: _ignore(torchvision.models.resnet50()), pairs
    )
    a, b = statistics.median(ratio.a), statistics.median(ratio.b)
    return f"| building the module, graph included | {1e3 * a:.1f} ms | torchvision {1e3 * b:.1f} ms | {ratio} |"


def _carrying_out(plans: list[WeightPlan]) -> str:
    """Return a row: the plan of the last morph on the network grown by all others, and all plans in sequence."""
    module = build(start("resnet50_v1_5"))
    initialise(module, seed=0)
    first = dict(module.state_dict())
    parent = first
    for plan in plans[:-1]:
        parent = carry_out(plan, parent, seed=0)

    def all_plans() -> None:
        state = first
        for plan in plans:
            state = carry_out(plan, state, seed=0)

    one = _milliseconds(lambda: carry_out(plans[-1], parent, seed=0))
    copying = _milliseconds(lambda: copy.deepcopy(parent))
    return (
        f"| carrying out one plan, the {len(plans)}th | {one} | a copy of the state {copying} | |\n"
        f"| carrying out all {len(plans)} plans | {_milliseconds(all_plans)} | | |"
    )


def _milliseconds(measured: Callable[[], object], times: int = 7) -> str:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        measured()
        taken.append(time.perf_counter() - begin)
    return f"{1e3 * statistics.median(taken):.1f} ms"


def _ignore(_: object) -> None:
    return None


if __name__ == "__main__":
    main()
