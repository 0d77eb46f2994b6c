"""A network's training step executed in one of the modes of `execution_mode.py`; the fastest, where that is to be measured.

A way that was not really had is never taken for it: torch.compile, left to itself, goes on eagerly where it gives up.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import torch
from torch import Tensor, nn

from aiperf.train.ceiling import DoesNotFit
from aiperf.train.execution_mode import EAGER, ExecutionMode, modes_of
from aiperf.train.fused import Fusion
from aiperf.train.module import Network
from aiperf.train.precision import Precision, unsearched
from aiperf.train.rank_context import RankContext

_TIMED_STEPS = 3


class NotHad(Exception):
    """This network cannot be executed in this mode. All ranks raise it together."""


class Execution:
    """How a network is executed. Only training steps with a whole batch run in the mode; everything else is eager."""

    def __init__(
        self, network: Network, mode: ExecutionMode, images: Tensor, precision: Precision, compiler: str = "inductor"
    ) -> None:
        """`images`: a whole batch of the shape and type that the network will be trained with; values do not matter.
        `compiler`: the backend of torch.compile.

        Changes running statistics where graphs are captured. Compiling itself happens at the first call.
        """
        self.mode = mode
        self._network = network
        self._graphs_left_out = _graphs_left_out()
        if mode.fused != "no":
            network.__dict__["forward"] = _fused(network, mode.fused)
        if mode.compiled:
            network._compiled_call_impl = _compiled(network, mode, compiler)
        elif mode.cuda_graphs:
            _capture(network, images, precision)
        self._forward = network.__dict__.get("forward")
        self._compiled = network._compiled_call_impl

    @contextmanager
    def eager_if(self, eager: bool) -> Iterator[None]:
        """Within it the network is launched eagerly where asked: a batch of another size would be compiled anew, and does not
        fit a captured graph. Nor are cuDNN's algorithms searched for it, which takes longer than the one step is worth."""
        if not eager:
            yield
            return
        self.remove()
        try:
            with unsearched():
                yield
        finally:
            self.install()

    def install(self) -> None:
        self._network._compiled_call_impl = self._compiled
        if self._forward is not None:
            self._network.__dict__["forward"] = self._forward

    def remove(self) -> None:
        """Makes the network eager again, as it was built."""
        _strip(self._network)

    def compilations(self) -> int:
        """How often the network was compiled: once, if all is well."""
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list

        return len(_debug_get_cache_entry_list(self._network.straight_line.__code__))

    def verify(self) -> None:
        """After its first run. Raises NotHad where the network did not go this way, whatever torch says of it."""
        if self.mode.compiled and not self.compilations():
            raise NotHad("torch.compile left the network as it is (TORCH_COMPILE_DISABLE or TORCHDYNAMO_DISABLE?)")
        if self.mode.compiled and self.mode.cuda_graphs and _graphs_left_out() > self._graphs_left_out:
            raise NotHad("torch.compile took no CUDA graphs for a part of the network")

    def close(self) -> None:
        """Releases the network, its compiled code and its captured graphs. Called when the trial is over."""
        self.remove()
        self._forward = self._compiled = None
        if self.mode.compiled:
            _forget_compiled()


def _compiled(network: Network, mode: ExecutionMode, compiler: str) -> Callable[[Tensor], Tensor]:
    """The function that is called instead of the network.

    Each network's own function is compiled: torch.compile gives up on a function, silently, when it has been compiled 8 times,
    and all networks of a process share the methods of their class.
    """
    step = torch.compile(
        network.straight_line,
        fullgraph=True,  # what cannot be compiled whole, or not again, is an error and never quietly eager
        dynamic=False,
        backend=compiler,
        # CUDA graphs of compiled code are inductor's own matter (torch 2.13)
        mode="reduce-overhead" if mode.cuda_graphs else None,
    )
    itself = weakref.ref(
        network
    )  # a strong reference would be a cycle, and keep the network until the garbage collector runs

    def call(images: Tensor) -> Tensor:
        called = itself()
        assert called is not None, "called through it"
        return step(called, images)

    return call


def _fused(network: Network, fusion: Fusion) -> Callable[[Tensor], Tensor]:
    """The network's forward with its normalisations fused, in training."""
    from aiperf.train.fused.line import fused_line
    from aiperf.train.fused.norm import norm, pointwise

    line = fused_line(network._graph, fusion, norm, pointwise)
    itself = weakref.ref(network)

    def forward(images: Tensor) -> Tensor:
        called = itself()
        assert called is not None, "called through it"
        return line(called, images)

    return forward


def _forget_compiled() -> None:
    """What torch keeps of networks that are gone, pools of CUDA graphs among it: takes half a millisecond (torch 2.13)."""
    torch.compiler.reset()


def _graphs_left_out() -> int:
    """How often inductor failed to capture a CUDA graph that it should have captured."""
    utils = sys.modules.get("torch._dynamo.utils")
    return 0 if utils is None else int(utils.counters["inductor"]["cudagraph_skips"])


def _strip(network: nn.Module) -> None:
    network._compiled_call_impl = None  # what nn.Module.compile sets, torch 2.13
    network.__dict__.pop("forward", None)  # what make_graphed_callables sets


def _capture(network: nn.Module, images: Tensor, precision: Precision) -> None:
    """Forward and backward pass as two CUDA graphs; evaluation goes on calling the network's own forward."""
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)  # a cast weight that is kept would not be cast anew in a replay
    network.train()
    try:
        with precision.computing():
            torch.cuda.make_graphed_callables(network, (images,))
    finally:
        torch.set_autocast_cache_enabled(cached)


def choose(
    network: Network,
    images: Tensor,
    context: RankContext,
    run: Callable[[], None],
    steps_ahead: int,
    beside: Callable[[], None] = lambda: None,
) -> Execution:
    """The way that the configuration names, or the fastest of those it leaves open; the same on all ranks; all must call it.

    `run`: one forward and backward pass, without the exchange of gradients. `beside`: what goes eagerly beside a captured
    graph, whose memory must have room beside the graph's. Raises BadConfiguration (see `modes`), NotHad where no way that is
    left open can be had, and DoesNotFit where a way that is insisted on does not fit.
    """
    open_modes = _computing_the_same(modes_of(context.conf, on_cuda=context.device.type == "cuda"), context)
    return fastest(open_modes, network, images, context, run, steps_ahead, beside)


def _computing_the_same(open_modes: tuple[ExecutionMode, ...], context: RankContext) -> tuple[ExecutionMode, ...]:
    """Without the ways whose fused kernels do not compute what torch does on this device. Raises NotHad if none is left."""
    wrong: dict[Fusion, str] = {}
    for fusion in dict.fromkeys(mode.fused for mode in open_modes if mode.fused != "no"):
        from aiperf.train.fused.check import worst

        problem = worst(context.device, context.precision.dtype, fusion)
        if not context.all_agree(problem is None):
            wrong[fusion] = problem or "so another rank said"
            print(f"fused={fusion} does not compute what torch does: {wrong[fusion]}", file=sys.stderr, flush=True)
    left = tuple(mode for mode in open_modes if mode.fused not in wrong)
    if not left:
        raise NotHad(f"trainer.fused={context.conf.fused!r} does not compute what torch does: {wrong}")
    return left


def fastest(
    open_modes: tuple[ExecutionMode, ...],
    network: Network,
    images: Tensor,
    context: RankContext,
    run: Callable[[], None],
    steps_ahead: int,
    beside: Callable[[], None] = lambda: None,
) -> Execution:
    """The first way, unless another is expected to pay, is tried, and measures faster. Rank 0's clock decides for all."""
    if open_modes[0] == EAGER:
        first = Execution(network, EAGER, images, context.precision)
    else:
        first = _insisted_on(open_modes[0], network, images, context, run, beside)
    if len(open_modes) == 1:
        return first
    base = _timed(context, run)
    executions, measured = [first], {first.mode: base}
    while True:
        # gains are relative to eager; where that is not open, to the way that is there without further cost
        relative = {EAGER: base, **measured}
        mode = context.expected.next_to_try(open_modes, relative, steps_ahead)
        at = _told(context, -1 if mode is None else open_modes.index(mode))
        if at < 0:
            break
        mode = open_modes[at]
        executions[-1].remove()
        began = time.monotonic()
        try:
            execution = Execution(network, mode, images, context.precision, context.compiler)
            _first_run(execution, run, beside)
            context.timeline.anchor()
            seconds = time.monotonic() - began
            step = _timed(context, run)
        except (torch.cuda.OutOfMemoryError, NotHad) as error:
            print(f"{mode} cannot be had: {error}", file=sys.stderr, flush=True)
            seconds, step = time.monotonic() - began, inf
            _strip(network)
            execution = Execution(network, EAGER, images, context.precision)
        if not context.all_agree(step < inf):
            step = inf
        measured[mode] = step
        context.expected = context.expected.learn(mode, seconds, base, step)
        executions.append(execution)
    best = _told(context, min(range(len(executions)), key=lambda number: list(measured.values())[number]))
    executions[-1].remove()
    executions[best].install()
    if not executions[best].mode.compiled and any(mode.compiled for mode in measured):
        _forget_compiled()
    return executions[best]


def _insisted_on(
    mode: ExecutionMode,
    network: Network,
    images: Tensor,
    context: RankContext,
    run: Callable[[], None],
    beside: Callable[[], None],
) -> Execution:
    """A way that no other may stand in for. Raises NotHad and DoesNotFit, on all ranks alike."""
    execution: Execution | None = None
    problem, fits = "", True
    try:
        execution = Execution(network, mode, images, context.precision, context.compiler)
        _first_run(execution, run, beside)
    except NotHad as error:
        problem = str(error)
    except torch.cuda.OutOfMemoryError:
        fits = False
    fits, is_had = context.all_agree(fits), context.all_agree(not problem)
    if fits and is_had:
        assert execution is not None
        return execution
    _strip(network)
    if execution is not None:
        execution.close()
    if not fits:
        network.zero_grad(set_to_none=True)
        raise DoesNotFit(f"a batch of {len(images)} does not fit as {mode}")
    raise NotHad(f"the network cannot be launched as {mode}: {problem or 'another rank said so'}")


def _first_run(execution: Execution, run: Callable[[], None], beside: Callable[[], None]) -> None:
    """Compiles. Raises NotHad."""
    from torch._dynamo.exc import TorchDynamoException

    try:
        run()
    except (TorchDynamoException, RuntimeError) as error:
        # torch 2.13 has no class of its own for "fullgraph=True found no compiled frames"
        if not isinstance(error, TorchDynamoException) and "torch.compile" not in str(error):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise NotHad(" ".join(lines[:3])) from error
    execution.verify()
    if execution.mode.cuda_graphs:
        execution.remove()
        beside()
        execution.install()


def _told(context: RankContext, number: int) -> int:
    """Rank 0's number."""
    return round(context.collective.total([float(number) if context.is_first else 0.0])[0])


def _timed(context: RankContext, run: Callable[[], None]) -> float:
    """Seconds of one run, of three."""
    begin = context.timeline.mark()
    for _ in range(_TIMED_STEPS):
        run()
    end = context.timeline.mark()
    return (context.timeline.second(end) - context.timeline.second(begin)) / _TIMED_STEPS
