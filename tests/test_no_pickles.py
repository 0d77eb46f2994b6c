"""No pickle comes in from the network but through Ray's own channel, which asks for the token: our code opens no other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("aiperf", "cluster", "searchers", "morphism")
UNPICKLERS = {
    ("pickle", "load"), ("pickle", "loads"), ("pickle", "Unpickler"),
    ("cloudpickle", "load"), ("cloudpickle", "loads"),
    ("marshal", "load"), ("marshal", "loads"), ("shelve", "open"), ("dill", "loads"), ("joblib", "load"),
    ("connection", "Listener"), ("connection", "Client"), ("managers", "BaseManager"), ("managers", "SyncManager"),
    ("socketserver", "TCPServer"), ("asyncio", "start_server"), ("socket", "create_server"), ("server", "HTTPServer"),
    ("rpc", "init_rpc"), ("xmlrpc", "SimpleXMLRPCServer"),
}  # fmt: skip
NAMES = {name for _, name in UNPICKLERS} - {"load", "loads", "open"}
OBJECTS = {
    "allgather_object", "broadcast_object", "broadcast_object_fn", "broadcast_optimizer_state",
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
    "send_object_list", "recv_object_list", "RendezvousServer", "BasicDriverService", "BasicTaskService",
}  # fmt: skip
"""Functions of Horovod and torch.distributed that send pickled objects to other ranks, or serve such functions."""

KNOWN = {
    "aiperf/drive/ray/generators.py": "the driver's own packets, within Ray's calls and object store: behind the token",
    "aiperf/drive/ray/cluster/ray_environment.py": "tries the loopback interface, and reads nothing",
    "aiperf/train/ranks/rendezvous.py": "admits the worker's own hosts, and takes its words as bytes",
}
"""Exceptions, each with the reason."""


def offences(source: str) -> list[str]:
    """Calls and imports that unpickle, or that serve a socket which could."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module) | ast.Attribute(attr=module), attr=name)):
                if (module, name) in UNPICKLERS:
                    found.append(f"{module}.{name}")
                if (module, name) == ("torch", "load") and not _weights_only(node):
                    found.append("torch.load without weights_only=True")
            case ast.Attribute(attr=name) if name in OBJECTS:
                found.append(name)
            case ast.ImportFrom(module=str(module), names=names):
                found += [
                    f"{module}.{alias.name}"
                    for alias in names
                    if (module.rpartition(".")[2], alias.name) in UNPICKLERS or alias.name in NAMES | OBJECTS
                ]
    return found


def _weights_only(call: ast.Call) -> bool:
    return any(
        word.arg == "weights_only" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords
    )


@pytest.mark.parametrize(
    "line",
    [
        "import pickle; pickle.loads(x)",
        "from pickle import loads",
        "from multiprocessing.connection import Listener",
        "import multiprocessing.connection; multiprocessing.connection.Client(x)",
        "import torch; torch.load(f)",
        "import torch; torch.load(f, weights_only=False)",
        "from multiprocessing.managers import BaseManager",
        "hvd.broadcast_object(x)",
        "from torch.distributed import broadcast_object_list",
    ],
)
def test_unpickling_code_is_detected(line: str) -> None:
    """That the test below can fail."""
    assert offences(line)


def test_our_code_unpickles_nothing_from_sockets_or_files() -> None:
    """Pipes between a process and its own child are no sockets of the network.

    They (multiprocessing.connection.Pipe) have no address, and carry this release's own messages.
    """
    files = [file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py")]
    assert len(files) > 100

    found = {str(file.relative_to(REPOSITORY)): reasons for file in files if (reasons := offences(file.read_text()))}

    assert {file for file in found if file not in KNOWN} == set(), found
    assert set(KNOWN) <= set(found), "what unpickles no more is no exception any more"
