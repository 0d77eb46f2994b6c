"""Description of a whole node and its hash. Equal nodes have one hash, independent of their names.

The description contains nothing that differs between equal nodes: no name, address, serial number, boot, clock or free space.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiperf.system.describe import versions
from aiperf.system.description import machine
from aiperf.system.description.accelerators import accelerators
from aiperf.system.description.memory import memory
from aiperf.system.description.network import network, pci
from aiperf.system.description.processors import processors
from aiperf.system.description.values import Part, unread
from aiperf.system.storage import storage


def describe_node(
    folders: Mapping[str, Path], environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> Part:
    """Describe this node. `folders`: folders of the run by purpose. `root`: folder that contains /proc and /sys."""
    proc, sys = root / "proc", root / "sys"
    return {
        "maker": machine.maker(sys),
        "firmware": machine.firmware(sys),
        "processors": processors(proc, sys),
        "memory": memory(proc, sys),
        "accelerators": accelerators(),
        "pci": pci(sys),
        "network": network(sys),
        "storage": [_storage(each) for each in storage(folders, proc / "self/mountinfo")],
        "kernel": machine.kernel(proc, sys),
        "libraries": {"python": platform.python_version(), **versions()},
        "container": machine.container_of(environment, root, proc),
        "limits": machine.limits(),
        "environment": machine.variables(environment),
    }


def _storage(storage: object) -> Part:
    part: Part = msgspec.to_builtins(storage)
    size = part.pop("size_bytes", None)
    part["gibibytes"] = unread(part.get("why_not", "not reported")) if size is None else round(size / 2**30)
    return {name: unread("the kernel does not say") if value is None else value for name, value in part.items()}


def hash_of(description: Part) -> str:
    """Return the SHA-256 of the description as JSON with sorted keys."""
    return hashlib.sha256(msgspec.json.encode(description, order="deterministic")).hexdigest()
