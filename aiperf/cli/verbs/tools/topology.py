"""`python -m aiperf topology`: print links, bisection and all-reduce times of a network."""

from __future__ import annotations

import argparse

from aiperf.cli.arguments import add_json, add_number
from aiperf.cli.output import print_result
from aiperf.errors import conflict

DESCRIPTION = """Computes links, diameter and bisection of a network, and the time of an all-reduce on it with its two bounds.
The figures follow from closed forms (docs/scaling.md). Nothing is measured."""
EXAMPLES = (
    "torus:16x16 --link 62e9 --network resnet50_v1_5",
    "switch:64 --link 12.5e9 --alpha 2e-6 --bytes 1e9 --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topology", metavar="TOPOLOGY", help="torus:XxY[xZ], ring:N, tree:N or switch:N")
    add_number(parser, "--link", "bandwidth of a link in one direction", float, metavar="B/s", least=1, most=1e18)
    add_number(parser, "--alpha", "latency of a message", float, metavar="SECONDS", default=0.0, least=0, most=1e6)
    add_number(parser, "--bytes", "size of the all-reduce", float, least=1, most=1e18)
    parser.add_argument(
        "--network", metavar="NAME_OR_FILE", help="size of the all-reduce: the gradients of this network in FP32"
    )
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.scaling.text import topology_parts
    from aiperf.scaling.topology import as_json, network_of

    figures = as_json(network_of(arguments.topology), arguments.link, arguments.alpha, _size(arguments))
    print_result("aiperf-topology", figures, topology_parts(arguments.topology, figures), arguments)
    return 0


def _size(arguments: argparse.Namespace) -> float | None:
    size: float | None = arguments.bytes
    if arguments.network is None:
        return size
    if size is not None:
        raise conflict("--bytes", "--network")
    from aiperf.cli.verbs.tools.flops import graph_of
    from morphism import cost

    whole = argparse.Namespace(graph=arguments.network, image=None, channels=None, classes=None)
    return 4.0 * cost(graph_of(whole)).parameters
