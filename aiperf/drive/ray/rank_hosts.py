"""Additional hosts of a worker that spans several nodes. The worker's first host creates a Ray actor on each other host."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import msgspec
import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.shared_folder import check_shared
from aiperf.drive.ray.slots import Share
from aiperf.errors import AiperfError
from aiperf.journal.events import HelperLost
from aiperf.journal.messages import Message
from aiperf.system.recorder import Recorder, Recording
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.ranks.remote_ranks import DistantHost, HostProperties, HostRankServer, StartChanges

PLACE_SECONDS = 300.0
"""Maximum time for an actor on another host to get its place and to answer."""
LOOKS_PER_SECOND = 200.0
"""Maximum polls per second of all other hosts together."""


class HostNotThere(AiperfError):
    """An additional host of a worker that does not answer. The worker cannot start."""


@ray.remote
class RankHost:
    """Ray actor on an additional host of a worker. It starts training processes (ranks) there, and ends with the worker."""

    def __init__(self, recipe: Recipe, recording: Recording) -> None:
        self._recipe = recipe
        self._recording = recording

    def hello(self, word: str | None) -> HostProperties:
        """Prepare this host for training processes and telemetry."""
        if word is not None:
            check_shared(self._recipe.run_folder, word)
        self._outpost = HostRankServer(self._recipe)
        hello = self._outpost.hello()
        self._name = hello.name
        self._recorder = Recorder(msgspec.structs.replace(self._recording, host=hello.name))
        self._recorder.start()
        return hello

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of `HostRankServer`, which controls the training processes on this host."""
        answer = getattr(self._outpost, method)(*arguments)
        return replace(answer, host_messages=self._messages()) if isinstance(answer, StartChanges) else answer

    def close(self) -> None:
        """End the training processes and the telemetry on this host."""
        self._outpost.close()
        self._recorder.stop()

    def _messages(self) -> tuple[Message, ...]:
        if (how := self._recorder.replaced()) is None:
            return ()
        return (HelperLost(worker=self._recipe.worker, helper="recorder", reason=f"on {self._name}: {how}"),)


class RankHosts:
    """Additional hosts of one worker that spans several nodes, each with its Ray actor."""

    def __init__(self, recipe: Recipe, hosts: Mapping[Share, Recording], word: str | None) -> None:
        """Start an actor on each additional host, and return when all have answered."""
        self._actors: list[Any] = []
        try:
            for share, recording in hosts.items():
                self._actors.append(_actor(replace(recipe, cores=share.cores), share, recording))
            hellos = [actor.hello.remote(word) for actor in self._actors]
            deadline = time.monotonic() + PLACE_SECONDS
            look = max(0.2, len(self._actors) / LOOKS_PER_SECOND)
            self.hosts = [
                _distant(share, actor, _answer(share, hello, deadline), look)
                for share, actor, hello in zip(hosts, self._actors, hellos, strict=True)
            ]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the training processes on all additional hosts, wait up to 5 s, and kill the actors. May be called again."""
        endings = [actor.close.remote() for actor in self._actors]
        if endings:
            ray.wait(endings, num_returns=len(endings), timeout=5.0)
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []


def _actor(recipe: Recipe, share: Share, recording: Recording) -> Any:
    options = RankHost.options(  # type: ignore[attr-defined]
        num_cpus=share.cores,
        num_gpus=share.accelerators,
        max_concurrency=8,  # poll() blocks until there is a message
        scheduling_strategy=NodeAffinitySchedulingStrategy(share.node, soft=False),
    )
    return options.remote(recipe, recording)


def _answer(share: Share, hello: ray.ObjectRef[Any], deadline: float) -> HostProperties:
    try:
        answer: HostProperties = ray.get(hello, timeout=max(0.0, deadline - time.monotonic()))
    except RayTaskError as error:
        if isinstance(error.cause, AiperfError):
            raise error.cause from error
        raise
    except RayError as error:
        why = " ".join(str(error).split()) or f"it has not answered within {PLACE_SECONDS:.0f} s"
        raise HostNotThere(
            f"a worker starts only with all of its hosts, but {share.address} does not answer: {why}. "
            "Check that this host is up and can be reached from the other hosts"
        ) from error
    return answer


def _distant(share: Share, actor: Any, hello: HostProperties, look_seconds: float) -> DistantHost:
    def call(method: str, *arguments: Any) -> Future[Any]:
        future: Future[Any] = actor.call.remote(method, *arguments).future()
        return future

    return DistantHost(hello.name, share.address, share.accelerators, hello.cores, call, look_seconds)
