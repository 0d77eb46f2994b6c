"""Joining a Ray of others: its nodes are free, it has its first node, and it is of the same release."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray._private import services
from ray._private.state import actors
from ray._private.utils import check_version_info

from aiperf.drive.ray.cluster import existing
from aiperf.drive.ray.cluster.existing import await_free_nodes
from aiperf.drive.ray.cluster.started_ray import named_if_not_started
from aiperf.errors import NoWorkers, RuntimeNotStarted
from tests.rigs.ray_cluster import SmallCluster, small_cluster


@pytest.mark.parametrize("versions", [("2.59.0", "3.11.7"), ("2.60.0", "3.9.1")])
def test_another_release_at_the_head_names_both_versions(versions: tuple[str, str]) -> None:
    metadata = dict(zip(("ray_version", "python_version"), versions, strict=True))

    with pytest.raises(RuntimeNotStarted) as error, named_if_not_started("could not join", "Set the token"):
        check_version_info(metadata, "10.0.0.1", raise_on_mismatch=True, python_version_match_level="minor")

    said = str(error.value)
    assert f"started with: Ray: {versions[0]} Python: {versions[1]}" in said and f"Ray: {ray.__version__}" in said
    assert said.endswith("Use the same Ray and Python on both sides") and "token" not in said


@pytest.mark.parametrize("looks", [0, 2])
def test_a_head_that_has_no_node_yet_is_waited_for(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, str]] = [{}] * looks
    monkeypatch.setattr(existing, "NODE_SECONDS", 0.0)
    monkeypatch.setattr(existing, "_nodes", lambda _: answers.pop() if answers else {"abc": "10.0.0.1"})
    monkeypatch.setattr(services, "find_node_ids", lambda: ["abc"])
    with socket.create_server(("127.0.0.1", 0)) as head:
        existing._check(f"127.0.0.1:{head.getsockname()[1]}")

    assert answers == []


def test_a_head_that_stays_without_a_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing, "FIRST_NODE_SECONDS", 0.5)
    monkeypatch.setattr(existing, "_nodes", lambda _: {})
    with socket.create_server(("127.0.0.1", 0)) as head, pytest.raises(RuntimeNotStarted, match="it has none"):
        existing._check(f"127.0.0.1:{head.getsockname()[1]}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SmallCluster]:
    with small_cluster() as cluster:
        yield cluster


def test_a_node_that_others_use_is_named_and_waited_for(cluster: SmallCluster) -> None:
    node = cluster.add(cpus=2)
    await_free_nodes(1, 60.0)
    filler = cluster.fill(node)

    with pytest.raises(NoWorkers, match=rf"others use 1 of 1 after 5 s \({cluster.address(node)}: 1 of 2 CPU\)"):
        await_free_nodes(1, 5.0)
    other = cluster.add(cpus=2)
    await_free_nodes(1, 60.0)
    with pytest.raises(NoWorkers, match="needs 2, but others use 1 of 2"):
        await_free_nodes(2, 0.0)

    threading.Timer(1.0, lambda: ray.kill(filler)).start()
    await_free_nodes(2, 60.0)
    assert other != node


def test_one_run_at_a_time_holds_a_ray(cluster: SmallCluster) -> None:
    cluster.add()
    held = await_free_nodes(1, 60.0)
    ready: Any = held.__ray_ready__  # its stub (Ray 2.60) never returns
    ray.get(ready.remote())
    node = actors()[held._actor_id.hex()]["Address"]["NodeID"]
    assert node == ray.get_runtime_context().get_node_id(), "it ends with no other node"

    with pytest.raises(NoWorkers, match="but another run holds that Ray after 1 s"):
        await_free_nodes(1, 1.0)
    threading.Timer(1.0, lambda: ray.kill(held)).start()
    await_free_nodes(1, 60.0)
