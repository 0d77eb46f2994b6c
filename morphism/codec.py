"""Graph files (docs/graph-format.md), written and read. They may be hostile: size, structure and rules are checked in turn."""

import json
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args

from morphism import ops
from morphism.graph import LARGEST_GRAPH, Graph, Node
from morphism.morphs import JSON

FORMAT = "morphism-graph"
VERSION = 1
LARGEST_FILE = 4 * 2**20  # in bytes. A graph of LARGEST_GRAPH nodes needs about half of it
LARGEST_NUMBER = 2**63

_OPS: dict[str, type[ops.Op]] = {re.sub("(?!^)(?=[A-Z])", "_", op.__name__).lower(): op for op in get_args(ops.Op)}
"""Operations by their names in files, which follow from the names of the classes."""
_WORDS = {op: word for word, op in _OPS.items()}


class DamagedGraphFile(ValueError):
    """Error for a graph file that cannot be read. The message names the place, the value and the rule."""


def encode(graph: Graph) -> str:
    """Return the text of a graph file (JSON, current version of the format): one node per line, with every field."""
    lines = []
    for node in graph.nodes:
        line: dict[str, JSON] = {"name": node.name, "op": _WORDS[type(node.op)]}
        line |= {field.name: getattr(node.op, field.name) for field in fields(node.op)}
        line["inputs"] = [graph.nodes[entering].name for entering in node.inputs]
        lines.append(json.dumps(line))
    nodes = ",\n".join(lines)
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "nodes": [\n{nodes}\n]}}\n'


def decode(text: str) -> Graph:
    """Return the graph in the text of a graph file of any version up to the current one.

    Raise DamagedGraphFile if the text is no such file or if its graph breaks a rule.
    """
    document = parsed(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DamagedGraphFile(
            f'a graph file must be an object with "format": "{FORMAT}". This one is {_shown(document)}: give a graph file'
        )
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise DamagedGraphFile(
            f"version must be an integer of at least 1. This file has {_shown(version)}: set it to {VERSION}"
        )
    if version > VERSION:
        raise DamagedGraphFile(
            f"this program reads versions up to {VERSION}. This file has version {version}: use a newer program"
        )
    return _version_1(document)


def load(path: Path | str) -> Graph:
    """Read a graph file and return its graph. The file has at most LARGEST_FILE (4 MiB) bytes.

    Raise DamagedGraphFile, with the path, if the file is larger, is no graph file, or if its graph breaks a rule. Raise
    OSError if the file cannot be read.
    """
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise DamagedGraphFile(
            f"{str(path)!r}: a graph file has {LARGEST_FILE} bytes at most, this one more: give a smaller network"
        )
    try:
        return decode(content.decode("utf-8"))
    except UnicodeDecodeError as offence:
        raise DamagedGraphFile(f"{str(path)!r}: a graph file is UTF-8 ({offence}): save it as UTF-8") from offence
    except DamagedGraphFile as offence:
        raise DamagedGraphFile(f"{str(path)!r}: {offence}") from offence


def _version_1(document: dict[str, JSON]) -> Graph:
    _known(document, "the file", {"format", "version", "nodes"})
    encoded = document.get("nodes")
    if not isinstance(encoded, list) or len(encoded) > LARGEST_GRAPH:
        raise DamagedGraphFile(
            f"nodes must be a list of at most {LARGEST_GRAPH} nodes. This file has {_shown(encoded)}: correct it"
        )
    nodes: list[Node] = []
    indices: dict[str, int] = {}
    for number, line in enumerate(encoded):
        if not isinstance(line, dict):
            raise DamagedGraphFile(f"node {number}: a node must be an object. This one is {_shown(line)}: correct it")
        name = line.get("name")
        if not isinstance(name, str):
            raise DamagedGraphFile(f"node {number}: name must be a string. This one is {_shown(name)}: correct it")
        try:
            node = Node(name, _op(line, _shown(name)), _inputs(line, _shown(name), indices))
        except ops.IllegalGraph as offence:
            raise DamagedGraphFile(f"node {number}, {_shown(name)}: {offence}") from offence
        if name in indices:
            raise DamagedGraphFile(f"node {number}: names must be unique. Two nodes have the name {name!r}: rename one")
        indices[name] = number
        nodes.append(node)
    try:
        return Graph(tuple(nodes))
    except ops.IllegalGraph as offence:
        raise DamagedGraphFile(str(offence)) from offence


def _op(line: dict[str, JSON], where: str) -> ops.Op:
    name = line.get("op")
    if not isinstance(name, str) or name not in _OPS:
        raise DamagedGraphFile(
            f"node {where}: op must be one of {', '.join(_OPS)}. This one is {_shown(name)}: use one of them"
        )
    op: Callable[..., ops.Op] = _OPS[name]
    known = fields(_OPS[name])
    _known(line, f"node {where}", {"name", "op", "inputs", *(field.name for field in known)})
    given: dict[str, JSON] = {}
    for field in known:
        if field.name in line:
            value = line[field.name]
            # a file written by hand may have 0; Dropout accepts only a float
            if not isinstance(value, int | float) or abs(value) > LARGEST_NUMBER:
                raise DamagedGraphFile(
                    f"node {where}: {field.name} must be a number of at most 2^63. This one is {_shown(value)}: correct it"
                )
            given[field.name] = float(value) if field.type is float and type(value) is int else value
        elif field.default is MISSING:
            raise DamagedGraphFile(f"node {where}: a {name} must have a {field.name}. Add it")
    return op(**given)  # the constructor checks every value: whole numbers within bounds, no bool, no NaN


def _inputs(line: dict[str, JSON], where: str, indices: dict[str, int]) -> tuple[int, ...]:
    names = line.get("inputs", [])
    if not isinstance(names, list):
        raise DamagedGraphFile(f"node {where}: inputs must be a list of names. This one is {_shown(names)}: correct it")
    inputs = []
    for name in names:
        if not isinstance(name, str) or name not in indices:
            raise DamagedGraphFile(
                f"node {where}: inputs must name earlier nodes, without a cycle. No earlier node is named {_shown(name)}: "
                "move that node before this one"
            )
        inputs.append(indices[name])
    return tuple(inputs)


def _known(document: dict[str, JSON], where: str, known: set[str]) -> None:
    unknown = sorted(set(document) - known)
    if unknown:
        raise DamagedGraphFile(
            f"{where}: the fields are {', '.join(sorted(known))}. {_shown(unknown[0])} is none of them: remove it"
        )


def parsed(text: str) -> JSON:
    """Return the JSON value in the text of a graph file. The fields of the value are not checked.

    Raise DamagedGraphFile if the text has more than LARGEST_FILE (4,194,304) characters, is no JSON or is nested too deeply.
    """
    if len(text) > LARGEST_FILE:
        raise DamagedGraphFile(
            f"a graph file has {LARGEST_FILE} characters at most, this one {len(text)}: give a smaller network"
        )
    try:
        document: JSON = json.loads(text)
    except RecursionError as offence:
        raise DamagedGraphFile(
            "a graph file has at most four levels. This one has too many: give a graph file"
        ) from offence
    except ValueError as offence:
        raise DamagedGraphFile(f"this is no JSON ({offence}): give a graph file") from offence
    return document


def _shown(value: object) -> str:
    """Return a shortened value for a message. A hostile file may be large, and deep enough to break repr."""
    match value:
        case dict():
            return f"an object of {len(value)} fields"
        case list():
            return f"a list of {len(value)}"
        case str() if len(value) > 60:
            return repr(value[:59] + "…")
        case _:
            shown = repr(value)
            return shown if len(shown) <= 60 else shown[:59] + "…"
