"""Xid errors of NVIDIA accelerators, as their driver writes them to the kernel's log. (docs.nvidia.com/deploy/xid-errors)

Most are a program's own fault and pass with it. Those in HARDWARE are the device's, its link's or its firmware's.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

HARDWARE = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140})
"""Double-bit ECC, internal microcontroller halt, row remapping failed, NVLink, fallen off the bus, uncontained ECC, GSP."""
_LINE = re.compile(r"NVRM: Xid \(PCI:[0-9a-fA-F]+:([0-9a-fA-F]+:[0-9a-fA-F]+)(?:\.\d)?\): (\d+)")


def hardware_xids(lines: Iterable[str]) -> dict[str, list[int]]:
    """Those of HARDWARE, each once, by bus and device in lower case.

    >>> hardware_xids(["NVRM: Xid (PCI:0000:3B:00): 79, pid=7, …", "NVRM: Xid (PCI:0000:3B:00): 31, …"])
    {'3b:00': [79]}
    """
    found: dict[str, list[int]] = {}
    for line in lines:
        if (told := _LINE.search(line)) is not None and (number := int(told[2])) in HARDWARE:
            of_device = found.setdefault(told[1].lower(), [])
            if number not in of_device:
                of_device.append(number)
    return found


def kernel_log(path: Path = Path("/dev/kmsg")) -> list[str] | None:
    """What the kernel has said since it booted, as far as it keeps it; None where it may not be read, as in most containers."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    lines: list[str] = []
    try:
        while True:
            try:
                line = os.read(descriptor, 8192)
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten meanwhile: the next read goes on behind it
                    continue
                return lines if error.errno == errno.EAGAIN else None
            if not line:
                return lines
            lines.append(line.decode(errors="replace"))
    finally:
        os.close(descriptor)
