"""Fixtures of this folder. Every test that needs Ray in its own process uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from aiperf.drive.ray.cluster.started_ray import local_ray
from tests.rigs.ray_cluster import patiently
from tests.rigs.real_run import Begin, RealRun


@pytest.fixture(scope="module")
def own_ray() -> Iterator[None]:
    """A Ray as a run brings it up: it joins no other that runs on the machine, and none joins it."""
    with ExitStack() as stack:
        patiently(lambda: stack.enter_context(local_ray()))
        yield


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins a real run."""
    begun: list[RealRun] = []

    def run(*words: str) -> RealRun:
        begun.append(RealRun(tmp_path, *words))
        return begun[-1]

    yield run
    for one in begun:
        one.end()
