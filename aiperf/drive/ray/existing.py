"""A Ray that others have started: this process joins it for the length of a run, and leaves it as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from aiperf.drive.ray.head import await_nodes
from aiperf.drive.ray.started_ray import read_environment_anew
from aiperf.errors import RuntimeNotStarted
from cluster.place import Existing


@contextmanager
def existing_ray(place: Existing) -> Iterator[None]:
    """Joins it and waits for its nodes.

    Raises:
        RuntimeNotStarted: nobody answers there, or not to us.
        NoWorkers: too few nodes are there in time.
    """
    read_environment_anew()
    try:
        ray.init(address=place.address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        ray.shutdown()
        why = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise RuntimeNotStarted(
            f"+cluster=ray joins the Ray at cluster.address; it could not at {place.address}: {why}. Run this on "
            " the head of that Ray, with its token in RAY_AUTH_TOKEN, or RAY_AUTH_MODE=disabled where it asks for none"
        ) from error
    try:
        await_nodes(place.nodes, place.fewest_nodes, place.patience_seconds)
        yield
    finally:
        ray.shutdown()
