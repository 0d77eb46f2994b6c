"""Additional hosts of a worker that spans several nodes. The worker's first host creates a Ray actor on each other host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.shared_folder import check_shared
from aiperf.drive.ray.slots import Share
from aiperf.errors import AiperfError
from aiperf.journal.events import HelperLost
from aiperf.journal.messages import Message
from aiperf.system.log import path as telemetry_path
from aiperf.system.recorder import Recorder, Recording
from aiperf.train.ranks.host_ranks import Recipe
from aiperf.train.ranks.remote_ranks import DistantHost, HostProperties, HostRankServer, StartChanges

PLACE_SECONDS = 300.0
"""Maximum time for an actor on another host to get its place and to answer."""
LOOKS_PER_SECOND = 200.0
"""Maximum polls per second of all other hosts together."""
RECORDER_SECONDS = 10.0
"""Minimum interval between two recorders, as on the leading host."""


class HostNotThere(AiperfError):
    """An additional host of a worker that does not answer. The worker cannot start."""


@ray.remote
class RankHost:
    """Ray actor on an additional host of a worker. It starts training processes (ranks) there, and ends with the worker."""

    def __init__(self, recipe: Recipe, host: int, accelerators: int, started_unix: float, driver: str | None) -> None:
        self._recipe = recipe
        self._host = host
        self._accelerators = accelerators
        self._started_unix = started_unix
        self._driver = driver
        self._recorder_began = 0.0

    def hello(self, word: str | None) -> HostProperties:
        """Prepare this host for training processes and telemetry."""
        if word is not None:
            check_shared(self._recipe.run_folder, word)
        self._outpost = HostRankServer(self._recipe)
        hello = self._outpost.hello()
        self._name = hello.name
        self._recorder = self._new_recorder()
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
        now = time.monotonic()
        if (how := self._recorder.end_in_words()) is None or now - self._recorder_began < RECORDER_SECONDS:
            return ()
        self._recorder, self._recorder_began = self._new_recorder(), now
        return (HelperLost(worker=self._recipe.worker, helper="recorder", reason=f"on {self._name}: {how}"),)

    def _new_recorder(self) -> Recorder:
        recorder = Recorder(
            Recording(
                out=str(telemetry_path(self._recipe.run_folder, self._recipe.worker, self._host)),
                host=self._name,
                worker=self._recipe.worker,
                epoch_unix=self._started_unix,
                accelerators=self._accelerators,
                driver=self._driver,
            )
        )
        recorder.start()
        return recorder


class RankHosts:
    """Additional hosts of one worker that spans several nodes, each with its Ray actor."""

    def __init__(
        self,
        recipe: Recipe,
        shares: Sequence[Share],
        started_unix: float,
        word: str | None,
        driver: str | None = None,
    ) -> None:
        """Start an actor on each additional host, and return when all have answered."""
        self._actors: list[Any] = []
        try:
            for number, share in enumerate(shares, 1):
                self._actors.append(_actor(replace(recipe, cores=share.cores), number, share, started_unix, driver))
            hellos = [actor.hello.remote(word) for actor in self._actors]
            deadline = time.monotonic() + PLACE_SECONDS
            look = max(0.2, len(self._actors) / LOOKS_PER_SECOND)
            self.hosts = [
                _distant(share, actor, _answer(share, hello, deadline), look)
                for share, actor, hello in zip(shares, self._actors, hellos, strict=True)
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


def _actor(recipe: Recipe, number: int, share: Share, started_unix: float, driver: str | None) -> Any:
    options = RankHost.options(  # type: ignore[attr-defined]
        num_cpus=share.cores,
        num_gpus=share.accelerators,
        max_concurrency=8,  # poll() blocks until there is a message
        scheduling_strategy=NodeAffinitySchedulingStrategy(share.node, soft=False),
    )
    return options.remote(recipe, number, share.accelerators, started_unix, driver)


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
