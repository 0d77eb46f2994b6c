"""How a node reaches others: its interfaces and InfiniBand ports, with driver, firmware and the PCIe link that each sits on."""

from __future__ import annotations

from pathlib import Path

from aiperf.system.description.values import Part, number, text, unread
from aiperf.system.network import Link, links

_CLASSES = {"0x02": "network", "0x03": "display", "0x12": "accelerator", "0x01": "storage"}


def network(sys: Path) -> list[Part] | str:
    """Each interface and port. An address is no part of it."""
    return [_link(sys, link) for link in links(sys)] or unread("the kernel shows no interface but loopback")


def _link(sys: Path, link: Link) -> Part:
    rate = unread("the kernel gives no speed") if link.bits_per_second is None else link.bits_per_second
    told: Part = {
        "name": link.name,
        "kind": link.kind,
        "bits_per_second": rate,
        "state": link.state or unread("no word"),
    }
    adapter, _, port = link.name.partition(" port ")
    if port:
        folder = sys / "class/infiniband" / adapter
        told |= {
            "described": link.described or unread("no rate"),
            "firmware": text(folder / "fw_ver"),
            "board": text(folder / "board_id"),
        }
    else:
        folder = sys / "class/net" / adapter
        told |= {"mtu": number(folder / "mtu")}
    if (folder / "device").exists():
        told |= {"driver": _driver(folder / "device"), "numa_node": text(folder / "device/numa_node")} | _pci(
            folder / "device"
        )
    return told


def pci(sys: Path) -> list[Part] | str:
    """Accelerators, network and storage controllers with their links: now, and at most."""
    found = []
    for device in sorted((sys / "bus/pci/devices").glob("*")):
        kind = _CLASSES.get(text(device / "class")[:4])
        if kind is not None:
            model = f"{text(device / 'vendor')}:{text(device / 'device')}"
            found.append(
                {
                    "name": device.name,
                    "kind": kind,
                    "model": model,
                    "driver": _driver(device),
                    "numa_node": text(device / "numa_node"),
                }
                | _pci(device)
            )
    return found or unread("the kernel shows no such device")


def _pci(device: Path) -> Part:
    if not (device / "max_link_speed").exists():
        return {"pcie": unread("it tells no link")}
    now, most = (
        f"{text(device / f'{when}_link_speed')} ×{text(device / f'{when}_link_width')}" for when in ("current", "max")
    )
    # an idle accelerator's link is slower than a busy one's: what it is now is no property of the node
    return {"pcie": most, "pcie_width_now": now.rpartition("×")[2]}


def _driver(device: Path) -> str:
    driver = device / "driver"
    return driver.resolve().name if driver.exists() else unread("no driver holds it")
