"""Ray's own processes, as far as this one started them: watched, so that the loss of one ends a run in order.

Ray notices the death of its raylet after a quarter of a minute, and a minute after that of its gcs it aborts the process that
uses it; calls that ask the gcs wait until then. (Ray 2.60)
"""

from __future__ import annotations

import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from ray.exceptions import RayError

from aiperf.errors import RuntimeLost
from aiperf.system.processes import is_stopped

T = TypeVar("T")

NEEDED = {"gcs_server": "gcs server, which knows the cluster", "raylet": "raylet, which starts workers on this host"}
"""What no run can go on without."""
LOOK_SECONDS = 0.2
"""How often they are looked at while a call is waited for."""
STOPPED_SECONDS = 10.0
"""A process that every look for so long has found stopped is lost: nobody knows whether it is ever continued."""
ANSWER_SECONDS = 150.0
"""A call to Ray's head may take so long. It takes milliseconds; Ray itself gives its gcs up after 61 s. (Ray 2.60)"""
GRACE_SECONDS = 2.0
"""After an error of Ray's, until the end of the process that caused it is seen."""


class Runtime:
    """The processes by what they are."""

    def __init__(self, processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
        """By Ray's own names, those of NEEDED."""
        self._processes = processes
        self._stopped_since: dict[str, float] = {}
        self.is_lost = False

    @classmethod
    def of_this_process(cls) -> Runtime:
        """Those that `ray.init` has started here; none where it has joined a Ray that others started."""
        from ray._private import worker

        node = worker._global_node
        started: dict[str, list[Any]] = {} if node is None else node.all_processes
        return cls({name: entries[0].process for name, entries in started.items() if name in NEEDED and entries})

    @property
    def is_own(self) -> bool:
        """Whether this process has started them: what they start has the limits of its control group, then."""
        return bool(self._processes)

    def check(self) -> None:
        """Raises RuntimeLost when one of them has ended, or stays stopped."""
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

    def asked(self, call: Callable[[], T], what: str, limit_seconds: float = ANSWER_SECONDS) -> T:
        """What a call gives that waits for these processes, or for those of a Ray that others started. `what`: it, in words.

        Raises RuntimeLost when one is lost meanwhile, or when there is no answer within the limit.
        """
        asking, began = _Asking(call), time.monotonic()
        while (answer := asking.answer(LOOK_SECONDS)) is None:
            self.check()
            if time.monotonic() - began > limit_seconds:
                self.is_lost = True
                raise RuntimeLost(
                    f"a run needs Ray's head, {_head()}; {what} has had no answer from it for {limit_seconds:.0f} s. "
                    "Is that host up, and can it be reached from here?"
                )
        if answer.error is not None:
            raise answer.error
        assert answer.value is not None
        return answer.value[0]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """An error of Ray's that comes of the loss of one of these processes is raised as RuntimeLost."""
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
        """Where one has ended, or is stopped: ends them all, so that nobody waits for them."""
        if any(process.poll() is not None or is_stopped(process.pid) for process in self._processes.values()):
            for process in self._processes.values():
                process.kill()

    def _lose(self, name: str, how: str) -> None:
        self.is_lost = True
        pid = self._processes[name].pid
        raise RuntimeLost(f"a run needs all of Ray's own processes; its {NEEDED[name]} (process {pid}), {how}")


def _head() -> str:
    import ray

    return str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else "which has gone"


class _Answer(Generic[T]):
    def __init__(self, value: tuple[T] | None, error: BaseException | None) -> None:
        self.value = value
        self.error = error


class _Asking(Generic[T]):
    """A call in a thread of its own, which is left behind where no answer comes."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._answers: queue.SimpleQueue[_Answer[T]] = queue.SimpleQueue()
        threading.Thread(target=self._ask, name="asking-ray", daemon=True).start()

    def answer(self, timeout: float) -> _Answer[T] | None:
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            return None

    def _ask(self) -> None:
        try:
            self._answers.put(_Answer((self._call(),), None))
        except BaseException as error:  # noqa: BLE001  # raised where it was asked
            self._answers.put(_Answer(None, error))
