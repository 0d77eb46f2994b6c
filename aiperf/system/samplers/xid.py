"""Xid errors of NVIDIA accelerators in the kernel log (docs.nvidia.com/deploy/xid-errors).

Most Xids are errors of a program and end with it. Those in HARDWARE are errors of the device, its link or its firmware.
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
    """Return the Xids of HARDWARE, each once, by bus and device in lower case.

    >>> hardware_xids(["NVRM: Xid (PCI:0000:3B:00): 79, pid=7, …", "NVRM: Xid (PCI:0000:3B:00): 31, …"])
    {'3b:00': [79]}
    """
    found: dict[str, list[int]] = {}
    for line in lines:
        if (match := _LINE.search(line)) is not None and (number := int(match[2])) in HARDWARE:
            of_device = found.setdefault(match[1].lower(), [])
            if number not in of_device:
                of_device.append(number)
    return found


def kernel_log(path: Path = Path("/dev/kmsg")) -> list[str] | None:
    """Return the kernel log since boot, as far as it is kept. None if it is not readable, as in most containers."""
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
                if error.errno == errno.EPIPE:  # overwritten meanwhile: the next read continues after it
                    continue
                return lines if error.errno == errno.EAGAIN else None
            if not line:
                return lines
            lines.append(line.decode(errors="replace"))
    finally:
        os.close(descriptor)
