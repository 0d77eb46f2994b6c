"""A network's training step launched in one of the ways of `compiling.py`; the fastest, where that is to be measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import torch
from torch import Tensor, nn

from aiperf.train.compiling import EAGER, Way, ways
from aiperf.train.place import Place
from aiperf.train.precision import Precision

_TIMED_STEPS = 3


class Launch:
    """A network's way of being launched; only training steps with a whole batch go that way, all others are eager."""

    def __init__(self, network: nn.Module, way: Way, images: Tensor, precision: Precision) -> None:
        """`images`: a whole batch of the shape and type that the network will be trained with; values do not matter.

        Changes running statistics where graphs are captured. Compiling itself happens at the first call.
        """
        self.way = way
        self._network = network
        if way.compiled:
            # CUDA graphs of compiled code are inductor's own matter (torch 2.13: mode="reduce-overhead")
            network.compile(dynamic=False, mode="reduce-overhead" if way.cuda_graphs else None)
        elif way.cuda_graphs:
            _capture(network, images, precision)
        self._forward = network.__dict__.get("forward")
        self._compiled = network._compiled_call_impl

    @contextmanager
    def eager_if(self, eager: bool) -> Iterator[None]:
        """Within it the network is launched eagerly where asked: a batch of another size would be compiled anew, and does not
        fit a captured graph."""
        if not eager or self.way == EAGER:
            yield
            return
        self.remove()
        try:
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


def choose(network: nn.Module, images: Tensor, place: Place, run: Callable[[], None], steps_ahead: int) -> Launch:
    """The way that the configuration names, or the fastest of those it leaves open; the same on all ranks; all must call it.

    `run`: one forward and backward pass, without the exchange of gradients. Raises BadConfiguration (see `ways`).
    """
    open_ways = ways(place.conf.compile, place.conf.cuda_graphs, on_cuda=place.device.type == "cuda")
    return fastest(open_ways, network, images, place, run, steps_ahead)


def fastest(
    open_ways: tuple[Way, ...],
    network: nn.Module,
    images: Tensor,
    place: Place,
    run: Callable[[], None],
    steps_ahead: int,
) -> Launch:
    """The first way, unless another is expected to pay, is tried, and measures faster. Rank 0's clock decides for all."""
    first = Launch(network, open_ways[0], images, place.precision)
    if first.way != EAGER:
        run()  # compiles
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
            launch = Launch(network, way, images, place.precision)
            run()
            place.timeline.anchor()
            seconds = time.monotonic() - began
            step = _timed(place, run)
        except torch.cuda.OutOfMemoryError:
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
    return launches[best]


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
