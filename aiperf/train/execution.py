"""A network's training step launched in one of the ways of `compiling.py`; the fastest, where that is to be measured.

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
from aiperf.train.execution_mode import EAGER, Way, ways_of
from aiperf.train.fused import Fusion
from aiperf.train.module import Network
from aiperf.train.precision import Precision, unsearched
from aiperf.train.rank_context import Place

_TIMED_STEPS = 3


class NotHad(Exception):
    """A way of launching that this network cannot be had in; raised on all ranks alike."""


class Launch:
    """A network's way of being launched; only training steps with a whole batch go that way, all others are eager."""

    def __init__(
        self, network: Network, way: Way, images: Tensor, precision: Precision, compiler: str = "inductor"
    ) -> None:
        """`images`: a whole batch of the shape and type that the network will be trained with; values do not matter.
        `compiler`: the backend of torch.compile.

        Changes running statistics where graphs are captured. Compiling itself happens at the first call.
        """
        self.way = way
        self._network = network
        self._graphs_left_out = _graphs_left_out()
        if way.fused != "no":
            network.__dict__["forward"] = _fused(network, way.fused)
        if way.compiled:
            network._compiled_call_impl = _compiled(network, way, compiler)
        elif way.cuda_graphs:
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
        """The network is eager again, as it was built."""
        _strip(self._network)

    def compilations(self) -> int:
        """How often the network was compiled: once, if all is well."""
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list

        return len(_debug_get_cache_entry_list(self._network.straight_line.__code__))

    def verify(self) -> None:
        """After its first run. Raises NotHad where the network did not go this way, whatever torch says of it."""
        if self.way.compiled and not self.compilations():
            raise NotHad("torch.compile left the network as it is (TORCH_COMPILE_DISABLE or TORCHDYNAMO_DISABLE?)")
        if self.way.compiled and self.way.cuda_graphs and _graphs_left_out() > self._graphs_left_out:
            raise NotHad("torch.compile took no CUDA graphs for a part of the network")

    def close(self) -> None:
        """Lets go of the network, of its compiled code and its captured graphs. Done when its trial is over."""
        self.remove()
        self._forward = self._compiled = None
        if self.way.compiled:
            _forget_compiled()


def _compiled(network: Network, way: Way, compiler: str) -> Callable[[Tensor], Tensor]:
    """What is called in the network's stead.

    Each network's own function is compiled: torch.compile gives up on a function, silently, when it has been compiled 8 times,
    and all networks of a process share the methods of their class.
    """
    step = torch.compile(
        network.straight_line,
        fullgraph=True,  # what cannot be compiled whole, or not again, is an error and never quietly eager
        dynamic=False,
        backend=compiler,
        # CUDA graphs of compiled code are inductor's own matter (torch 2.13)
        mode="reduce-overhead" if way.cuda_graphs else None,
    )
    itself = weakref.ref(network)  # which would else hold what holds it, until the garbage collector looks

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
    """How often inductor did not capture what it was to capture."""
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
    place: Place,
    run: Callable[[], None],
    steps_ahead: int,
    beside: Callable[[], None] = lambda: None,
) -> Launch:
    """The way that the configuration names, or the fastest of those it leaves open; the same on all ranks; all must call it.

    `run`: one forward and backward pass, without the exchange of gradients. `beside`: what goes eagerly beside a captured
    graph, whose memory must have room beside the graph's. Raises BadConfiguration (see `ways`), NotHad where no way that is
    left open can be had, and DoesNotFit where a way that is insisted on does not fit.
    """
    open_ways = _computing_the_same(ways_of(place.conf, on_cuda=place.device.type == "cuda"), place)
    return fastest(open_ways, network, images, place, run, steps_ahead, beside)


def _computing_the_same(open_ways: tuple[Way, ...], place: Place) -> tuple[Way, ...]:
    """Without the ways whose fused kernels do not compute what torch does on this device. Raises NotHad if none is left."""
    wrong: dict[Fusion, str] = {}
    for fusion in dict.fromkeys(way.fused for way in open_ways if way.fused != "no"):
        from aiperf.train.fused.check import worst

        problem = worst(place.device, place.precision.dtype, fusion)
        if not place.all_agree(problem is None):
            wrong[fusion] = problem or "so another rank said"
            print(f"fused={fusion} does not compute what torch does: {wrong[fusion]}", file=sys.stderr, flush=True)
    left = tuple(way for way in open_ways if way.fused not in wrong)
    if not left:
        raise NotHad(f"trainer.fused={place.conf.fused!r} does not compute what torch does: {wrong}")
    return left


def fastest(
    open_ways: tuple[Way, ...],
    network: Network,
    images: Tensor,
    place: Place,
    run: Callable[[], None],
    steps_ahead: int,
    beside: Callable[[], None] = lambda: None,
) -> Launch:
    """The first way, unless another is expected to pay, is tried, and measures faster. Rank 0's clock decides for all."""
    if open_ways[0] == EAGER:
        first = Launch(network, EAGER, images, place.precision)
    else:
        first = _insisted_on(open_ways[0], network, images, place, run, beside)
    if len(open_ways) == 1:
        return first
    base = _timed(place, run)
    launches, measured = [first], {first.way: base}
    while True:
        # gains are relative to eager; where that is not open, to the way that is there without further cost
        relative = {EAGER: base, **measured}
        way = place.expected.next_to_try(open_ways, relative, steps_ahead)
        at = _told(place, -1 if way is None else open_ways.index(way))
        if at < 0:
            break
        way = open_ways[at]
        launches[-1].remove()
        began = time.monotonic()
        try:
            launch = Launch(network, way, images, place.precision, place.compiler)
            _first_run(launch, run, beside)
            place.timeline.anchor()
            seconds = time.monotonic() - began
            step = _timed(place, run)
        except (torch.cuda.OutOfMemoryError, NotHad) as error:
            print(f"{way} cannot be had: {error}", file=sys.stderr, flush=True)
            seconds, step = time.monotonic() - began, inf
            _strip(network)
            launch = Launch(network, EAGER, images, place.precision)
        if not place.all_agree(step < inf):
            step = inf
        measured[way] = step
        place.expected = place.expected.learn(way, seconds, base, step)
        launches.append(launch)
    best = _told(place, min(range(len(launches)), key=lambda number: list(measured.values())[number]))
    launches[-1].remove()
    launches[best].install()
    if not launches[best].way.compiled and any(way.compiled for way in measured):
        _forget_compiled()
    return launches[best]


def _insisted_on(
    way: Way, network: Network, images: Tensor, place: Place, run: Callable[[], None], beside: Callable[[], None]
) -> Launch:
    """A way that no other may stand in for. Raises NotHad and DoesNotFit, on all ranks alike."""
    launch: Launch | None = None
    problem, fits = "", True
    try:
        launch = Launch(network, way, images, place.precision, place.compiler)
        _first_run(launch, run, beside)
    except NotHad as error:
        problem = str(error)
    except torch.cuda.OutOfMemoryError:
        fits = False
    fits, is_had = place.all_agree(fits), place.all_agree(not problem)
    if fits and is_had:
        assert launch is not None
        return launch
    _strip(network)
    if launch is not None:
        launch.close()
    if not fits:
        network.zero_grad(set_to_none=True)
        raise DoesNotFit(f"a batch of {len(images)} does not fit as {way}")
    raise NotHad(f"the network cannot be launched as {way}: {problem or 'another rank said so'}")


def _first_run(launch: Launch, run: Callable[[], None], beside: Callable[[], None]) -> None:
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
    launch.verify()
    if launch.way.cuda_graphs:
        launch.remove()
        beside()
        launch.install()


def _told(place: Place, number: int) -> int:
    """Rank 0's number."""
    return round(place.collective.total([float(number) if place.is_first else 0.0])[0])


def _timed(place: Place, run: Callable[[], None]) -> float:
    """Seconds of one run, of three."""
    begin = place.timeline.mark()
    for _ in range(_TIMED_STEPS):
        run()
    end = place.timeline.mark()
    return (place.timeline.second(end) - place.timeline.second(begin)) / _TIMED_STEPS
