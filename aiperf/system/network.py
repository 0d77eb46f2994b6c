"""The host's network: its interfaces and InfiniBand ports with their speed, as the kernel says."""

from __future__ import annotations

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


_SIOCGIFADDR = 0x8915  # linux/sockios.h


def interface_of(address: str) -> str:
    """The interface that carries this IPv4 address on this host. Raises OSError where none does."""
    if ipaddress.ip_address(address).is_loopback:
        return "lo"  # all of 127.0.0.0/8 is its, though it shows one
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has none
                continue
            if socket.inet_ntoa(told[20:24]) == address:
                return name
    raise OSError(f"no interface of this host carries {address}")
