"""Trace of training steps in a trial's first epoch on rank 0 (`trainer.profile_steps`), and numbers that 16-bit types lose."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.profiler import record_function

from aiperf.journal.events import GradientCounts, StepsProfiled
from aiperf.journal.messages import Train
from aiperf.train.collectives.collective import Scaler
from aiperf.train.device import Mark
from aiperf.train.rank_context import RankContext
from aiperf.train.setup import PreparedNetwork
from aiperf.train.tracing.kernel_trace import STEP, kernel_times
from aiperf.train.tracing.layer_times import operator_profile
from aiperf.train.tracing.trace_file import SOURCE, Trace, exchange_times, read_trace

_KINDS = {nn.Conv2d: "convolution", nn.Linear: "dense", nn.BatchNorm2d: "batch_normalisation"}
_BF16_DIGITS = 8
"""Binary digits of a BF16 number's significand, with the hidden one."""


class LostNumbers:
    """Counts, over several steps, of gradients and updates that 16-bit types lose, by kind of layer."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def add(self, network: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None) -> None:
        """Call it between the backward pass and the update. The device is synchronized only with loss scaling."""
        scale = 1.0 if scaler is None else scaler.get_scale()
        group = optimiser.param_groups[0]
        for module in network.modules():
            kind = next((name for layer, name in _KINDS.items() if isinstance(module, layer)), "other")
            for weight in module.parameters(recurse=False):
                if weight.grad is None:
                    continue
                gradient = weight.grad.float() / scale
                update = sgd_update(weight, gradient, optimiser.state[weight]["momentum_buffer"], group)
                self._counts[kind] = self._counts[kind].to(weight.device) + torch.stack(
                    [*gradient_counts(gradient), *update_counts(weight, update)]
                )

    def counts(self) -> dict[str, GradientCounts]:
        """By kind of layer ('convolution', 'dense', 'batch_normalisation', 'other'). The call waits for the device."""
        names = GradientCounts.__struct_fields__
        return {
            kind: GradientCounts(**dict(zip(names, row.tolist(), strict=True))) for kind, row in self._counts.items()
        }


def sgd_update(weight: Tensor, gradient: Tensor, momentum: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Return lr · (m · momentum + gradient + weight_decay · weight), with m the momentum factor, as SGD subtracts it."""
    direction: Tensor = options["momentum"] * momentum + gradient + options["weight_decay"] * weight
    update: Tensor = direction * options["lr"]
    return update


def gradient_counts(gradient: Tensor) -> list[Tensor]:
    """Return seven scalar counts of elements of an FP32 gradient that 16-bit types would lose.

    They are: finite elements that are not 0, and of these the elements that become 0, subnormal and infinite in FP16, then in
    BF16.
    """
    is_counted = gradient.isfinite() & (gradient != 0)
    counts = [is_counted.sum()]
    for dtype in (torch.float16, torch.bfloat16):
        size = gradient.to(dtype).float().abs()
        is_subnormal = (size > 0) & (size < torch.finfo(dtype).smallest_normal)
        counts += [(is_counted & found).sum() for found in (size == 0, is_subnormal, size.isinf())]
    return counts


def update_counts(weight: Tensor, update: Tensor) -> list[Tensor]:
    """Return two scalar counts: finite elements of an update that are not 0, and of these those that BF16 weights would lose.

    `update`: difference that the optimiser subtracts from `weight`. Weights that are 0 are left out. An update is lost if it is
    below half the last place of the weight. A weight w with 2^(e−1) ≤ |w| < 2^e has the last place 2^(e−8) in BF16.
    """
    is_counted = update.isfinite() & (update != 0) & (weight != 0)
    exponent = torch.frexp(weight).exponent
    half_of_last_place = torch.ldexp(torch.ones_like(weight), exponent - _BF16_DIGITS - 1)
    return [is_counted.sum(), (is_counted & (update.abs() < half_of_last_place)).sum()]


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
