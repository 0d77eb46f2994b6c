"""Ranks of one start on one host: their settings, processes and shared files. No torch here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from aiperf.data.hostcache import SHARING
from aiperf.journal.messages import Message
from aiperf.own_files import append_own, make_own_folder, remove_own_folder
from aiperf.programs import end_in_words
from aiperf.scratch import MARK, Scratch, compiler_caches
from aiperf.system import processes
from aiperf.system.network import interface_of
from aiperf.system.samplers import VISIBILITY
from aiperf.train.collectives import StoreAt
from aiperf.train.heartbeat import HeartbeatFile, Stage
from aiperf.train.ranks.hang_watch import ProcessProgress
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankPlace, RankStatus, Ready, Recipe, Setup
from aiperf.train.ranks.rendezvous import Directions, horovod_environment

LAST_LINES = 3
LONGEST_LINE = 300
"""Maximum characters of a log line that are quoted in a reason."""
ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}
"""Variables with settings of torch's allocator. Without one, batches of many sizes fragment the memory of an accelerator."""
_ROOT = Path(__file__).resolve().parents[3]
"""Folder of the packages. The rank must import the same ones."""


class RankProcess:
    """Child process of one rank, connected by a pipe. Its output is written to its own log file."""

    def __init__(self, setup: Setup, environment: dict[str, str], log: Path) -> None:
        """`environment`: added to the variables of this process. Raise OSError if the process cannot be started."""
        self.rank = setup.seat.rank
        self.pipe, theirs = Pipe()
        self._failed: FailureReport | None = None
        self._log = log
        self._stopped_since: float | None = None
        threads = str(setup.threads)
        with append_own(log) as output, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "aiperf.train.ranks.rank", str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *_listening(setup)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    # results depend on it, and Triton 3.10 changes its default. A value of the user is kept
                    "TRITON_DEFAULT_FP_FUSION": "1",
                    **({} if ALLOCATOR & os.environ.keys() else {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
                    **_nccl_log(log),
                    **os.environ,
                    "OMP_NUM_THREADS": threads,
                    "MKL_NUM_THREADS": threads,
                    "TORCHINDUCTOR_COMPILE_THREADS": threads,
                    # for every collective, unless its ranks are on several hosts
                    "GLOO_SOCKET_IFNAME": "lo",
                    "NCCL_SOCKET_IFNAME": "lo",
                    "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
                    **environment,
                },
            )
        self._progress = ProcessProgress(self.pid, time.monotonic())
        self.send(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Setup | ExecuteOrder) -> None:
        """Nothing happens if the process has ended."""
        if self.pipe.closed:
            return  # `receive` has found its end
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is detected elsewhere
            self.pipe.send(message)

    def receive(self) -> Any:
        """None at the end of the pipe, which is then closed."""
        try:
            message = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.pipe.close()
            return None
        if isinstance(message, FailureReport):
            self._failed = message
        return message

    def look(self, heartbeats: HeartbeatFile, now: float) -> RankStatus:
        stage, since = heartbeats.stages()[self.rank]
        self._progress.look(stage, since, now)
        code = self._process.poll()
        return RankStatus(
            rank=self.rank,
            pid=self.pid,
            sign=heartbeats.sign(self.rank, now),
            has_ended=code is not None,
            signal=None if code is None or code >= 0 else signal.Signals(-code),
            end_in_words="" if code is None else self._end_in_words(code),
            failed=self._failed,
            stopped_seconds=self._stopped_seconds(now),
            quiet_seconds=self._progress.quiet_for(now),
        )

    def _end_in_words(self, code: int) -> str:
        how = end_in_words(code)
        if code < 0:
            return how
        with contextlib.suppress(OSError):
            lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
            if lines:
                how += f": {' | '.join(line[:LONGEST_LINE] for line in lines[-LAST_LINES:])}"
        return f"{how} (log: {self._log})"

    def _stopped_seconds(self, now: float) -> float:
        if not processes.is_stopped(self.pid):
            self._stopped_since = None
            return 0.0
        if self._stopped_since is None:
            self._stopped_since = now
        return max(now - self._stopped_since, 1e-9)

    def state(self) -> str:
        """Letter of proc(5), such as 'R' or 'D'. Empty if the process does not exist."""
        return processes.state(self.pid)

    def hang_up(self) -> None:
        """Close the pipe. The rank then finishes the checkpoint that it is writing, and ends."""
        self.pipe.close()

    def kill(self) -> None:
        self.pipe.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def has_gone(self, seconds: float) -> bool:
        """Wait up to `seconds` for the end. After them a thread waits: a process in state D may never end."""
        try:
            self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            threading.Thread(target=self._process.wait, name="unkillable-rank", daemon=True).start()
            return False
        return True


def _nccl_log(log: Path) -> dict[str, str]:
    """Return variables with which NCCL writes its connections into a file. Empty if the user set one of them."""
    variables = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,GRAPH",
        "NCCL_DEBUG_FILE": str(log.with_suffix(".nccl")),
    }
    return {} if variables.keys() & os.environ.keys() else variables


def _listening(setup: Setup) -> list[int]:
    place = setup.meeting
    return [place.listening] if isinstance(place, StoreAt) and place.listening is not None else []


def own_device(seat: RankPlace, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a rank sees its NVIDIA accelerator alone, as number 0.

    Compiled code holds the number of its device. With one number for all, ranks read the code of the first one.

    >>> place = RankPlace(1, 0, 1, 1, 2, 0, 1)
    >>> [own_device(place, {"CUDA_VISIBLE_DEVICES": value}) for value in ("4, 6", "4", "")], own_device(place, {})
    ([{'CUDA_VISIBLE_DEVICES': '6'}, {}, {}], {'CUDA_VISIBLE_DEVICES': '1'})
    """
    (name,) = VISIBILITY["NVIDIA"]
    number, selected = seat.accelerator, environment.get(name)
    if number is None or any(other in environment for other in VISIBILITY["AMD"]):
        return {}
    if selected is None:
        return {name: str(number)}
    entries = [entry.strip() for entry in selected.split(",")]
    return {name: entries[number]} if number < len(entries) and entries[number] else {}


DEATH_SECONDS = 30.0
"""Time within which a killed process must end. Otherwise it cannot be ended."""


@dataclass(frozen=True, slots=True)
class RankStart:
    """One start of a worker's ranks, as sent to one of its hosts: places of all ranks, and addresses to connect to."""

    seats: tuple[RankPlace, ...]
    host: int
    directions: Directions
    address: str | None
    """This host's address, as the others reach it. None if there are no other hosts."""

    @property
    def own(self) -> tuple[RankPlace, ...]:
        return tuple(seat for seat in self.seats if seat.host == self.host)


class HostRanks:
    """Ranks of one start on this host. They are killed when the thread that called `start` ends."""

    def __init__(self, recipe: Recipe, start: RankStart) -> None:
        """Raise OSError if no interface has this host's address."""
        self._interface = "lo" if start.address is None else interface_of(start.address)
        make_own_folder(recipe.run_folder / "logs")
        self.processes: list[RankProcess] = []
        # the run's scratch folder is removed with the run. A Ray of others has none, and this host may be killed
        self._scratch = None if (run := os.environ.get(MARK)) else Scratch()
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-", dir=run)) if self._scratch is None else self._scratch.path
        self.heartbeats = HeartbeatFile(self.folder / "heartbeats", len(start.seats), create=True)
        self._recipe = recipe
        self._start = start

    def start(self) -> None:
        """Call it once. Raise OSError if a process cannot be started."""
        for seat in self._start.own:
            self.heartbeats.enter(seat.rank, Stage.IMPORT, self._recipe.conf.start_seconds)
            log = self._recipe.run_folder / "logs" / f"worker-{self._recipe.worker}-rank-{seat.rank}.log"
            self.processes.append(RankProcess(self._setup(seat), self._environment(seat), log))

    def _setup(self, seat: RankPlace) -> Setup:
        cores = max(1, self._recipe.cores // seat.local_size)
        meeting = self._start.directions.store or self.folder / "meeting"
        if own_device(seat, os.environ):
            seat = replace(seat, accelerator=0)
        return Setup(self._recipe, seat, len(self._start.seats), cores, self.folder / "heartbeats", meeting)

    def _environment(self, seat: RankPlace) -> dict[str, str]:
        at, address, interface = self._start.directions.horovod, self._start.address, self._interface
        # ranks of all workers of the run on this host share images; without a run, the ranks of this worker
        shared = os.environ.get(MARK, str(self.folder))
        chosen = {SHARING: shared, **compiler_caches(os.environ, Path(shared)), **own_device(seat, os.environ)}
        if address is not None:
            # NCCL interprets a name as a prefix unless it begins with '='. A value of the user is kept
            chosen["NCCL_SOCKET_IFNAME"] = os.environ.get("NCCL_SOCKET_IFNAME", f"={interface}")
            chosen["GLOO_SOCKET_IFNAME"] = interface
        if at is None:
            return chosen
        name, ranks = address or "localhost", len(self._start.seats)
        return chosen | horovod_environment(seat, ranks, *at, interface, name)

    def look(self, now: float) -> tuple[RankStatus, ...]:
        """Call it several times a second."""
        return tuple(process.look(self.heartbeats, now) for process in self.processes)

    def receive(self, timeout: float, wakes: Sequence[Connection]) -> list[tuple[int, Ready | Message | FailureReport]]:
        """At most one new message per rank, within `timeout` seconds. `wakes`: pipes that end the waiting, and are emptied."""
        by_pipe: dict[object, RankProcess] = {
            process.pipe: process for process in self.processes if not process.pipe.closed
        }
        received: list[tuple[int, Ready | Message | FailureReport]] = []
        for pipe in wait([*(process.pipe for process in by_pipe.values()), *wakes], timeout):
            if isinstance(pipe, Connection) and pipe in wakes:
                while pipe.poll():
                    pipe.recv_bytes()
                continue
            process = by_pipe[pipe]
            message = process.receive()
            if message is not None:
                received.append((process.rank, message))
        return received

    def send(self, do: ExecuteOrder) -> None:
        for process in self.processes:
            self.heartbeats.beat(process.rank, 0, Stage.BUILD, self._recipe.conf.start_seconds)
            process.send(do)

    def hang_up(self) -> None:
        """Request the ranks to finish the checkpoint that is being written, and to end."""
        for process in self.processes:
            process.hang_up()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    def end(self) -> list[tuple[int, str]]:
        """Kill the ranks. Return (rank, text on its process) of each that has not ended after 30 s."""
        self.kill()
        deadline = time.monotonic() + DEATH_SECONDS
        left = [process for process in self.processes if not process.has_gone(deadline - time.monotonic())]
        remove_own_folder(self.folder)
        if self._scratch is not None:
            self._scratch.close()
        return [
            (process.rank, f"process {process.pid}, state {process.state() or 'unknown'} after {DEATH_SECONDS:.0f} s")
            for process in left
        ]
