"""Execution of a network's training step: eagerly, compiled, by regions or with CUDA graphs. The fastest mode is measured.

A mode counts only if it was really used: torch.compile by itself falls back to eager execution without an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aiperf.own_files import PROGRAM, own_folder
from aiperf.scratch import CODE_CACHES, Scratch, compiler_caches
from aiperf.train.collectives.collective import is_of_exchange
from aiperf.train.device import first_line, is_of_device, is_out_of_memory
from aiperf.train.execution_mode import EAGER, ExecutionMode
from aiperf.train.memory_limits import DoesNotFit, rehearse
from aiperf.train.optimiser import optimiser_of
from aiperf.train.precision import Precision, unsearched
from aiperf.train.rank_context import RankContext
from aiperf.train.regions import compilations, in_regions, regions_of
from aiperf.train.torch_network import Network

_TIMED_STEPS = 3
BUCKET_BYTES = 25 << 20
"""DDP's own size of a bucket of gradients, after a first one of 1 MiB."""


class ModeUnavailable(Exception):
    """Error of a network that cannot be executed in a mode (compiled, CUDA graphs). All ranks raise it together."""


class Execution:
    """Network in an execution mode. Only training steps with a whole batch use it. All other passes are eager."""

    def __init__(
        self,
        network: nn.Module,
        mode: ExecutionMode,
        images: Tensor,
        precision: Precision,
        compiler: str = "inductor",
        ranks: int = 1,
    ) -> None:
        """`images`: a whole batch. Capturing graphs changes running statistics. Raise ModeUnavailable if the capture fails."""
        self.mode = mode
        self._network = network
        self._graphs_left_out = _graphs_left_out()
        if mode.compiled:
            assert isinstance(network, Network)
            network._compiled_call_impl = _compiled(network, mode, compiler, ranks)
        elif mode.regions:
            assert isinstance(network, Network)
            _keep_code_private()
            network._compiled_call_impl = _called(network, in_regions(network._graph, compiler))
        elif mode.cuda_graphs:
            with _refusals_are_not_had():
                _capture(network, images, precision)
        self._forward = network.__dict__.get("forward")
        self._compiled = network._compiled_call_impl

    @classmethod
    def eager(cls, network: nn.Module, precision: Precision) -> Execution:
        return cls(network, EAGER, torch.empty(0), precision)

    @contextmanager
    def eager_if(self, eager: bool) -> Iterator[None]:
        """Eager if `eager`: another size would be compiled again, and cuDNN's search takes longer than the one step."""
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
        """Put the network into the mode again, after `remove`. Nothing is compiled or captured again."""
        self._network._compiled_call_impl = self._compiled
        if self._forward is not None:
            self._network.__dict__["forward"] = self._forward

    def remove(self) -> None:
        """Make the network eager. Compiled code and captured graphs are kept for `install`."""
        _strip(self._network)

    def compilations(self) -> int:
        """Return the number of compiled versions of the network's forward pass or of its regions. 0: torch compiled nothing."""
        if self.mode.regions:
            return compilations()
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list

        assert isinstance(self._network, Network)
        return len(_debug_get_cache_entry_list(self._network.straight_line.__code__))

    def verify(self) -> None:
        """Raise ModeUnavailable if the first run did not use this mode. Call it after the first run."""
        if self.mode.regions and isinstance(self._network, Network) and not regions_of(self._network._graph):
            raise ModeUnavailable("the network has no batch normalisation before a ReLU")
        if self.mode.needs_compiler and not self.compilations():
            raise ModeUnavailable("torch.compile compiled nothing: unset TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE")
        if self.mode.compiled and self.mode.cuda_graphs and _graphs_left_out() > self._graphs_left_out:
            raise ModeUnavailable(
                "torch.compile captured no CUDA graphs for a part of the network: set trainer.cuda_graphs=off"
            )

    def close(self) -> None:
        self.remove()
        self.release()

    def release(self, *, keep_compiled: bool = False) -> None:
        """`keep_compiled`: other compiled code of this process is still in use, and none is released."""
        self._forward = self._compiled = None
        if self.mode.compiled and not keep_compiled:
            _forget_compiled()


def _compiled(network: Network, mode: ExecutionMode, compiler: str, ranks: int) -> Callable[[Tensor], Tensor]:
    """Each network has its own function to compile: torch.compile gives up silently on one that was compiled 8 times."""
    _keep_code_private()
    # inductor captures the CUDA graphs of compiled code itself (torch 2.13)
    options: dict[str, Any] = {"backend": compiler, "mode": "reduce-overhead" if mode.cuda_graphs else None}
    if ranks > 1:
        options = {"backend": _in_buckets(compiler, mode)}
    step = torch.compile(
        network.straight_line,
        fullgraph=True,  # a graph break or a recompilation is an error, never a silent eager fallback
        dynamic=False,
        **options,
    )
    return _called(network, step)


def _called(network: Network, step: Callable[[Network, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    itself = weakref.ref(
        network
    )  # a strong reference would be a cycle, and keep the network until the garbage collector runs

    def call(images: Tensor) -> Tensor:
        called = itself()
        assert called is not None, "called through it"
        return step(called, images)

    return call


def _in_buckets(compiler: str, mode: ExecutionMode) -> Callable[..., Any]:
    """Return a compiler of one graph for each bucket of gradients.

    A single graph hands over all gradients at its end, so that no exchange overlaps with the backward pass. torch splits only
    networks that DDP has wrapped, and Horovod's not at all.
    """
    from torch._dynamo import lookup_backend
    from torch._dynamo.backends.distributed import DDPOptimizer
    from torch._inductor import list_mode_options

    compile_bucket: Callable[..., Any] = lookup_backend(compiler)
    if mode.cuda_graphs:
        compile_bucket = partial(compile_bucket, config_patches=list_mode_options("reduce-overhead"))
    compiling: Callable[..., Any] = DDPOptimizer(BUCKET_BYTES, compile_bucket).compile_fn
    return compiling


@cache
def _keep_code_private() -> Scratch | None:
    """Check the folders in which compiled code is looked for, or make them: it is executed. torch's default is in /tmp."""
    for name in CODE_CACHES:
        if chosen := os.environ.get(name):
            folder = Path(chosen).resolve()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with own_folder(folder, PROGRAM):
                pass
    if not compiler_caches(os.environ, Path()):
        return None
    scratch = Scratch()
    os.environ |= compiler_caches(os.environ, scratch.path)
    return scratch


def _forget_compiled() -> None:
    """Release what torch keeps of deleted networks, including pools of CUDA graphs. Takes 0.5 ms (torch 2.13)."""
    if not compilations():
        torch.compiler.reset()
    elif torch.cuda.is_available():  # a reset would forget the regions, too
        from torch._inductor.cudagraph_trees import reset_cudagraph_trees

        reset_cudagraph_trees()


def _graphs_left_out() -> int:
    utils = sys.modules.get("torch._dynamo.utils")
    return 0 if utils is None else int(utils.counters["inductor"]["cudagraph_skips"])


def _strip(network: nn.Module) -> None:
    network._compiled_call_impl = None  # what nn.Module.compile sets, torch 2.13
    network.__dict__.pop("forward", None)  # what make_graphed_callables sets


def _capture(network: nn.Module, images: Tensor, precision: Precision) -> None:
    """Capture forward and backward pass as two CUDA graphs. Evaluation still calls the network's own forward."""
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)  # a cached cast of a weight would not be repeated in a replay
    network.train()
    try:
        with precision.computing():
            torch.cuda.make_graphed_callables(network, (images,))
    finally:
        torch.set_autocast_cache_enabled(cached)


def fastest(
    open_modes: tuple[ExecutionMode, ...],
    network: Network,
    images: Tensor,
    context: RankContext,
    run: Callable[[], None],
    steps_ahead: int,
    eager_passes: Callable[[], None] = lambda: None,
) -> Execution:
    """Return the execution in the fastest mode that was measured. All ranks must call it and get the same mode.

    The first open mode is always prepared, another one only if it is expected to save time over `steps_ahead` steps.
    `run`: a step without an exchange, so that no rank waits for one on which it fails. Measured steps have the exchange.
    `eager_passes`: runs the passes that need memory in addition to a captured graph. Raise ModeUnavailable or DoesNotFit, on
    all ranks, if the first mode does not work.
    """

    def tried(mode: ExecutionMode) -> tuple[Execution | None, str]:
        if not mode.needs_compiler:
            return prepared(mode)
        # the first rank of a host compiles while the others wait, and they read its code from the cache of the host
        first = None if context.reads_code else prepared(mode)
        context.all_agree(True)
        return first or prepared(mode)

    def prepared(mode: ExecutionMode) -> tuple[Execution | None, str]:
        try:
            execution = Execution(network, mode, images, context.precision, context.compiler, context.collective.ranks)
            _first_run(execution, run, eager_passes)
        except ModeUnavailable as error:
            return None, str(error)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            network.zero_grad(set_to_none=True)
            return None, _FULL + first_line(error)
        return execution, ""

    if open_modes[0] == EAGER:
        first = Execution(network, EAGER, images, context.precision)
    else:
        first = _required(open_modes[0], network, len(images), context, *tried(open_modes[0]))
    if len(open_modes) == 1:
        return first
    base = _exchanging_step(context, network, images)
    context.expected = context.expected.next_trial()
    best, measured = first, {first.mode: base}
    while True:
        # gains are relative to eager; without eager among the open modes, to the first one, which costs nothing more
        relative = {EAGER: base, **measured}
        mode = context.expected.next_to_try(open_modes, relative, steps_ahead)
        at = round(of_first_rank(context, -1 if mode is None else open_modes.index(mode)))
        if at < 0:
            return best
        mode = open_modes[at]
        best.remove()
        began, step = time.monotonic(), inf
        execution, problem = tried(mode)
        if execution is None:
            print(f"{mode} is not available: {problem}", file=sys.stderr, flush=True)
        if context.all_agree(execution is not None):
            context.timeline.anchor()
            step = _exchanging_step(context, network, images)
        context.expected = context.expected.learn(mode, time.monotonic() - began, base, step)
        is_faster = bool(of_first_rank(context, step < measured[best.mode]))
        measured[mode] = step
        _strip(network)
        # a mode that is not kept releases its graphs, as large as a whole batch, before the next one is captured
        slower, best = (best, execution) if is_faster and execution is not None else (execution, best)
        if slower is not None:
            slower.release(keep_compiled=best.mode.compiled)
        elif mode.compiled and not best.mode.compiled:
            _forget_compiled()
        del slower, execution
        best.install()


_FULL = "the memory is full"


def _required(
    mode: ExecutionMode, network: Network, batch: int, context: RankContext, execution: Execution | None, problem: str
) -> Execution:
    is_full = problem.startswith(_FULL)
    fits, is_available = context.all_agree(not is_full), context.all_agree(is_full or not problem)
    if fits and is_available:
        assert execution is not None
        return execution
    _strip(network)
    if execution is not None:
        execution.close()
    if not fits:
        raise DoesNotFit(
            f"a batch of {batch} does not fit as {mode}: {problem or 'another rank of the worker reported it'}"
        )
    raise ModeUnavailable(
        f"the training step cannot run as {mode} here: {problem or 'another rank of the worker reported it'}. "
        "Set trainer.compile and trainer.cuda_graphs to auto or off"
    )


def _first_run(execution: Execution, run: Callable[[], None], eager_passes: Callable[[], None]) -> None:
    with _refusals_are_not_had():
        run()
    execution.verify()
    if execution.mode.cuda_graphs:
        execution.remove()
        eager_passes()
        execution.install()


@contextmanager
def _refusals_are_not_had() -> Iterator[None]:
    """Raise ModeUnavailable for a mode that the compiler, Triton or the capture refuses."""
    from torch._dynamo.exc import TorchDynamoException

    try:
        yield
    except Exception as error:
        is_of_compiler = isinstance(error, TorchDynamoException) or type(error).__module__.startswith("triton")
        # CUDA reports a refused capture as it reports a failed device
        is_device = is_of_device(error) and "captur" not in str(error)
        if is_out_of_memory(error) or is_device or is_of_exchange(error):
            raise
        if not is_of_compiler and not isinstance(error, RuntimeError | OSError | subprocess.CalledProcessError):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ModeUnavailable(" ".join(lines[:3])) from error


def of_first_rank(context: RankContext, number: float) -> float:
    return context.collective.total([float(number) if context.is_first else 0.0])[0]


def timed(context: RankContext, run: Callable[[], None], steps: int = _TIMED_STEPS) -> float:
    begin = context.timeline.mark()
    for _ in range(steps):
        run()
    end = context.timeline.mark()
    return (context.timeline.second(end) - context.timeline.second(begin)) / steps


def _exchanging_step(context: RankContext, network: Network, images: Tensor) -> float:
    """Return the seconds of a step with the exchange of gradients, without the optimiser. All ranks must call it."""
    exchange = context.collective.exchange(network, optimiser_of(network, context.conf), None, context.timeline)
    run = partial(rehearse, network, images, context.precision, exchange)
    try:
        if context.collective.ranks > 1:
            run()  # DDP puts its buckets in order after it
        return timed(context, run)
    finally:
        exchange.close()
