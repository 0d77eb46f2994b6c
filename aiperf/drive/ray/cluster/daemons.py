"""Observation of Ray's own processes that this process has started, to end a run soon after one of them is lost.

Ray notices the death of its raylet after about 15 s. About 60 s after the death of its gcs it aborts this process, and calls to
the gcs block until then. (Ray 2.60)
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
from aiperf.programs import end_in_words
from aiperf.system.processes import family, is_stopped

T = TypeVar("T")

NEEDED = {"gcs_server": "gcs server, which knows the cluster", "raylet": "raylet, which starts workers on this host"}
"""Processes that every run needs."""
LOOK_SECONDS = 0.2
"""Interval of the check during a call."""
STOPPED_SECONDS = 10.0
"""A process that has been stopped for this time counts as lost, since it may never be continued."""
ANSWER_SECONDS = 150.0
"""Limit of a call to Ray's head, which normally takes milliseconds."""
GRACE_SECONDS = 2.0
"""Maximum time between an error of Ray and the visible end of the process that caused it."""


class Runtime:
    """Ray's own processes on this host (gcs server and raylet), by name. Empty if another process has started them."""

    def __init__(self, processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
        """`processes`: by Ray's own names, those in NEEDED."""
        self._processes = processes
        self._stopped_since: dict[str, float] = {}
        self.is_lost = False

    @classmethod
    def of_this_process(cls) -> Runtime:
        """Return the gcs server and the raylet that `ray.init` started in this process. Empty for an existing Ray cluster."""
        from ray._private import worker

        node = worker._global_node
        started: dict[str, list[Any]] = {} if node is None else node.all_processes
        return cls({name: entries[0].process for name, entries in started.items() if name in NEEDED and entries})

    @property
    def is_own(self) -> bool:
        """True if this process started Ray's processes. They then have the same CPU and memory limits."""
        return bool(self._processes)

    def check(self) -> None:
        """Raise RuntimeLost if one of Ray's processes has ended, or has been stopped (SIGSTOP) for 10 s. Does not wait."""
        now = time.monotonic()
        for name, process in self._processes.items():
            code = process.poll()
            if code is not None:
                self._lose(name, end_in_words(code))
            if not is_stopped(process.pid):
                self._stopped_since.pop(name, None)
            elif now - self._stopped_since.setdefault(name, now) > STOPPED_SECONDS:
                self._lose(name, f"has been stopped (SIGSTOP) for {STOPPED_SECONDS:.0f} s")

    def call(self, call: Callable[[], T], what: str, limit_seconds: float = ANSWER_SECONDS) -> T:
        """Execute `call`, which waits for an answer of Ray, in a background thread, and return its result."""
        answer, began = in_background(call, "asking-ray"), time.monotonic()
        while not wait([answer], LOOK_SECONDS).done:
            self.check()
            if time.monotonic() - began > limit_seconds:
                self.is_lost = True
                raise RuntimeLost(
                    f"a run needs Ray's head, {_head()}, but {what} got no answer from it for {limit_seconds:.0f} s. "
                    "Check that this host is up and can be reached from here"
                )
        return answer.result()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Replace errors of Ray in a `with` block by RuntimeLost if a process of Ray has ended or been stopped for 10 s."""
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
        """Kill Ray's processes and descendants if one has ended or is stopped. Ray's own agents would notice after 43 s."""
        if any(process.poll() is not None or is_stopped(process.pid) for process in self._processes.values()):
            living = [process.pid for process in self._processes.values() if process.poll() is None]
            for pid in [pid for each in living for pid in family(each)]:
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
    """Start `call` in a daemon thread. Return a future with its result or its error. `name`: name of the thread."""
    future: Future[T] = Future()

    def complete() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  # raised again by the caller
            future.set_exception(error)

    threading.Thread(target=complete, name=name, daemon=True).start()
    return future
