"""Processes of a run on the hosts of a rig: start, wait by the journal, and lookup."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, read
from tests.cluster.hosts_rig import REPOSITORY, HostsRig


def begin(rig: HostsRig, folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    """Start `python -m aiperf WORDS` on a host in the run's folder, with output in NAME.log there."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "AIPERF_"))},
        "PYTHONPATH": str(REPOSITORY),
    }
    return rig.start(
        name,
        sys.executable,
        "-m",
        "aiperf",
        *words,
        output=folder / f"{name}.log",
        directory=folder,
        environment=environment,
    )


def until(
    folder: Path,
    happened: Callable[[list[AnyEvent]], bool],
    what: str,
    seconds: float,
    meanwhile: Callable[[], None],
    logs: Callable[[], str],
) -> list[AnyEvent]:
    """Wait until the journal's events fulfil the condition, and return them.

    `meanwhile` is called before each poll. Fails after `seconds`, with `logs`.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        meanwhile()
        if (folder / NAME).exists() and happened(events := list(read(folder))):
            return events
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {seconds:.0f} s\n{logs()}")


def processes_on(rig: HostsRig, name: str) -> list[int]:
    """Return the processes of a host, without its first one and ended ones."""
    init = rig.init_of(name)
    space = Path(f"/proc/{init}/ns/pid").readlink()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/pid").readlink() == space and (process / "stat").read_text().split(") ")[1][0] != "Z":
                found.append(int(process.name))
        except OSError:
            continue  # it has ended
    return [pid for pid in found if pid != init]
