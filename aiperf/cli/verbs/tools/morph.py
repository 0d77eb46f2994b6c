"""`python -m aiperf morph`: grow a network step by step and show each step with its cost."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from aiperf.atomic_files import write_named
from aiperf.cli.arguments import add_number
from aiperf.cli.output import print_parts
from aiperf.cli.verbs.tools.flops import add_graph_arguments, graph_of
from aiperf.errors import explained
from aiperf.files import given_path
from aiperf.page.section import rows
from aiperf.rng import derive
from aiperf.units import change, count, operations
from morphism import Budget, Deepen, Graph, Heads, Kernel, Morph, Skip, Widen, apply, cost, encode, encode_morph, legal
from morphism.draw import svg

DESCRIPTION = "Grows a network by random legal morphs within the budget of a run. Prints each step and its cost."
EXAMPLES = ("resnet20 --steps 20 --seed 0 --out grown.json --draw grown.svg",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_arguments(parser)
    add_number(parser, "--steps", "morphs to apply", default=20, least=0, most=1_000_000)
    add_number(parser, "--seed", "seed of the choice among the legal morphs", default=0, least=0)
    add_number(
        parser,
        "--factor",
        "budget as a multiple of the start's operations and parameters",
        float,
        metavar="X",
        default=4.0,
        least=1,
        most=10_000,
    )
    parser.add_argument(
        "--out", type=given_path, metavar="FILE", help="write the grown graph, for `flops` and `start=FILE`"
    )
    parser.add_argument(
        "--lineage",
        type=given_path,
        metavar="FILE",
        help="write the starting graph and the morphs, which rebuild the grown graph",
    )
    parser.add_argument(
        "--draw", type=given_path, metavar="FILE.svg", help="draw the grown network, new parts highlighted"
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    start = graph_of(arguments)
    graph, morphs = _grow(start, arguments)
    if arguments.out:
        _write(arguments.out, encode(graph))
    if arguments.lineage:
        lineage = {"start": json.loads(encode(start)), "morphs": [encode_morph(morph) for morph in morphs]}
        _write(arguments.lineage, json.dumps(lineage, indent=2))
    if arguments.draw:
        known = {node.name for node in start.nodes}
        new = [node.name for node in graph.nodes if node.name not in known]
        _write(arguments.draw, svg(graph, title=f"{arguments.graph} + {len(morphs)} morphs", highlight=new))
    return 0


def _grow(graph: Graph, arguments: argparse.Namespace) -> tuple[Graph, list[Morph]]:
    budget = Budget.of(graph, factor=arguments.factor)
    before = cost(graph)
    cells = [("0", "start", operations(before.forward_flops), "", count(before.parameters), graph.fingerprint[:12])]
    stopped = ""
    morphs: list[Morph] = []
    for step in range(arguments.steps):
        offered = legal(graph, budget)
        if not offered:
            stopped = f"stopped after {step} steps: no morph is left within {arguments.factor:g} times the start's cost"
            break
        chooser = random.Random(derive(arguments.seed, "morph", step))
        # Kind first, then one of its morphs: a kind with many sites does not displace the others.
        kind = chooser.choice(sorted({type(morph).__name__ for morph in offered}))
        morph = chooser.choice([morph for morph in offered if type(morph).__name__ == kind])
        graph, _ = apply(graph, morph)
        morphs.append(morph)
        now = cost(graph)
        step_change = change(now.forward_flops / before.forward_flops - 1)
        figures = (operations(now.forward_flops), step_change, count(now.parameters))
        cells.append((str(step + 1), _described(morph), *figures, graph.fingerprint[:12]))
        before = now
    heads = (">step", "morph", ">forward", ">change", ">parameters", "fingerprint")
    print_parts([rows("steps", f"{arguments.graph}, seed {arguments.seed}", heads, cells, stopped)])
    return graph, morphs


def _described(morph: Morph) -> str:
    match morph:
        case Deepen():
            return f"deepen after {morph.after}"
        case Widen():
            return f"widen {morph.convolution} to {morph.channels} channels"
        case Heads():
            return f"{morph.heads} heads of {morph.attention}"
        case Skip():
            return f"skip from {morph.source} to {morph.target}"
        case Kernel():
            return f"kernel of {morph.convolution} to {morph.kernel}×{morph.kernel}"


def _write(path: Path, text: str) -> None:
    with explained(path, "cannot be written", "Choose another file"):
        write_named(path, text.encode())
    print(f"written: {path}")
