"""Memory of a node: size, and modules as listed by firmware (SMBIOS, DMTF DSP0134, type 17, readable by root only)."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aiperf.system.description.values import Part, chosen, number, text, unread
from aiperf.system.host import meminfo

_KINDS = {0x18: "DDR3", 0x1A: "DDR4", 0x1B: "LPDDR", 0x1C: "LPDDR2", 0x1D: "LPDDR3", 0x1E: "LPDDR4", 0x20: "HBM",
          0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5", 0x24: "HBM3"}  # fmt: skip
_MODULE, _END = 17, 127


def memory(proc: Path, sys: Path) -> Part:
    """Return sizes in whole gibibytes. The kernel's own share differs slightly between equal nodes."""
    sizes = meminfo((proc / "meminfo").read_text())
    return {
        "gibibytes": round(sizes["MemTotal"] / 2**30),
        "swap_gibibytes": round(sizes["SwapTotal"] / 2**30)
        if "SwapTotal" in sizes
        else unread("/proc/meminfo tells none"),
        "modules": modules(sys / "firmware/dmi/tables/DMI"),
        "transparent_huge_pages": chosen(sys / "kernel/mm/transparent_hugepage/enabled"),
        "huge_page_defragmentation": chosen(sys / "kernel/mm/transparent_hugepage/defrag"),
        "numa_balancing": number(proc / "sys/kernel/numa_balancing"),
        "swappiness": number(proc / "sys/vm/swappiness"),
        "overcommit": number(proc / "sys/vm/overcommit_memory"),
    }


def modules(table: Path) -> str:
    """Return the installed modules, for example `8 × 32 GiB DDR5, 4800 MT/s, 2 places empty`."""
    try:
        contents = table.read_bytes()
    except OSError as error:
        return unread(f"{table}: {error.strerror}")
    try:
        counts = Counter(_module(structure) for structure in _structures(contents) if structure[0] == _MODULE)
    except (struct.error, IndexError) as error:
        return unread(f"{table} is no SMBIOS table ({error})")
    empty = counts.pop("", 0)
    if not counts:
        return unread(f"{table} lists no module")
    parts = [f"{count} × {module}" for module, count in sorted(counts.items())]
    return ", ".join([*parts, *([f"{empty} places empty"] if empty else [])])


def _structures(table: bytes) -> Iterator[bytes]:
    """Yield the formatted part of each structure. The strings after it, which end with two zeros, are skipped."""
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        if length < 4:
            raise IndexError(f"a structure of {length} bytes at {at}")
        yield table[at : at + length]
        if kind == _END:
            return
        end = table.find(b"\0\0", at + length)
        at = len(table) if end < 0 else end + 2


def _module(structure: bytes) -> str:
    """Return the module as text, or '' for an empty slot."""
    (size,) = struct.unpack_from("<H", structure, 0x0C)
    if size == 0:
        return ""
    mebibytes: int | None = None if size == 0xFFFF else size & 0x7FFF
    if size == 0x7FFF and len(structure) >= 0x20:
        (mebibytes,) = struct.unpack_from("<I", structure, 0x1C)
    elif mebibytes is not None and size & 0x8000:
        mebibytes //= 1024  # the unit is a kibibyte
    much = "unknown size" if mebibytes is None else f"{mebibytes / 1024:g} GiB"
    kind = _KINDS.get(structure[0x12], f"type {structure[0x12]:#x}")
    speed = 0
    for offset in (0x15, 0x20):  # maximum speed, then configured speed
        if len(structure) >= offset + 2:
            speed = struct.unpack_from("<H", structure, offset)[0] or speed
    return f"{much} {kind}" + (f" at {speed} MT/s" if speed else "")


def boot_parameters(proc: Path, wanted: frozenset[str]) -> str:
    """Return the `wanted` parameters of the kernel's command line. Others may name the host or contain secrets."""
    parameters = text(proc / "cmdline").split()
    return (
        " ".join(each for each in parameters if each.partition("=")[0] in wanted) or "none of those that are looked for"
    )
