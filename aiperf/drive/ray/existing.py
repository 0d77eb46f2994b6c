"""A Ray that others have started: this process joins it for the length of a run, and leaves it as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from aiperf.drive.ray.demand import asked_for
from aiperf.drive.ray.head import await_nodes
from aiperf.drive.ray.started_ray import named_if_not_started, read_environment_anew, without_working_folder
from cluster.place import Existing

_REMEDY = "Run this on the head of that Ray, with its token in RAY_AUTH_TOKEN, or RAY_AUTH_MODE=disabled where it asks for none"


@contextmanager
def existing_ray(place: Existing) -> Iterator[None]:
    """Joins it and waits for its nodes.

    Raises:
        RuntimeNotStarted: nobody answers there, or not to us.
        NoWorkers: too few nodes are there in time.
    """
    read_environment_anew()
    offence = f"the run joins a Ray that is there already; it could not at {place.address}"
    with named_if_not_started(offence, _REMEDY):
        ray.init(
            address=place.address,
            job_config=without_working_folder(),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        with asked_for(place.demand):
            await_nodes(place.nodes, place.fewest_nodes, place.patience_seconds)
            yield
    finally:
        ray.shutdown()
