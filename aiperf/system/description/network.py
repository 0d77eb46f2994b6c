"""Network interfaces and InfiniBand ports of a node, with driver, firmware and PCIe link."""

from __future__ import annotations

from pathlib import Path

from aiperf.system.description.values import Part, number, text, unread
from aiperf.system.network import Link, links

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
