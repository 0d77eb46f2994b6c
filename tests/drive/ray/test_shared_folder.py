"""A run's folder must be the same on all hosts.

A worker on a host with another folder does not come up, with a message.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray

from aiperf.data.dataset_config import SyntheticConf
from aiperf.drive.ray.ray_executor import RayExecutor
from aiperf.drive.ray.shared_folder import NONCE, check_shared, write_marker
from aiperf.drive.ray.slots import StartLaw
from aiperf.drive.ray.worker_host import WorkerPlan
from aiperf.errors import NotShared
from aiperf.journal.events import WorkerJoined, WorkerNotStarted
from aiperf.rules.proposals import Proposer
from aiperf.train.trainer_config import TrainerConf
from searchers.searcher_config import RandomConf
from tests.builders.history import space
from tests.rigs.ray_cluster import SmallCluster, small_cluster
from tests.rigs.stand_in_ranks import open_stand_in


def test_a_folder_with_the_drivers_word_is_shared(tmp_path: Path) -> None:
    check_shared(tmp_path, write_marker(tmp_path), patience_seconds=0.0)


@pytest.mark.parametrize("harm", ["no folder", "no word", "an earlier driver's word"])
def test_a_folder_without_it_is_refused_by_name_and_none_is_made(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "run"
    if harm != "no folder":
        folder.mkdir()
    if harm == "an earlier driver's word":
        write_marker(folder)

    with pytest.raises(
        NotShared, match=rf"not shared: '{folder}' on .*(no such|not in it|another driver's).*runs=FOLDER"
    ):
        check_shared(folder, "other", patience_seconds=0.3)

    assert folder.exists() == (harm != "no folder")


def test_a_word_that_is_seen_late_is_waited_for(tmp_path: Path) -> None:
    word = write_marker(tmp_path)
    (tmp_path / NONCE).rename(tmp_path / "hidden")
    late = threading.Timer(0.5, (tmp_path / "hidden").rename, [tmp_path / NONCE])
    late.start()

    check_shared(tmp_path, word, patience_seconds=60.0)

    late.join()


@contextmanager
def host_with_its_own(folder: Path, cluster: SmallCluster, address: str) -> Iterator[None]:
    """Node of the cluster with another file system mounted over a folder, like a forgotten mount."""
    ray_start = (
        f"{shlex.quote(sys.executable)} -m ray.scripts.scripts start --block --address={cluster.head} "
        f"--node-ip-address={address} --num-cpus=1 --disable-usage-stats"
    )
    command = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {shlex.quote(str(folder))} && exec {ray_start}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
def test_a_host_with_another_file_system_brings_no_worker(tmp_path: Path) -> None:
    """Real nodes, and a real mount that one of them alone has."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not have mounts of its own (unshare --mount)")
    folder = tmp_path / "run"
    folder.mkdir()
    with small_cluster() as cluster:
        cluster.add()
        with host_with_its_own(folder, cluster, "127.0.0.99"):
            _until(lambda: sum(node["Alive"] for node in _nodes()) == 3)
            executor = RayExecutor(
                WorkerPlan(TrainerConf(), SyntheticConf(), "", folder, time.time()),
                Proposer(RandomConf().build(), None),
                space(),
                first_worker=0,
                accelerators_per_worker=None,
                open_group=open_stand_in,
                law=StartLaw(first_pause_seconds=600.0),
            )
            executor.start()
            said: list[Any] = []

            def both() -> bool:
                said.extend(executor.messages(0.1))
                return {type(word) for word in said} >= {WorkerJoined, WorkerNotStarted}

            _until(both)
            executor.close()

    (refused,) = [word for word in said if isinstance(word, WorkerNotStarted)]
    assert refused.host == "127.0.0.99"
    assert f"this folder is not shared: '{folder}' on " in refused.reason and "tmpfs" in refused.reason
    assert len([word for word in said if isinstance(word, WorkerJoined)]) == 1
    assert list((folder / "telemetry").iterdir()) != []


def _nodes() -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return nodes


def _until(happened: Any) -> None:
    deadline = time.monotonic() + 600.0
    while not happened():
        assert time.monotonic() < deadline, "it did not happen within 600 s"
        time.sleep(0.1)
