"""Listening sockets of this machine.

Read from the kernel's tables (/proc/PID/net/tcp, tcp6) and each process's descriptors.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.drive.processes import command_line

LISTEN = "0A"


@dataclass(frozen=True)
class Listening:
    """One socket that takes connections."""

    pid: int
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    program: str

    @property
    def is_loopback(self) -> bool:
        return self.address.is_loopback


def listening_sockets(pids: Iterable[int]) -> list[Listening]:
    """Return the sockets of these processes, in the network namespace of each."""
    found = []
    for pid in pids:
        inodes = set(_inodes(pid))
        if not inodes:
            continue
        first, *others = command_line(pid).decode(errors="replace").strip("\0 ").split("\0")
        program = f"{first.rpartition('/')[2]} {' '.join(others)[-70:]}"
        for table in ("tcp", "tcp6"):
            try:
                lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
            except OSError:
                continue  # ended between the two looks
            for line in lines:
                fields = line.split()
                if fields[3] == LISTEN and fields[9] in inodes:
                    where, _, port = fields[1].rpartition(":")
                    found.append(Listening(pid, _address(where), int(port, 16), program))
    return found


def _inodes(pid: int) -> list[str]:
    found = []
    for file in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            link = str(file.readlink())
        except OSError:
            continue
        if (named := re.fullmatch(r"socket:\[(\d+)\]", link)) is not None:
            found.append(named[1])
    return found


def _address(hexadecimal: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """proc(5): words of 32 bits, each in the machine's own order."""
    words = [int(hexadecimal[at : at + 8], 16) for at in range(0, len(hexadecimal), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    if len(packed) == 4:
        return ipaddress.IPv4Address(socket.inet_ntop(socket.AF_INET, packed))
    address = ipaddress.IPv6Address(packed)
    return address.ipv4_mapped or address
