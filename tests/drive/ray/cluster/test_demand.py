"""Request of a run to the autoscaler of its Ray, and its withdrawal."""

from __future__ import annotations

from typing import Any

import pytest

from aiperf.drive.ray.cluster.existing import requested_nodes
from cluster.place import Demand, Existing
from cluster.ray import RayConf


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, float]]]:
    """Return every request to Ray, in order. No Ray runs."""
    requests: list[list[dict[str, float]]] = []

    def request(*, bundles: list[dict[str, float]]) -> None:
        requests.append(bundles)

    monkeypatch.setattr("ray.autoscaler.sdk.request_resources", request)
    return requests


def test_all_nodes_are_requested_at_once_until_the_end(asked: list[Any]) -> None:
    each = {"CPU": 8.0, "GPU": 2.0}

    with requested_nodes(Demand(3, each)):
        assert asked == [[each, each, each]]

    assert asked[1:] == [[]]


def test_requested_nodes_are_released_however_the_run_ends(asked: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt), requested_nodes(Demand(1, {"CPU": 1.0})):
        raise KeyboardInterrupt

    assert asked[-1] == []


def test_without_declared_nodes_nothing_is_requested(asked: list[Any]) -> None:
    with requested_nodes(None):
        pass

    assert asked == []


def test_an_existing_ray_gets_a_node_request_only_if_configured() -> None:
    quiet = RayConf().place({})
    asking = RayConf(ask_nodes=2, ask_cpus=16, ask_accelerators=4).place({})

    assert isinstance(quiet, Existing) and quiet.demand is None
    assert isinstance(asking, Existing)
    assert asking.demand == Demand(2, {"CPU": 16.0, "GPU": 4.0})
