"""What the tests of this folder share. Every one that needs a Ray in its own process takes it from here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiperf.drive.ray.local_cluster import local_ray


@pytest.fixture(scope="module")
def own_ray() -> Iterator[None]:
    """A Ray as a run brings it up: it joins no other that runs on the machine, and none joins it."""
    with local_ray():
        yield
