"""The graph that a word of the command line names: a starting graph, or a file."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from aiperf.errors import AiperfError, BadConfiguration
from morphism import STARTS, DamagedGraphFile, Graph, IllegalGraph, UnknownStart, load, start


def add_graph_arguments(parser: argparse.ArgumentParser) -> None:
    """What says which graph is meant."""
    parser.add_argument("graph", metavar="NAME_OR_FILE", help=f"{', '.join(STARTS)}, or a graph's JSON file")
    parser.add_argument(
        "--image", type=int, metavar="N", help="edge of the images in pixels (default: what the network was made for)"
    )
    parser.add_argument(
        "--channels", type=int, metavar="N", help="channels of the images (default: what the network was made for)"
    )
    parser.add_argument(
        "--classes", type=int, metavar="N", help="number of classes (default: what the network was made for)"
    )


def graph_of(arguments: argparse.Namespace) -> Graph:
    """The graph that the arguments name.

    Raises:
        AiperfError: there is none, or it cannot be built so.
    """
    name: str = arguments.graph
    sizes = {"image": arguments.image, "channels": arguments.channels, "classes": arguments.classes}
    try:
        if not Path(name).is_file():
            return start(name, **sizes)
        given = [f"--{option}" for option, value in sizes.items() if value is not None]
        if given:
            raise BadConfiguration(
                f"a graph's file says its own sizes; leave {', '.join(given)} out, or change '{name}'"
            )
        return load(name)
    except UnknownStart as error:
        near = difflib.get_close_matches(name, STARTS, n=1, cutoff=0.4)
        raise AiperfError(f"{error}{f'; did you mean {near[0]!r}?' if near else ''}") from error
    except (IllegalGraph, DamagedGraphFile) as error:
        raise AiperfError(str(error)) from error
