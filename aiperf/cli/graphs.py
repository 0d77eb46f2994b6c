"""Arguments that select a network: the name of a starting network, or a file."""

from __future__ import annotations

import argparse

from aiperf.cli.arguments import add_number
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.files import given_path, what_is_wrong_with
from aiperf.nearest import nearest
from morphism import STARTS, DamagedGraphFile, Graph, IllegalGraph, UnknownStart, load, start


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
