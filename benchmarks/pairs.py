"""One side of a comparison in a process of its own, and the description of this machine for the heading of a measurement."""

from __future__ import annotations

import multiprocessing
import os
import platform
import re
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType

from aiperf.system.host import cpu_model


class SideProcess:
    """One side of a comparison, in a separate process that works only during a request.

    Process-wide settings of one side (threads, allocator) then do not affect the other. `make(*arguments)` creates the object
    in that process. It must be importable, like its arguments. Close it, or use it as a context.
    """

    def __init__(self, make: Callable[..., object], *arguments: object) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_answer, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, method: str, *arguments: object) -> float:
        """Call a method of the object and return its result. Raise RuntimeError if the process ends."""
        self._pipe.send((method, arguments))
        try:
            answer: float = self._pipe.recv()
        except EOFError as error:
            raise RuntimeError(f"the process ended during {method!r}. The reason is in its output") from error
        return answer

    def close(self) -> None:
        self._pipe.close()
        self._process.join()

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer(pipe: Connection, make: Callable[..., object], made_from: tuple[object, ...]) -> None:
    made = make(*made_from)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:  # closed by the owner
            return
        pipe.send(getattr(made, method)(*arguments))


def describe_machine() -> str:
    """Describe this machine for the heading of a measurement: '2-core AMD EPYC 9B45, no accelerator'."""
    import torch  # late: other functions of this module do not need torch

    # the usable cores, which in a container or a job are fewer than the machine has
    cores = len(os.sched_getaffinity(0))
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        accelerator = ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
    else:
        accelerator = "no accelerator"
    processor = re.sub(r"\s+(\d+-Core )?Processor$", "", cpu_model() or platform.processor() or platform.machine())
    return f"{cores}-core {processor}, {accelerator}"
