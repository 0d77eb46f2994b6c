"""Trace of some training steps of a trial's first epoch on rank 0 (option `trainer.profile_steps`).

As many steps before the traced ones are timed for comparison, and as many after them are examined for lost numbers.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from torch.autograd.profiler import record_function

from aiperf.journal.events import StepsProfiled
from aiperf.journal.messages import Train
from aiperf.train.device import Mark
from aiperf.train.rank_context import RankContext
from aiperf.train.setup import PreparedNetwork
from aiperf.train.tracing.exchange_timeline import SOURCE, exchange_times
from aiperf.train.tracing.kernel_trace import STEP, kernel_times
from aiperf.train.tracing.lost_numbers import LostNumbers
from aiperf.train.tracing.torch_profiler import operator_profile
from aiperf.train.tracing.trace_file import Trace, read_trace

_TIMELINE = "timeline.json"
AFTER_STEP = 20
"""The first steps of an epoch are slower."""


def traced_steps(wanted: int, steps: int) -> range:
    """Return the indices (from 0) of the traced steps of an epoch. Empty if the epoch is too short.

    >>> traced_steps(10, 100), traced_steps(10, 12), traced_steps(10, 2)
    (range(20, 30), range(4, 8), range(0, 0))
    """
    count = min(wanted, steps // 3)
    first = min(AFTER_STEP, steps - 2 * count) if count else 0
    return range(first, first + count)


class StepTrace:
    """Call `turn` with an idle device before each step in `edges`, and `close` at the end."""

    def __init__(self, order: Train, context: RankContext, ready: PreparedNetwork, steps: range) -> None:
        """`steps`: indices (from 0) of the traced steps, at least one."""
        self._order = order
        self._context = context
        self._ready = ready
        self._reference = range(max(0, steps.start - len(steps)), steps.start)
        self._steps = steps
        self._examined = range(steps.stop, steps.stop + len(steps))
        self._lost = LostNumbers()
        self._turns: dict[int, tuple[float, float]] = {}
        """Begin and end of each turn by its step, in seconds."""
        self._begins: list[float] = []
        self._waits: list[tuple[float, float]] = []
        """Waits for the exchange in each traced step, on a processor."""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._profile: Any = None
        self._annotation: Any = None

    @property
    def edges(self) -> tuple[int, ...]:
        """First step that is timed for comparison, first traced, first examined, and first after these."""
        return self._reference.start, self._steps.start, self._steps.stop, self._examined.stop

    def turn(self, step: int) -> StepsProfiled | None:
        """Begin or end a part of the trace before `step`, one of `edges`. Return the result at the last edge."""
        began = time.monotonic()
        if step == self._steps.start:
            self._begin()
        elif step == self._steps.stop:
            self._end()
        self._turns[step] = began, time.monotonic()
        return self._message() if step == self._examined.stop else None

    def is_active(self, step: int) -> bool:
        return step in self._steps or step in self._examined

    def begin_step(self, step: int) -> None:
        """Call it before the forward pass: the time between two steps is excluded."""
        if step in self._steps:
            self._begins.append(time.monotonic())
            self._annotation = record_function(f"{STEP}{step}")
            self._annotation.__enter__()

    def after_backward(self, waited: tuple[Mark, Mark] | None) -> None:
        """`waited`: marks (begin, end) of the wait for the gradient exchange, None without an exchange."""
        if self._annotation is None:
            self._lost.add(self._ready.network, self._ready.exchange.optimiser, self._ready.scaler)
        elif waited is not None and self._context.device.type == "cpu":
            second = self._context.timeline.second
            self._waits.append((second(waited[0]), second(waited[1])))

    def end_step(self) -> None:
        if self._annotation is not None:
            self._annotation.__exit__(None, None, None)
            self._annotation = None

    def close(self) -> None:
        """It may be called again."""
        self.end_step()
        if self._profile is not None:
            self._profile.__exit__(None, None, None)
            self._profile = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aiperf-trace-")
        self._profile = operator_profile(self._context.device)
        self._profile.__enter__()
        self._ready.exchange.begin_trace(Path(self._folder.name) / _TIMELINE)
        self._context.timeline.anchor()

    def _end(self) -> None:
        assert self._profile is not None and self._folder is not None
        self._context.timeline.anchor()
        traced, self._profile = self._profile, None
        traced.__exit__(None, None, None)
        self._phases = self._ready.exchange.end_trace()
        file, timeline = (Path(self._folder.name) / name for name in ("trace.json", _TIMELINE))
        traced.export_chrome_trace(str(file))
        trace = read_trace(file)
        self._kernels = kernel_times(trace, self._waits_in(trace))
        if timeline.exists():
            self._phases = exchange_times(read_trace(timeline)).seconds
        source = SOURCE if timeline.exists() else "DDP logging data"
        self._source = source if self._phases else ""
        self.close()

    def _waits_in(self, trace: Trace) -> list[tuple[float, float]]:
        """Return the waits in microseconds of the trace. The begins of the steps relate its clock to time.monotonic()."""
        begins = sorted(each["ts"] for each in trace.events if each.get("name", "").startswith(STEP))
        return [
            (at + (wait[0] - begin) * 1e6, at + (wait[1] - begin) * 1e6)
            for at, begin, wait in zip(begins, self._begins, self._waits, strict=bool(self._waits))
        ]

    def _message(self) -> StepsProfiled:
        ranks = self._context.collective.ranks
        element = 2 if self._context.conf.fp16_compression else 4
        (_, ready), (began, begun), (ended, read), _ = (self._turns[edge] for edge in self.edges)
        return StepsProfiled(
            trial=self._order.trial,
            attempt=self._order.attempt,
            first_step=self._steps.start + 1,
            steps=len(self._steps),
            seconds=ended - begun,
            reference_steps=len(self._reference),
            reference_seconds=began - ready,
            profiler_seconds=(begun - began) + (read - ended),
            device=self._kernels.device,
            kernels=self._kernels.seconds,
            ranks=ranks,
            exchange_source=self._source,
            exchange=self._phases,
            exchange_bytes=element * sum(each.numel() for each in self._ready.network.parameters()) if ranks > 1 else 0,
            numbers=self._lost.counts(),
        )
