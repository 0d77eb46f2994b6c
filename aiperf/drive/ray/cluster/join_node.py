"""Membership of this host in the Ray cluster of a run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Literal

from ray._private import services

from aiperf.drive.ray.cluster.head import GIVE_UP_SECONDS, LOOK_SECONDS, HeadAddress, read_head
from aiperf.drive.ray.cluster.ray_environment import MODE, TOKEN, connected, ray_folder, refusal, tls_environment
from aiperf.errors import HeadLost, NoSuchRun, RuntimeNotStarted
from aiperf.journal.journal import NAME
from aiperf.shell_command import resuming
from aiperf.system.control_groups import usable_processors
from aiperf.system.processes import family
from cluster.place import HEAD_FILE

ANSWER_SECONDS = 5.0
PORT_SECONDS = 30.0
"""Interval at which a node tries the port of its head."""
PORT_FAILURES = 3
"""Failures in a row after which the head is lost. Ray itself would notice it after four minutes."""
SHORT_LIVES = 3
"""Lives of Ray in a row, each shorter than GIVE_UP_SECONDS, after which a node ends: they have a cause that stays."""
PAUSE_SECONDS = 5.0
"""Pause before Ray is started again on a node."""
TAIL_BYTES = 4096
"""Bytes at the end of a journal that contain its last line, if that is RunEnded."""
END_SECONDS = 10.0
"""Maximum time for Ray's processes to end after a request."""


@dataclass(slots=True)
class ParentConnection:
    """Connection to the process that started this one. It is cut when standard input reaches its end."""

    descriptor: int | None
    """File descriptor to test. None if the process is not tied."""
    _is_cut: bool = False

    def is_cut(self) -> bool:
        """Return True if the connection has ended. Does not wait. Always False if there is no descriptor to test."""
        if self.descriptor is not None and not self._is_cut:
            readable, _, _ = select.select([self.descriptor], [], [], 0.0)
            self._is_cut = bool(readable) and os.read(self.descriptor, 4096) == b""
        return self._is_cut


def join(folder: Path, patience_seconds: float, *, rejoins: bool = False, tie: ParentConnection | None = None) -> None:
    """Join the Ray cluster of the run in `folder`, and stay in it until its head ends or this process is asked to end."""
    again, tie = False, tie or ParentConnection(None)
    while _joined(folder, patience_seconds, tie, rejoins=rejoins, again=again) and rejoins:
        again = True


def _joined(folder: Path, patience_seconds: float, tie: ParentConnection, *, rejoins: bool, again: bool) -> bool:
    """Join the current head. Return True if another head may follow."""
    head = _awaited(folder, patience_seconds, tie, may_be_over=again)
    if head is None:
        return False
    with ray_folder(os.environ) as (own, variables):
        # the rule of ray start (Ray 2.60)
        address: str = services.get_node_ip_address(head.address)  # type: ignore[no-untyped-call]
        variables |= tls_environment(head.authority, own, address)
        if (reason := refusal(head.address, variables, ANSWER_SECONDS)) is not None:
            raise RuntimeNotStarted(
                f"this host ({address}) joins the run's head at {head.address} by TLS, but that failed: {reason}. Check the "
                f"clocks of both hosts (here {datetime.now(UTC):%Y-%m-%d %H:%M} UTC), and that no proxy is between them"
            )
        environment = os.environ | variables | {MODE: "token", TOKEN: head.token}
        lives: list[float] = []
        while True:
            began = time.monotonic()
            command = _command(head, own / f"r{len(lives)}")
            ended = _stay(folder / HEAD_FILE, head, command, environment, tie)
            if isinstance(ended, int) and _answers(head):
                lives.append(time.monotonic() - began)
            elif ended in ("asked", "gone") or rejoins:
                return ended != "asked"
            else:
                raise HeadLost(
                    f"the run's head at {head.address} does not answer any more, and has not ended its run. "
                    f"To resume the run: {resuming(folder)}"
                )
            if len(lives) >= SHORT_LIVES and max(lives[-SHORT_LIVES:]) < GIVE_UP_SECONDS[0]:
                raise RuntimeNotStarted(
                    f"the run's head at {head.address} answers, but Ray ended on this host with status {ended} after "
                    f"{len(lives)} starts. Its own error is above. Check that this host can reach all ports of the head"
                )
            print(f"Ray ended on this host with status {ended}: it is started again", file=sys.stderr, flush=True)
            time.sleep(PAUSE_SECONDS)


def _awaited(folder: Path, patience_seconds: float, tie: ParentConnection, *, may_be_over: bool) -> HeadAddress | None:
    """None if the tie is cut, or if the run is over and `may_be_over`: a run about to be resumed looks finished, too."""
    path, deadline = folder / HEAD_FILE, time.monotonic() + patience_seconds
    while True:
        # one that was killed has left its file, and Ray would try to join it for ten minutes (Ray 2.60)
        if (head := read_head(path)) is not None and _answers(head):
            return head
        if tie.is_cut():
            return None
        # tested in each turn: a shared file system may show the journal's last line later than the removal of the
        # head's file
        if may_be_over and head is None and _is_over(folder):
            return None
        if time.monotonic() >= deadline:
            raise NoSuchRun(
                f"a node joins the head named in '{path}', but none answers after {patience_seconds:.0f} s. "
                "Check that the run's driver is up, that its host can be reached, and that all hosts share this folder"
            )
        time.sleep(LOOK_SECONDS)


def _is_over(folder: Path) -> bool:
    """Return True if the last line of the run's journal is RunEnded."""
    try:
        with (folder / NAME).open("rb") as journal:
            journal.seek(0, os.SEEK_END)
            journal.seek(max(0, journal.tell() - TAIL_BYTES))
            lines = journal.read().splitlines()
    except FileNotFoundError:
        return False
    return bool(lines) and lines[-1].startswith(b'{"event":"RunEnded"')


def _answers(head: HeadAddress) -> bool:
    try:
        connected(head.address, ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def _command(head: HeadAddress, folder: Path) -> list[str]:
    start = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    return [*start, f"--address={head.address}", f"--num-cpus={usable_processors()}", f"--temp-dir={folder}"]


Stay = int | Literal["asked", "gone", "silent"]
"""Reason for the end of a node: Ray's exit status, a request to end, a head that has ended, or a head whose port does
not answer."""


def _stay(
    path: Path, head: HeadAddress, command: list[str], environment: dict[str, str], tie: ParentConnection
) -> Stay:
    failures, tried = 0, time.monotonic()
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    asked = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while (status := process.poll()) is None and not asked and not tie.is_cut() and read_head(path) == head:
            if time.monotonic() - tried >= PORT_SECONDS:
                failures = 0 if _answers(head) else failures + 1
                tried = time.monotonic()
                if failures == PORT_FAILURES:
                    return "silent"
            time.sleep(1.0)
        asked = asked or tie.is_cut()
        if status is None or asked or read_head(path) != head:
            return "asked" if asked else "gone"
        return status
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
            os.killpg(process.pid, signal.SIGKILL)  # a raylet that lost its parent could still join later
        for number, handler in before.items():
            signal.signal(number, handler)
