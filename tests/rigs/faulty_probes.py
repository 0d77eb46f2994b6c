"""Probes and clocks that are wrong on purpose on some nodes. They are in a module, since pickle stores their names only."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from io import FileIO
from typing import ClassVar

import ray

from aiperf.measure.disk import DiskRate, FreeSpace
from aiperf.measure.probe import Probe, ProbeReading, Setting

DIES, HANGS, IS_FAST, OTHER = "127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"
SLOW = "127.0.0.15"
AHEAD_SECONDS = 5.0


@dataclass(frozen=True)
class Planted:
    """On DIES the process is killed. On HANGS the actor that holds it is stopped, if it may be."""

    may_hang: bool
    name: ClassVar[str] = "planted"
    unit: ClassVar[str] = "count"

    def measure(self, setting: Setting) -> ProbeReading:
        if setting.address == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if setting.address == HANGS and self.may_hang:
            os.kill(os.getppid(), signal.SIGSTOP)
        return ProbeReading(probe=self.name, unit=self.unit, series={"one": [1.0]})


@dataclass(frozen=True)
class Fingerprint:
    """Another one on OTHER."""

    name: ClassVar[str] = "data"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        digit = "0" if setting.address == OTHER else "f"
        return ProbeReading(probe=self.name, unit=self.unit, facts={"fingerprint": digit * 64})


@dataclass(frozen=True)
class Arithmetic:
    """Ten times slower on SLOW."""

    name: ClassVar[str] = "matrix product"
    unit: ClassVar[str] = "FLOPS"

    def measure(self, setting: Setting) -> ProbeReading:
        rate = 1e9 if setting.address == SLOW else 1e10
        return ProbeReading(probe=self.name, unit=self.unit, series={"cpu": [rate]})


@dataclass(frozen=True)
class Endless:
    """Says that it has begun, and no more."""

    name: ClassVar[str] = "endless"
    unit: ClassVar[str] = "count"

    def measure(self, setting: Setting) -> ProbeReading:
        (setting.folder.parent / "begun").write_text("")
        time.sleep(3600)
        raise AssertionError("no process waits for this")


@dataclass(frozen=True)
class Crowd(DiskRate):
    """Counts the nodes that measure the shared folder at the same time, as bytes per second."""

    name: ClassVar[str] = "disk write"

    def measure(self, setting: Setting) -> ProbeReading:
        mine = setting.folder / f"crowd-{setting.address}"
        mine.write_text("")
        time.sleep(1.0)
        crowd = len(list(setting.folder.glob("crowd-*")))
        mine.unlink()
        return ProbeReading(probe=self.name, unit=self.unit, series={"run": [float(crowd)]})

    def rate(self, file: FileIO, size: int) -> float:
        raise AssertionError("measure is replaced")


def crowded() -> tuple[Probe, ...]:
    return (FreeSpace(), Crowd(1, 1))


def endless() -> tuple[Probe, ...]:
    return (Endless(),)


def without_hangs() -> tuple[Probe, ...]:
    return (FreeSpace(), Fingerprint(), Planted(may_hang=False))


def with_hangs() -> tuple[Probe, ...]:
    return (FreeSpace(), Fingerprint(), Arithmetic(), Planted(may_hang=True))


def clock() -> float:
    """Clock of a node. The clock of IS_FAST is ahead."""
    return time.time() + (AHEAD_SECONDS if _address() == IS_FAST else 0.0)


def _address() -> str:
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
