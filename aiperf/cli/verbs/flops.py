"""`python -m aiperf flops`: print the cost of a network as a table in the form of Table III of the paper."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from aiperf.cli.arguments import add_number
from aiperf.data.description import IMAGENET_TRAINING_IMAGES, IMAGENET_VALIDATION_IMAGES
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.files import given_path, what_is_wrong_with
from aiperf.nearest import nearest
from aiperf.scaling.arrays import array_layers
from aiperf.scaling.text import array_json, array_lines
from aiperf.units import operations, size
from morphism import KINDS, STARTS, Cost, DamagedGraphFile, Graph, IllegalGraph, UnknownStart, cost, load, start

DESCRIPTION = "Counts the floating-point operations of a network per image by Tables I and II of the AIPerf paper."
EXAMPLES = ("resnet50_v1", "resnet20 --json", "grown.json --batch 64", "resnet50_v1_5 --array 128")
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_arguments(parser)
    add_number(
        parser, "--batch", "images per accelerator, for the training memory", default=32, least=1, most=1_000_000_000
    )
    add_number(
        parser,
        "--array",
        "edge of a matrix unit: print the share that the layers fill",
        least=1,
        most=65536,
    )
    parser.add_argument("--json", action="store_true", help="print JSON: exact figures per image")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    """Print the table or JSON and return the exit status."""
    graph = graph_of(arguments)
    counted = cost(graph)
    layers = () if arguments.array is None else array_layers(graph, arguments.array)
    if arguments.json:
        print(json.dumps(as_json(counted, arguments.batch) | array_json(layers, arguments.array), indent=2))
    else:
        _print(arguments.graph, counted, arguments.batch)
        print("".join(f"{line}\n" for line in array_lines(layers, arguments.array)), end="")
    return 0


def as_json(counted: Cost, batch: int) -> dict[str, Any]:
    """Return the content of --json: exact operations per image."""
    return {
        "layers": {
            kind: {"forward_flops": layer.forward_flops, "backward_flops": layer.backward_flops}
            for kind, layer in counted.by_kind.items()
        },
        "total": {
            "forward_flops": counted.forward_flops,
            "backward_flops": counted.backward_flops,
            "forward_validation_flops": counted.forward_validation_flops,
        },
        "tensor": {"forward_flops": counted.tensor_forward_flops, "backward_flops": counted.tensor_backward_flops},
        "parameters": counted.parameters,
        "training_memory_bytes": {
            "batch": batch,
            "fp32": counted.training_memory(batch, 4),
            "16_bit": counted.training_memory(batch, 2),
        },
    }


def _print(name: str, counted: Cost, batch: int) -> None:
    table = Table(title=f"{name}: operations per image", title_style="bold", title_justify="left", box=box.SIMPLE)
    table.add_column("layer", no_wrap=True)
    for heading in ("forward", "backward", "ratio", "total"):
        table.add_column(heading, justify="right")
    for kind in KINDS:
        layer = counted.by_kind[kind]
        if layer.forward_flops or layer.backward_flops:
            table.add_row(kind.replace("_", " "), *_figures(layer.forward_flops, layer.backward_flops))
    table.add_section()
    table.add_row("total", *_figures(counted.forward_flops, counted.backward_flops), style="bold")
    table.add_row(
        "tensor only (for MFU)", *_figures(counted.tensor_forward_flops, counted.tensor_backward_flops), style="dim"
    )
    console = Console()
    console.print(table)
    forward = IMAGENET_TRAINING_IMAGES * counted.forward_flops
    backward = IMAGENET_TRAINING_IMAGES * counted.backward_flops
    validation = IMAGENET_VALIDATION_IMAGES * counted.forward_validation_flops
    console.print(
        f"an epoch of ImageNet: {forward:.4e} forward + {backward:.4e} backward ({IMAGENET_TRAINING_IMAGES:,} training images) "
        f"+ {validation:.4e} ({IMAGENET_VALIDATION_IMAGES:,} validation images) = {forward + backward + validation:.4e} "
        f"({operations(forward + backward + validation)})",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"parameters: {counted.parameters:,} · training memory at batch {batch}: {size(counted.training_memory(batch, 4))} "
        f"in FP32, {size(counted.training_memory(batch, 2))} in 16 bit",
        highlight=False,
        soft_wrap=True,
    )


def _figures(forward: int, backward: int) -> tuple[str, str, str, str]:
    ratio = f"{backward / forward:.4f}" if backward / forward >= 0.0005 else f"{backward / forward:.5f}"
    return (
        f"{forward:.4e}",
        f"{backward:.4e}" if backward else "0",
        ratio if backward else "0",
        f"{forward + backward:.4e}",
    )


def add_graph_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the network and its sizes."""
    parser.add_argument("graph", metavar="NAME_OR_FILE", help=f"{', '.join(STARTS)}, or a graph's JSON file")
    for option, meaning, most in (
        ("--image", "edge of the images in pixels", 16384),
        ("--channels", "channels of the images", 65536),
        ("--classes", "number of classes", 65536),
    ):
        add_number(parser, option, meaning, least=1, most=most, default_in_words="what the network was made for")


def graph_of(arguments: argparse.Namespace) -> Graph:
    """Return the network that the arguments select.

    Raises:
        AiperfError: an unknown name, a damaged file, or impossible sizes.
    """
    name: str = arguments.graph
    sizes = {"image": arguments.image, "channels": arguments.channels, "classes": arguments.classes}
    try:
        wrong = what_is_wrong_with(given_path(name))
        if wrong == "not there" or (wrong is not None and name in STARTS):
            return start(name, **sizes)
        if wrong is not None:
            raise BadConfiguration(
                f"a graph is {', '.join(STARTS)}, or a JSON file, but found {name!r}, which is {wrong}"
            )
        given = [f"--{option}" for option, value in sizes.items() if value is not None]
        if given:
            raise BadConfiguration(
                f"a graph's file has its own sizes: leave {', '.join(given)} out, or change '{name}'"
            )
        return load(given_path(name))
    except UnknownStart as error:
        raise AiperfError(f"{error}{nearest(name, STARTS)}") from error
    except (IllegalGraph, DamagedGraphFile) as error:
        raise AiperfError(str(error)) from error
