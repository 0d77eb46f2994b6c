"""This host as a node of a run's Ray: it joins when the head is told, and leaves when the head has gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

import msgspec

from aiperf.data import hostcache
from aiperf.drive.ray.head import HEAD, LOOK_SECONDS, HeadAddress
from aiperf.drive.ray.ray_environment import (
    MODE,
    TOKEN,
    compiler_caches,
    guarded_environment,
    metrics_environment,
    ray_scratch,
)
from aiperf.errors import HeadLost, NoSuchRun, RuntimeNotStarted
from aiperf.journal.journal import NAME
from aiperf.system.control_groups import usable_processors
from aiperf.system.processes import family
from aiperf.typed import resuming

ANSWER_SECONDS = 5.0
GIVE_UP_SECONDS = (30.0, 120.0)
"""Ray gives its start up after thirty seconds, to which come its imports and its end. What fails earlier would fail again."""
TAIL_BYTES = 4096
"""Of a journal, in which its last line is found where that is RunEnded."""
END_SECONDS = 10.0
"""Ray's processes may take so long to end when they are asked to."""


@dataclass(slots=True)
class Tie:
    """Whether whoever started this process over a connection is still there, as its standard input tells: it ends with the
    connection, however that was lost."""

    descriptor: int | None
    """None: nobody is waited for."""
    _is_cut: bool = False

    def is_cut(self) -> bool:
        """Looks; waits for nothing."""
        if self.descriptor is not None and not self._is_cut:
            there, _, _ = select.select([self.descriptor], [], [], 0.0)
            self._is_cut = bool(there) and os.read(self.descriptor, 4096) == b""
        return self._is_cut


def join(folder: Path, patience_seconds: float, *, rejoins: bool = False, tie: Tie | None = None) -> None:
    """Joins the Ray of the run in `folder`, and returns when its head has gone; with `rejoins` when the run is over: a head
    that was lost before is started anew by who started it. Returns also when `tie` is cut.

    Raises:
        NoSuchRun: no head is told there in time.
        HeadLost: it has gone without ending its run, and nobody is to begin another (`rejoins`).
        RuntimeNotStarted: Ray ended here by itself while the head was there. One that gave its start up, since this host or
            the head was slow, is begun again until the patience is over.
    """
    again, tie = False, tie or Tie(None)
    while _joined(folder, patience_seconds, tie, rejoins=rejoins, again=again) and rejoins:
        again = True


def _joined(folder: Path, patience_seconds: float, tie: Tie, *, rejoins: bool, again: bool) -> bool:
    """Joins the head that is told; gives whether there may be another after it."""
    head = _awaited(folder, patience_seconds, tie, may_be_over=again)
    if head is None:
        return False
    scratch = ray_scratch(os.environ)
    try:
        environment = os.environ | guarded_environment(os.environ) | {MODE: "token", TOKEN: head.token}
        environment |= scratch.environment | compiler_caches(os.environ, scratch.path) | metrics_environment(None)
        deadline = time.monotonic() + patience_seconds
        tries = 0
        while True:
            tries += 1
            command = _command(head, scratch.path / f"r{tries}")
            ended = _stay(folder / HEAD, head, command, environment, tie)
            if not isinstance(ended, Ended):
                return ended == "gone"
            if not _answers(head):
                if rejoins:
                    return True
                raise HeadLost(
                    f"a node stays with its run's head; that at {head.address} answers no more, and has not ended its run. "
                    f"It can be gone on with: {resuming(folder)}"
                )
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


def _awaited(folder: Path, patience_seconds: float, tie: Tie, *, may_be_over: bool) -> HeadAddress | None:
    """A head that answers; None where the tie is cut, or the run may be over, and is. (Before the first head nothing tells a
    run that is over from one that is about to go on.)"""
    path, deadline = folder / HEAD, time.monotonic() + patience_seconds
    while True:
        # one that was killed has left its file, and Ray would try to join it for ten minutes (Ray 2.60)
        if (head := _read(path)) is not None and _answers(head):
            return head
        if tie.is_cut():
            return None
        # looked at in each turn: a shared file system may show a journal's last line later than that its head is gone
        if may_be_over and head is None and _is_over(folder):
            return None
        if time.monotonic() >= deadline:
            raise NoSuchRun(
                f"a node joins the head that '{path}' tells of; there is none that answers after {patience_seconds:.0f} s. "
                "Is the run's driver up, can its host be reached, and is this folder on a file system that all hosts share?"
            )
        time.sleep(LOOK_SECONDS)


def _is_over(folder: Path) -> bool:
    """Whether the run's last driver has ended it, as the last line of its journal says."""
    try:
        with (folder / NAME).open("rb") as journal:
            journal.seek(0, os.SEEK_END)
            journal.seek(max(0, journal.tell() - TAIL_BYTES))
            lines = journal.read().splitlines()
    except FileNotFoundError:
        return False
    return bool(lines) and lines[-1].startswith(b'{"event":"RunEnded"')


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
    start = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    return [*start, f"--address={head.address}", f"--num-cpus={usable_processors()}", f"--temp-dir={folder}"]


@dataclass(frozen=True, slots=True)
class Ended:
    """Ray has ended here by itself."""

    status: int
    gave_up: bool
    """It never was a node of the run's, most likely: its own limit for that is 30 s (Ray 2.60, without an option)."""


Stay = Ended | Literal["asked", "gone"]
"""How it ended that this host was a node: Ray did, this process was asked to, or the head has gone."""


def _stay(path: Path, head: HeadAddress, command: list[str], environment: dict[str, str], tie: Tie) -> Stay:
    """Until the head's file is gone or tells of another, it is asked to end, its tie is cut, or Ray ends by itself."""
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    asked = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while (status := process.poll()) is None and not asked and not tie.is_cut() and _read(path) == head:
            time.sleep(1.0)
        asked = asked or tie.is_cut()
        if status is None or asked or _read(path) != head:
            return "asked" if asked else "gone"
        return Ended(status, GIVE_UP_SECONDS[0] <= time.monotonic() - began <= GIVE_UP_SECONDS[1])
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            # its agents and workers would notice its end only in a while (Ray 2.60)
            for pid in list(family(process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a raylet whose parent gave up would join late, and alone
        for number, handler in before.items():
            signal.signal(number, handler)
