"""Network interfaces and InfiniBand ports of the host, with driver and PCIe link, and the interface of an address."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from aiperf.system.description.values import Part, number, text, unread


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An interface, or a port of an InfiniBand adapter."""

    name: str
    kind: str
    """'network', 'virtual network' (without a device, as in a container), or the port's link layer."""
    bits_per_second: int | None
    """None if the kernel reports no speed."""
    state: str | None
    described: str | None = None
    """The port's rate as the kernel reports it: '100 Gb/sec (4X EDR)'."""


def links(sys: Path = Path("/sys")) -> tuple[Link, ...]:
    """Return the interfaces with a device, or all except loopback if none has one, followed by the ports."""
    interfaces = [path for path in sorted((sys / "class/net").glob("*")) if path.name != "lo" and path.is_dir()]
    physical = [path for path in interfaces if (path / "device").exists()]
    return (*(_interface(path) for path in physical or interfaces), *_ports(sys / "class/infiniband"))


def interface_of(address: str) -> str:
    """Return the interface of this host that has an IPv4 address.

    Raises:
        OSError: if no interface has the address.
    """
    if ipaddress.ip_address(address).is_loopback:
        return "lo"  # loopback accepts all of 127.0.0.0/8
    names = _addresses()
    if address not in names:
        raise OSError(
            f"no interface of this host has {address}: found "
            f"{', '.join(f'{name} with {each}' for each, name in names.items()) or 'none'}. Ranks of several hosts connect "
            "over the interface with the cluster's address"
        )
    # an additional address of an interface may have its own name: eth0:1
    return names[address].partition(":")[0]


def _addresses() -> dict[str, str]:
    """Return the interface's name for each IPv4 address of this host."""
    return {
        each.address: name
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if each.family == socket.AF_INET
    }


def _interface(path: Path) -> Link:
    megabits = _read(path / "speed")  # -1 or an error if the driver reports none or the link is down
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
    except OSError:  # missing file, or EINVAL for a link that is down
        return None


_CLASSES = {"0x02": "network", "0x03": "display", "0x12": "accelerator", "0x01": "storage"}


def network(sys: Path) -> list[Part] | str:
    """Return each interface and port, without addresses."""
    return [_link(sys, link) for link in links(sys)] or unread("the kernel shows no interface but loopback")


def _link(sys: Path, link: Link) -> Part:
    rate = unread("the kernel gives no speed") if link.bits_per_second is None else link.bits_per_second
    part: Part = {
        "name": link.name,
        "kind": link.kind,
        "bits_per_second": rate,
        "state": link.state or unread("no word"),
    }
    adapter, _, port = link.name.partition(" port ")
    if port:
        folder = sys / "class/infiniband" / adapter
        part |= {
            "described": link.described or unread("no rate"),
            "firmware": text(folder / "fw_ver"),
            "board": text(folder / "board_id"),
        }
    else:
        folder = sys / "class/net" / adapter
        part |= {"mtu": number(folder / "mtu")}
    if (folder / "device").exists():
        part |= {"driver": _driver(folder / "device"), "numa_node": text(folder / "device/numa_node")} | _pci(
            folder / "device"
        )
    return part


def pci(sys: Path) -> list[Part] | str:
    """Return accelerators, network and storage controllers with their current and maximum PCIe links."""
    devices = []
    for device in sorted((sys / "bus/pci/devices").glob("*")):
        kind = _CLASSES.get(text(device / "class")[:4])
        if kind is not None:
            model = f"{text(device / 'vendor')}:{text(device / 'device')}"
            devices.append(
                {
                    "name": device.name,
                    "kind": kind,
                    "model": model,
                    "driver": _driver(device),
                    "numa_node": text(device / "numa_node"),
                }
                | _pci(device)
            )
    return devices or unread("the kernel shows no such device")


def _pci(device: Path) -> Part:
    if not (device / "max_link_speed").exists():
        return {"pcie": unread("it tells no link")}
    now, most = (
        f"{text(device / f'{when}_link_speed')} ×{text(device / f'{when}_link_width')}" for when in ("current", "max")
    )
    # The link of an idle accelerator is slower than that of a busy one, so its current speed does not describe the node.
    return {"pcie": most, "pcie_width_now": now.rpartition("×")[2]}


def _driver(device: Path) -> str:
    driver = device / "driver"
    return driver.resolve().name if driver.exists() else unread("no driver holds it")
