"""`python -m aiperf flops`: print the cost of a network as a table in the form of Table III of the paper."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiperf.cli.arguments import add_json, add_number
from aiperf.cli.output import print_result
from aiperf.data.description import IMAGENET_TRAINING_IMAGES, IMAGENET_VALIDATION_IMAGES
from aiperf.errors import AiperfError, BadConfiguration, conflict
from aiperf.files import given_path, what_is_wrong_with
from aiperf.nearest import nearest
from aiperf.page.section import Items, Part, Table, rows
from aiperf.scaling.arrays import array_layers
from aiperf.scaling.text import array_json, array_table
from aiperf.units import IMAGE, SEQUENCE, count, operations, size
from morphism import (
    DETECTORS,
    KINDS,
    STARTS,
    Cost,
    DamagedGraphFile,
    Detector,
    Graph,
    IllegalGraph,
    TokenNumbers,
    UnknownStart,
    cost,
    encode,
    load,
    start,
)
from morphism.detector import FASTER_RCNN_R50, TensorOperations

DESCRIPTION = f"""Counts the floating-point operations of a network per {IMAGE.one} by Tables I and II of the AIPerf paper.
Of the detectors {" and ".join(DETECTORS)} it counts the tensor operations per {IMAGE.one}
and per region."""
EXAMPLES = (
    "resnet50_v1",
    "resnet20 --json",
    "resnet20 --measured",
    "grown.json --batch 64",
    "resnet50_v1_5 --array 128",
    f"{FASTER_RCNN_R50} --height 768 --width 1152",
)
DEFAULT_BATCH = 32
MEASURED_BATCH = 2
PAPERS_GFLOP = 691
"""Training operations of an image in Table 5 of HPC AI500. Its network is not published."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_arguments(parser)
    add_number(
        parser,
        "--batch",
        f"{IMAGE.many} per accelerator, for the training memory",
        default_in_words=str(DEFAULT_BATCH),
        least=1,
        most=1_000_000_000,
    )
    for option, usual in (("--height", 768), ("--width", 1152)):
        meaning = f"{option[2:]} of the {IMAGE.many} of a detector in pixels"
        add_number(parser, option, meaning, least=32, most=16384, default_in_words=str(usual))
    add_number(parser, "--array", "edge of a matrix unit: print the share that the layers fill", least=1, most=65536)
    parser.add_argument("--measured", action="store_true", help="compare with the counts of torch and of the processor")
    add_json(parser, f": exact figures per {IMAGE.one}")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    is_detector = arguments.graph in DETECTORS
    foreign = ("image", "batch", "array", "measured") if is_detector else ("height", "width")
    if wrong := [f"--{option}" for option in foreign if getattr(arguments, option) not in (None, False)]:
        raise conflict(wrong[0], arguments.graph, "Leave it out")
    if is_detector:
        _count_detector(arguments)
        return 0
    graph = graph_of(arguments)
    counted = cost(graph)
    batch = arguments.batch or DEFAULT_BATCH
    layers = () if arguments.array is None else array_layers(graph, arguments.array)
    figures = as_json(counted, batch) | array_json(layers, arguments.array)
    compared: list[str] = []
    if arguments.measured:
        figures["measured"], compared = _measured(graph, counted)
    parts = (
        *_parts(arguments.graph, graph, counted, batch),
        array_table(layers, arguments.array),
        Items(tuple(compared)),
    )
    print_result("aiperf-flops", figures, parts, arguments)
    return 0


def as_json(counted: Cost, batch: int) -> dict[str, Any]:
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


def _parts(name: str, graph: Graph, counted: Cost, batch: int) -> tuple[Part, ...]:
    counts = {
        kind.replace("_", " "): (counted.by_kind[kind].forward_flops, counted.by_kind[kind].backward_flops)
        for kind in KINDS
        if counted.by_kind[kind].forward_flops or counted.by_kind[kind].backward_flops
    }
    counts["total"] = counted.forward_flops, counted.backward_flops
    counts["tensor only (for MFU)"] = counted.tensor_forward_flops, counted.tensor_backward_flops
    forward = IMAGENET_TRAINING_IMAGES * counted.forward_flops
    backward = IMAGENET_TRAINING_IMAGES * counted.backward_flops
    validation = IMAGENET_VALIDATION_IMAGES * counted.forward_validation_flops
    reads, tensor = graph.shapes[0], counted.tensor_forward_flops + counted.tensor_backward_flops
    if isinstance(reads, TokenNumbers):
        common = 6 * counted.parameters * reads.length
        amount = (
            f"6·N·T with all {count(counted.parameters)} parameters and {count(reads.length)} tokens: {common:.4e}, "
            f"{common / tensor:.4f} × tensor only"
        )
    else:
        amount = (
            f"an epoch of ImageNet: {forward:.4e} forward + {backward:.4e} backward ({count(IMAGENET_TRAINING_IMAGES)} "
            f"training images) + {validation:.4e} ({count(IMAGENET_VALIDATION_IMAGES)} validation images) = "
            f"{forward + backward + validation:.4e} ({operations(forward + backward + validation)})"
        )
    texts = (
        amount,
        f"parameters: {count(counted.parameters)} · training memory at batch {batch}: "
        f"{size(counted.training_memory(batch, 4))} in FP32, {size(counted.training_memory(batch, 2))} in 16 bit",
    )
    noun = SEQUENCE if isinstance(reads, TokenNumbers) else IMAGE
    return _table(f"{name}: operations per {noun.one}", "layer", counts), Items(texts)


def _measured(graph: Graph, counted: Cost) -> tuple[dict[str, Any], list[str]]:
    """Return the operations of one training step per image by torch and by the processor's counters, as JSON and as texts."""
    from aiperf.bops.instructions import NotMeasured, floating_point_operations
    from aiperf.train.counted_step import counted_by_torch

    forward, backward = (each // MEASURED_BATCH for each in counted_by_torch(graph, MEASURED_BATCH))
    command = (sys.executable, "-m", "aiperf.train.counted_step", str(MEASURED_BATCH))
    tensor = counted.tensor_forward_flops + counted.tensor_backward_flops
    by_torch = {"forward_flops": forward, "backward_flops": backward}
    texts = [f"torch's counter: {forward + backward:.4e}, {(forward + backward) / tensor:.4f} × tensor only"]
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(encode(graph))
        file.flush()
        try:
            # The difference leaves out the start of the process.
            one, three = (floating_point_operations([*command, steps], Path(file.name)) for steps in ("1", "3"))
        except NotMeasured as error:
            texts.append(f"processor's counters: not measured: {error}")
            return {"torch": by_torch, "hardware_flops": None, "not_measured": str(error)}, texts
    hardware = (three - one) // (2 * MEASURED_BATCH)
    ratio = hardware / (counted.forward_flops + counted.backward_flops)
    texts.append(f"processor's counters, FP32 step: {hardware:.4e}, {ratio:.4f} × total")
    return {"torch": by_torch, "hardware_flops": hardware, "not_measured": ""}, texts


def _table(caption: str, of: str, counts: Mapping[str, tuple[int, int]]) -> Table:
    return rows(
        "operations",
        caption,
        (of, ">forward", ">backward", ">ratio", ">total"),
        [(name, *_figures(*each)) for name, each in counts.items()],
    )


def _figures(forward: int, backward: int) -> tuple[str, str, str, str]:
    ratio = "–" if not forward else f"{backward / forward:.{4 if backward / forward >= 0.0005 else 5}f}"
    return (
        f"{forward:.4e}" if forward else "0",
        f"{backward:.4e}" if backward else "0",
        ratio if backward else "0",
        f"{forward + backward:.4e}",
    )


def _count_detector(arguments: argparse.Namespace) -> None:
    classes = arguments.classes
    given = {
        "height": arguments.height,
        "width": arguments.width,
        "channels": arguments.channels,
        "outputs": None if classes is None else classes + 1,
    }
    try:
        detector = Detector(arguments.graph, **{name: value for name, value in given.items() if value is not None})
    except IllegalGraph as error:
        raise AiperfError(str(error)) from error
    print_result("aiperf-detector", detector_as_json(detector), _parts_of_detector(detector), arguments)


def detector_as_json(detector: Detector) -> dict[str, Any]:
    counted, regions = detector.counts, detector.sizes.regions
    return {
        "tensor": asdict(counted.per_image),
        "per_region": asdict(counted.per_region),
        "regions": regions,
        "with_regions": asdict(counted.with_regions(regions)),
        "parameters": counted.parameters,
        "parameter_tensors": counted.tensors,
    }


def _parts_of_detector(detector: Detector) -> tuple[Part, ...]:
    counted, regions = detector.counts, detector.sizes.regions
    parts: dict[str, TensorOperations] = {
        f"{IMAGE.one}: backbone, FPN, RPN": counted.per_image,
        "region: head": counted.per_region,
        f"{IMAGE.one} with {regions} regions": counted.with_regions(regions),
    }
    counts = {name: (each.forward_flops, each.backward_flops) for name, each in parts.items()}
    texts = [f"parameters: {count(counted.parameters)} in {counted.tensors} tensors"]
    if detector.network == FASTER_RCNN_R50:
        texts.append(
            f"The paper prints {PAPERS_GFLOP} GFLOP per {IMAGE.one} for training. They belong to another network: do not "
            "compare them."
        )
    return _table(f"{detector.network}: tensor operations", "part", counts), Items(tuple(texts))


def add_graph_arguments(parser: argparse.ArgumentParser) -> None:
    """Add to a parser the arguments that select a network: its name or file, --image, --channels and --classes."""
    parser.add_argument("graph", metavar="NAME_OR_FILE", help=f"{', '.join(STARTS)}, or a graph's JSON file")
    for option, meaning, most in (
        ("--image", "edge of the images in pixels", 16384),
        ("--channels", "channels of the images", 65536),
        ("--classes", "number of classes", 65536),
    ):
        add_number(parser, option, meaning, least=1, most=most, default_in_words="what the network was made for")


def graph_of(arguments: argparse.Namespace) -> Graph:
    """Create the selected network, or read it from a JSON file. A size that is None has the network's default."""
    name: str = arguments.graph
    sizes = {"image": arguments.image, "channels": arguments.channels, "classes": arguments.classes}
    try:
        wrong = what_is_wrong_with(given_path(name))
        if wrong == "not there" or (wrong is not None and name in STARTS):
            return start(name, **sizes)
        if wrong is not None:
            raise BadConfiguration(
                f"a graph is {', '.join(STARTS)}, or a JSON file, but found {name!r}, which is {wrong}: name one of these"
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
