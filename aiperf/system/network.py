"""The host's network: its interfaces and InfiniBand ports with their speed, as the kernel says in /sys/class; and which
interface has an address."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An interface, or a port of an InfiniBand adapter."""

    name: str
    kind: str
    """'network', 'virtual network' (no device of its own: a container sees nothing else), or the port's link layer."""
    bits_per_second: int | None
    """None: the kernel gives no speed."""
    state: str | None
    described: str | None = None
    """The port's rate in the kernel's words: '100 Gb/sec (4X EDR)'."""


def links(sys: Path = Path("/sys")) -> tuple[Link, ...]:
    """Interfaces that have a device, or where there is none all others but loopback; then ports."""
    interfaces = [path for path in sorted((sys / "class/net").glob("*")) if path.name != "lo" and path.is_dir()]
    physical = [path for path in interfaces if (path / "device").exists()]
    return (*(_interface(path) for path in physical or interfaces), *_ports(sys / "class/infiniband"))


def interface_of(address: str) -> str:
    """The interface of this host that has an IPv4 address.

    Raises:
        OSError: none has it.
    """
    if ipaddress.ip_address(address).is_loopback:
        return "lo"  # all of 127.0.0.0/8 is its, whatever addresses it shows
    there = _addresses()
    if address not in there:
        raise OSError(
            f"the ranks of several hosts meet over the interface that has the cluster's address; no interface of this host has "
            f"{address}: found {', '.join(f'{name} with {where}' for where, name in there.items()) or 'none'}"
        )
    # an address that was added to an interface may have a name of its own: eth0:1
    return there[address].partition(":")[0]


_SIOCGIFCONF = 0x8912
_RECORD_BYTES = 40


def _addresses() -> dict[str, str]:
    """The interface's name for each IPv4 address of this host (netdevice(7))."""
    room = array.array("B", bytes(_RECORD_BYTES * 1024))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        where = room.buffer_info()
        answer = fcntl.ioctl(asking, _SIOCGIFCONF, struct.pack("iP", where[1], where[0]))
    records = room.tobytes()[: struct.unpack("iP", answer)[0]]
    found = {}
    for at in range(0, len(records), _RECORD_BYTES):
        name = records[at : at + 16].partition(b"\0")[0].decode()
        found[socket.inet_ntoa(records[at + 20 : at + 24])] = name
    return found


def _interface(path: Path) -> Link:
    megabits = _read(path / "speed")  # -1 or an error where the driver does not say, or the link is down
    speed = int(megabits) * 1_000_000 if megabits is not None and megabits.isdecimal() and int(megabits) else None
    kind = "network" if (path / "device").exists() else "virtual network"
    return Link(name=path.name, kind=kind, bits_per_second=speed, state=_read(path / "operstate"))


def _ports(adapters: Path) -> Iterator[Link]:
    for port in sorted(adapters.glob("*/ports/*")):
        described, state = _read(port / "rate"), _read(port / "state")
        gigabits = re.match(r"([0-9.]+) Gb/sec", described or "")
        yield Link(
            name=f"{port.parents[1].name} port {port.name}",
            kind=_read(port / "link_layer") or "InfiniBand",
            bits_per_second=round(float(gigabits[1]) * 1e9) if gigabits else None,
            state=None if state is None else state.partition(": ")[2] or state,  # '4: ACTIVE'
            described=described,
        )


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip() or None
    except OSError:  # not there, or EINVAL of a link that is down: not known
        return None
