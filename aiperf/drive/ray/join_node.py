"""This host as a node of a run's Ray: it joins when the head is told, and leaves when the head has gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

from aiperf.data import hostcache
from aiperf.drive.ray.head import HEAD, LOOK_SECONDS, HeadAddress
from aiperf.drive.ray.ray_environment import MODE, TOKEN, compiler_caches, guarded_environment, ray_parent
from aiperf.errors import NoSuchRun, RuntimeNotStarted
from aiperf.scratch import Scratch
from aiperf.system.control_groups import usable_processors

ANSWER_SECONDS = 5.0
GIVE_UP_SECONDS = (30.0, 120.0)
"""Ray gives its start up after thirty seconds, to which come its imports and its end. What fails earlier would fail again."""
END_SECONDS = 10.0
"""Ray's processes may take so long to end when they are asked to."""


def join(folder: Path, patience_seconds: float) -> None:
    """Joins the Ray of the run in `folder`, and returns when its head has gone.

    Raises:
        NoSuchRun: no head is told there in time.
        RuntimeNotStarted: Ray ended here by itself while the head was there. One that gave its start up, since this host or
            the head was slow, is begun again until the patience is over.
    """
    head = _awaited(folder / HEAD, patience_seconds)
    scratch = Scratch(ray_parent(os.environ), hostcache.pattern())
    try:
        environment = os.environ | guarded_environment(os.environ) | {MODE: "token", TOKEN: head.token}
        environment |= scratch.environment | compiler_caches(os.environ, scratch.path)
        deadline = time.monotonic() + patience_seconds
        tries = 0
        while True:
            tries += 1
            command = _command(head, scratch.path / f"r{tries}")
            ended = _stay(folder / HEAD, head, command, environment)
            if ended is None:
                return
            if not ended.gave_up or time.monotonic() >= deadline:
                raise RuntimeNotStarted(
                    f"Ray ended on this host, with status {ended.status}, while the run's head at {head.address} was told to "
                    f"be there ({tries} tries): its own words stand above. Can this host reach that address?"
                )
            print(
                "Ray gave its start up here, as it does after half a minute: it is begun again",
                file=sys.stderr,
                flush=True,
            )
    finally:
        scratch.close()
        hostcache.remove_orphans()


def _awaited(path: Path, patience_seconds: float) -> HeadAddress:
    deadline = time.monotonic() + patience_seconds
    while True:
        # one that was killed has left its file, and Ray would try to join it for ten minutes (Ray 2.60)
        if (head := _read(path)) is not None and _answers(head):
            return head
        if time.monotonic() >= deadline:
            raise NoSuchRun(
                f"a node joins the head that '{path}' tells of; there is none that answers after {patience_seconds:.0f} s. "
                "Is the run's driver up, can its host be reached, and is this folder on a file system that all hosts share?"
            )
        time.sleep(LOOK_SECONDS)


def _read(path: Path) -> HeadAddress | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=HeadAddress)
    except FileNotFoundError:
        return None


def _answers(head: HeadAddress) -> bool:
    host, _, port = head.address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def _command(head: HeadAddress, folder: Path) -> list[str]:
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    return [*start, f"--address={head.address}", f"--num-cpus={usable_processors()}", f"--temp-dir={folder}"]


@dataclass(frozen=True, slots=True)
class Ended:
    """Ray has ended here by itself."""

    status: int
    gave_up: bool
    """It never was a node of the run's, most likely: its own limit for that is 30 s (Ray 2.60, without an option)."""


def _stay(path: Path, head: HeadAddress, command: list[str], environment: dict[str, str]) -> Ended | None:
    """Until the head's file is gone or tells of another, or this process is asked to end: None; or until Ray ends by itself."""
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    asked = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while (status := process.poll()) is None and not asked and _read(path) == head:
            time.sleep(1.0)
        if status is None or asked or _read(path) != head:
            return None
        return Ended(status, GIVE_UP_SECONDS[0] <= time.monotonic() - began <= GIVE_UP_SECONDS[1])
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a raylet whose parent gave up would join late, and alone
        for number, handler in before.items():
            signal.signal(number, handler)
