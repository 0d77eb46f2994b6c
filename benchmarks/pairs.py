"""Parts of several benchmarks: one side of a comparison in a process of its own, an order to train, this machine's name."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from aiperf.journal.messages import Train
from aiperf.system.host import processor_name

Call = Callable[..., Any]
"""call(METHOD, *ARGUMENTS)"""


@contextmanager
def side_process(make: Callable[..., object], *arguments: object) -> Iterator[Call]:
    """Context of one side of a comparison, in a process that works only during a call."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (make, arguments)) as process:
        yield lambda method, *arguments: process.submit(_call, method, arguments).result()


_made: list[object] = []


def _begin(make: Callable[..., object], arguments: tuple[object, ...]) -> None:
    _made.append(make(*arguments))


def _call(method: str, arguments: tuple[object, ...]) -> Any:
    return getattr(_made[0], method)(*arguments)


def order(trial: int, batch: int, epochs: int = 1, progress_seconds: float = 1e9) -> Train:
    """Return an order to train a new network with seed 0. It does not end early."""
    return Train(
        trial=trial,
        attempt=1,
        worker=0,
        lineage=(),
        morphs=(),
        parent=None,
        first_epoch=1,
        last_epoch=epochs,
        patience=epochs + 1,
        improvement=0.001,
        losses=(),
        batch_size=batch,
        seed=0,
        progress_seconds=progress_seconds,
        edges=(),
    )


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
    processor = re.sub(r"\s+(\d+-Core )?Processor$", "", processor_name())
    return f"{cores}-core {processor}, {accelerator}"
