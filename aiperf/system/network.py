"""Network interfaces, InfiniBand ports and PCI devices of a node, without addresses, and the interface of an address."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import psutil

from aiperf.system.node_parts import Part, number, text, unread

_CLASSES = {"0x02": "network", "0x03": "display", "0x12": "accelerator", "0x01": "storage"}


def interface_of(address: str) -> str:
    """Return the name of this host's network interface with the IPv4 address. Raise OSError if there is none."""
    if ipaddress.ip_address(address).is_loopback:
        return "lo"  # loopback accepts all of 127.0.0.0/8
    names: dict[str, str] = {
        each.address: name
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if each.family == socket.AF_INET
    }
    if address not in names:
        raise OSError(
            f"no interface of this host has {address}: found "
            f"{', '.join(f'{name} with {each}' for each, name in names.items()) or 'none'}. Ranks of several hosts connect "
            "over the interface with the cluster's address: start Ray here with --node-ip-address=ADDRESS of an interface"
        )
    # an additional address of an interface may have its own name: eth0:1
    return names[address].partition(":")[0]


def network(sys: Path) -> list[Part] | str:
    """Return the network interfaces, then the InfiniBand ports. Virtual interfaces are included only if there is no other."""
    interfaces = [path for path in sorted((sys / "class/net").glob("*")) if path.name != "lo" and path.is_dir()]
    physical = [path for path in interfaces if (path / "device").exists()]
    ports = sorted((sys / "class/infiniband").glob("*/ports/*"))
    links = [_interface(path) for path in physical or interfaces] + [_port(path) for path in ports]
    return links or unread("the kernel shows no interface but loopback")


def _interface(path: Path) -> Part:
    return {
        "name": path.name,
        "kind": "network" if (path / "device").exists() else "virtual network",
        "megabits_per_second": number(path / "speed"),  # -1 or an error if the driver reports none or the link is down
        "state": text(path / "operstate"),
        "mtu": number(path / "mtu"),
    } | _device(path / "device")


def _port(path: Path) -> Part:
    adapter = path.parents[1]
    return {
        "name": f"{adapter.name} port {path.name}",
        "kind": text(path / "link_layer"),
        "rate": text(path / "rate"),
        "state": text(path / "state"),
        "firmware": text(adapter / "fw_ver"),
        "board": text(adapter / "board_id"),
    } | _device(adapter / "device")


def pci(sys: Path) -> list[Part] | str:
    """Return the accelerators, network and storage controllers with their PCIe links."""
    devices: list[Part] = []
    for device in sorted((sys / "bus/pci/devices").glob("*")):
        kind = _CLASSES.get(text(device / "class")[:4])
        if kind is not None:
            model = f"{text(device / 'vendor')}:{text(device / 'device')}"
            devices.append({"name": device.name, "kind": kind, "model": model} | _device(device))
    return devices or unread("the kernel shows no such device")


def _device(device: Path) -> Part:
    if not device.exists():
        return {}
    driver = device / "driver"
    part: Part = {
        "driver": driver.resolve().name if driver.exists() else unread("the device has no driver"),
        "numa_node": text(device / "numa_node"),
    }
    if not (device / "max_link_speed").exists():
        return part | {"pcie": unread("the kernel shows no PCIe link")}
    # The link of an idle accelerator is slower than that of a busy one, so its current speed does not describe the node.
    return part | {
        "pcie": f"{text(device / 'max_link_speed')} ×{text(device / 'max_link_width')}",
        "pcie_width_now": text(device / "current_link_width"),
    }
