"""Ray with an autoscaler that starts and ends nodes on this machine, for runs whose workers join and leave.

`python -m tests.rigs.autoscaler FOLDER WORD…` runs a complete story. Start it in its own process namespace (`run_story` does),
since the nodes are processes of the autoscaler and must end with it. Ray's head has no processor, and is the only node. A
run requests two nodes. Once both train, one of them is drained and dies, and the autoscaler starts another. Ray's provider
gives
all nodes this host's address.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from aiperf.drive.ray.cluster.head import own_address
from aiperf.drive.session import END_REQUEST
from aiperf.journal.events import AnyEvent, EpochFinished, TrialStarted, WorkerJoined
from aiperf.journal.journal import NAME, read
from tests.rigs.namespaces import REPOSITORY

NODES = 2
HEAD_ID = "f" * 51 + "0" * 5
"""Type of node as Ray calls a head with such nodes, whatever its arguments."""
NOTICE_SECONDS = 5
LIMIT_SECONDS = 400.0
"""Limit of each wait of the story. A loaded machine starts a node in a minute."""


def run_story(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the story to its end. Needs root, for its own process namespace."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    return subprocess.run(
        [*apart, sys.executable, "-m", "tests.rigs.autoscaler", str(folder), *words],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=1800,
    )


def story(folder: Path, words: Sequence[str]) -> int:
    """Return the run's exit status. Print one line per step of the story."""
    host, port = own_address() or "127.0.0.1", 26379
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    temporary = Path("/tmp") / f"r-el-{secrets.token_hex(3)}"
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
    options = [f"--node-ip-address={host}", f"--temp-dir={temporary}", "--num-cpus=0", "--include-dashboard=false"]
    configuration = folder / "autoscaler.json"
    configuration.write_text(json.dumps(_configuration(f"{host}:{port}")))
    of_head = {
        "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD_ID,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID,
    }
    with (folder / "head.log").open("wb") as log:
        subprocess.Popen(
            [*start, *options, f"--autoscaling-config={configuration}"],
            env=environment | of_head,
            stdout=log,
            stderr=log,
        )
    cluster = ["+cluster=ray", f"cluster.address={host}:{port}", "cluster.nodes=2"]
    asks = [f"cluster.ask_nodes={NODES}", "cluster.ask_cpus=1", f"cluster.patience_seconds={LIMIT_SECONDS:.0f}"]
    _await(lambda: _answers(host, port), "Ray's head")
    run = subprocess.Popen(
        [sys.executable, "-m", "aiperf", *cluster, *asks, f"runs={folder}", *words], cwd=folder, env=environment
    )

    def reached(law: Callable[[list[AnyEvent]], bool]) -> bool:
        if run.poll() is not None:
            raise RuntimeError(f"the run ended with status {run.returncode} in the midst of the story")
        journals = list(folder.glob(f"*/{NAME}"))
        return bool(journals) and law(list(read(journals[0].parent)))

    _await(lambda: reached(_both_train), "two workers in training")
    node = _nodes()[0]
    drain = [sys.executable, "-m", "ray.scripts.scripts", "drain-node", f"--address={host}:{port}", f"--node-id={node}"]
    why = ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=spot"]
    subprocess.run([*drain, *why, f"--deadline-remaining-seconds={NOTICE_SECONDS}"], env=environment, check=True)
    print(f"drained {node}", flush=True)
    time.sleep(NOTICE_SECONDS)
    print(f"killed {_kill(node)} processes of {node}", flush=True)
    _await(lambda: reached(_another_trains), "a worker on another node in training")
    print("another trains", flush=True)
    (journal,) = folder.glob(f"*/{NAME}")
    (journal.parent / END_REQUEST).touch()
    return run.wait(LIMIT_SECONDS)


def _configuration(address: str) -> dict[str, object]:
    """As Ray's own tests give it to their autoscaler."""
    lists = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    return {
        "cluster_name": "elastic",
        "max_workers": NODES,
        "provider": {
            # by its class: under its own name Ray reads a file of defaults that its wheel lacks (Ray 2.60)
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
            "launch_multiple": True,
            "head_node_id": HEAD_ID,
            "gcs_address": address,
        },
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {
                "resources": {"CPU": 1, "object_store_memory": 100 * 2**20},
                "node_config": {},
                "min_workers": 0,
                "max_workers": NODES,
            },
        },
        "auth": {},
        "docker": {},
        "upscaling_speed": 100,
        "idle_timeout_minutes": 1.0,
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
        **{f"{name}_commands": [] for name in lists},
    }


def _both_train(events: list[AnyEvent]) -> bool:
    """Each worker has an epoch behind it."""
    workers = {event.worker for event in events if isinstance(event, WorkerJoined)}
    return len(workers) == NODES and _finished_epochs(events) == workers


def _another_trains(events: list[AnyEvent]) -> bool:
    return len(_finished_epochs(events)) > NODES


def _finished_epochs(events: list[AnyEvent]) -> set[int]:
    """Workers that have finished an epoch."""
    of: dict[tuple[int, int], int] = {}
    done: set[int] = set()
    for event in events:
        if isinstance(event, TrialStarted):
            of[event.trial, event.attempt] = event.worker
        elif isinstance(event, EpochFinished):
            done.add(of[event.trial, event.attempt])
    return done


def _nodes() -> list[str]:
    """Identifiers of the nodes that the autoscaler has started, by their processes."""
    found = {_node_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    return sorted(node for node in found if node is not None and node != HEAD_ID)


def _kill(node: str) -> int:
    """End all processes of a host at once, like a power loss."""
    of_node = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _node_of(int(entry.name)) == node
    ]
    for process in of_node:
        os.kill(process, signal.SIGKILL)
    return len(of_node)


def _node_of(process: int) -> str | None:
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:  # it has ended meanwhile
        return None
    name = b"RAY_OVERRIDE_NODE_ID_FOR_TESTING="
    return next((word[len(name) :].decode() for word in environment.split(b"\0") if word.startswith(name)), None)


def _answers(host: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _await(there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} within {LIMIT_SECONDS:.0f} s")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(story(Path(sys.argv[1]), sys.argv[2:]))
