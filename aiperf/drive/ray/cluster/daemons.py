"""Ray's own processes, if this process started them. They are watched, so that the loss of one ends a run cleanly.

Ray notices the death of its raylet after about 15 s. About 60 s after the death of its gcs, Ray aborts the process that
uses it, and calls to the gcs block until then. (Ray 2.60)
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ray.exceptions import RayError

from aiperf.errors import RuntimeLost
from aiperf.system.processes import family, is_stopped

T = TypeVar("T")

NEEDED = {"gcs_server": "gcs server, which knows the cluster", "raylet": "raylet, which starts workers on this host"}
"""Processes that every run needs."""
LOOK_SECONDS = 0.2
"""Interval of the check during a call."""
STOPPED_SECONDS = 10.0
"""A process that has been stopped for this time counts as lost, since it may never be continued."""
ANSWER_SECONDS = 150.0
"""Limit of a call to Ray's head, which normally takes milliseconds. Ray itself gives up its gcs after 61 s. (Ray
2.60)"""
GRACE_SECONDS = 2.0
"""Maximum time between an error of Ray and the visible end of the process that caused it."""


class Runtime:
    """Ray's own processes on this host, by name."""

    def __init__(self, processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
        """`processes`: by Ray's own names, those in NEEDED."""
        self._processes = processes
        self._stopped_since: dict[str, float] = {}
        self.is_lost = False

    @classmethod
    def of_this_process(cls) -> Runtime:
        """Return the processes that `ray.init` has started here. Empty for an existing Ray cluster."""
        from ray._private import worker

        node = worker._global_node
        started: dict[str, list[Any]] = {} if node is None else node.all_processes
        return cls({name: entries[0].process for name, entries in started.items() if name in NEEDED and entries})

    @property
    def is_own(self) -> bool:
        """True if this process started Ray's processes. Then they have the limits of this control group."""
        return bool(self._processes)

    def check(self) -> None:
        """Raise RuntimeLost if a process has ended, or has been stopped for STOPPED_SECONDS."""
        now = time.monotonic()
        for name, process in self._processes.items():
            code = process.poll()
            if code is not None:
                how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
                self._lose(name, how)
            if not is_stopped(process.pid):
                self._stopped_since.pop(name, None)
            elif now - self._stopped_since.setdefault(name, now) > STOPPED_SECONDS:
                self._lose(name, f"has been stopped (SIGSTOP) for {STOPPED_SECONDS:.0f} s")

    def call(self, call: Callable[[], T], what: str, limit_seconds: float = ANSWER_SECONDS) -> T:
        """Return the result of a call that waits for these processes, or for those of an existing Ray cluster.

        `what`: name of the call, for messages.

        Raises RuntimeLost if a process is lost meanwhile, or after `limit_seconds` without an answer.
        """
        answer, began = in_background(call, "asking-ray"), time.monotonic()
        while not wait([answer], LOOK_SECONDS).done:
            self.check()
            if time.monotonic() - began > limit_seconds:
                self.is_lost = True
                raise RuntimeLost(
                    f"a run needs Ray's head, {_head()}, but {what} got no answer from it for {limit_seconds:.0f} s. "
                    "Is that host up, and can it be reached from here?"
                )
        return answer.result()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise RuntimeLost instead of an error of Ray in the body, if one of these processes is lost. Check them first."""
        self.check()
        try:
            yield
        except RayError:
            deadline = time.monotonic() + GRACE_SECONDS
            while time.monotonic() < deadline:
                self.check()
                time.sleep(LOOK_SECONDS)
            raise

    def kill_if_lost(self) -> None:
        """Kill all these processes and their children if one has ended or is stopped. Ray's agents would notice after 43 s."""
        if any(process.poll() is not None or is_stopped(process.pid) for process in self._processes.values()):
            for pid in [pid for process in self._processes.values() for pid in family(process.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _lose(self, name: str, how: str) -> None:
        self.is_lost = True
        pid = self._processes[name].pid
        raise RuntimeLost(f"a run needs all of Ray's own processes, but its {NEEDED[name]} (process {pid}), {how}")


def _head() -> str:
    import ray

    return str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else "which has gone"


def in_background(call: Callable[[], T], name: str) -> Future[T]:
    """Start `call` in a daemon thread, which need not be joined. Return the future with its result or error."""
    future: Future[T] = Future()

    def complete() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  # raised again by the caller
            future.set_exception(error)

    threading.Thread(target=complete, name=name, daemon=True).start()
    return future
