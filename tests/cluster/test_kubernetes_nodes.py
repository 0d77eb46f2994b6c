"""Whole runs on a real Kubernetes of four nodes, each from one command, with good and bad ends.

Each trains for one to four minutes: `make test-long ARGS=tests/cluster/test_kubernetes_nodes.py`. The head comment of
`tests/rigs/kubernetes/build.sh` names the requirements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from aiperf.journal.events import AnyEvent, RunEnded, RunResumed, TrialPrepared, WorkerJoined, WorkerLost
from aiperf.journal.journal import NAME, read
from aiperf.report.gather import gather
from tests.accounting.test_reference_score import agrees
from tests.audit.run_model import audit
from tests.rigs.foreign_client import METHODS
from tests.rigs.kubernetes.follower import Follower
from tests.rigs.kubernetes.nodes import Cluster, cluster, missing
from tests.rigs.kubernetes.operator import operator
from tests.rigs.kubernetes_api import crds
from tests.rigs.namespaces import REPOSITORY, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"no nodes of Kubernetes: {missing()}"),
]
SMALL = (
    "cluster.pull_policy=Never",
    "cluster.cpus=1",
    "cluster.memory=3Gi",
    "cluster.head_cpus=1",
    "cluster.head_memory=4Gi",
    "cluster.shared_memory=512Mi",
    "schedule.warmup_seconds=10",
)
SECONDS = 900.0
"""Limit of each wait. A busy machine of two cores starts a head in two minutes."""
UNAUTHENTICATED = 16
"""Status of gRPC."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("kubernetes"), 4) as rig:
        yield rig


@pytest.fixture(scope="module")
def kuberay(rig: Cluster) -> Iterator[None]:
    """KubeRay's CRDs, and a stand-in for its operator."""
    for path in sorted(crds().glob("ray.io_*.yaml")):
        rig.plane.kubectl("create", "--validate=false", "-f", str(path))
    rig.plane.wait(lambda: "rayjobs" in rig.plane.kubectl("api-resources", "--api-group=ray.io", "-o", "name"))
    with operator(rig.plane.admin, rig.folder / "operator.log"):
        yield


class Run:
    """A run in its own namespace, or in that of another run, followed by one command."""

    def __init__(
        self, rig: Cluster, folder: Path, name: str, *words: str, namespace: str = "", image: str = ""
    ) -> None:
        self.rig, self.namespace = rig, namespace or f"run-{name}"
        self.volume = rig.folder / "volumes" / self.namespace
        if not namespace:
            rig.new_namespace(self.namespace)
        folder = folder / name
        folder.mkdir()
        where = (f"cluster.image={image or rig.image}", f"cluster.namespace={self.namespace}", f"name={name}")
        given = {word.partition("=")[0] for word in words}
        small = (word for word in SMALL if word.partition("=")[0] not in given)
        self.name, self.follower = name, Follower(rig.plane.admin, folder, *small, *where, *words)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        with self.follower:
            self.rig.plane.kubectl("delete", "namespace", self.namespace, "--wait=false", "--ignore-not-found")

    def until(self, happened: Callable[[list[AnyEvent]], bool], what: str) -> list[AnyEvent]:
        """Wait until the journal on the volume fulfils the condition, and return its events."""
        deadline = time.monotonic() + SECONDS
        while not (folders := list(self.volume.glob(f"*-{self.name}"))):
            assert time.monotonic() < deadline, self.follower.output
            time.sleep(0.5)
        return until(folders[0], happened, what, SECONDS, lambda: None, lambda: self.follower.output)

    def pods(self, role: str) -> list[dict[str, str]]:
        """Return name, node, phase and address of the pods of a role."""
        words = ("get", "pods", "-n", self.namespace, "-l", f"aiperf-role={role}", "-o", "yaml")
        items = yaml.safe_load(self.rig.plane.kubectl(*words))["items"]
        return [
            {
                "name": each["metadata"]["name"],
                "node": each["spec"].get("nodeName", ""),
                "phase": "Terminating" if each["metadata"].get("deletionTimestamp") else each["status"]["phase"],
                "address": each["status"].get("podIP", ""),
            }
            for each in items
        ]

    def scored(self) -> list[AnyEvent]:
        """Wait for the end of the command, and check its report by two independent programs. Return the events."""
        status = self.follower.end(SECONDS)
        assert status == 0, self.follower.output
        (folder,) = (self.follower.folder / "runs").glob(f"*-{self.name}")
        assert (folder / "report.html").is_file() and (folder / "report.json").is_file()
        events = list(read(folder))
        audit(events)
        agrees(folder / NAME)
        assert isinstance(events[-1], RunEnded) and events[-1].reason == "duration"
        assert gather(iter(events)).score.valid
        print(self.follower.output[-1500:])
        return events


def trains(events: Sequence[AnyEvent]) -> bool:
    return any(isinstance(event, TrialPrepared) for event in events)


def joined(events: Sequence[AnyEvent]) -> list[WorkerJoined]:
    return [event for event in events if isinstance(event, WorkerJoined)]


def lost(events: Sequence[AnyEvent]) -> list[int]:
    return [event.worker for event in events if isinstance(event, WorkerLost)]


PLAIN = ("cluster.operator=none", "cluster.max_workers=2", "cluster.start_workers=2")


def test_plain_jobs_with_two_workers_end_with_a_report(rig: Cluster, tmp_path: Path) -> None:
    with Run(rig, tmp_path, "plain", *PLAIN, "schedule.duration_seconds=75") as run:
        events = run.scored()

    assert len(joined(events)) == 2
    assert not list(run.volume.glob("*/ray-head.json")), "the token goes with the run"


def test_the_autoscaler_starts_and_ends_three_workers(rig: Cluster, kuberay: None, tmp_path: Path) -> None:
    words = ("cluster.max_workers=3", "cluster.start_workers=3", "cluster.idle_seconds=10")
    with Run(rig, tmp_path, "elastic", *words, "schedule.duration_seconds=90") as run:
        run.follower.until("running on the head\n", SECONDS)
        assert run.pods("worker") == []
        events = run.scored()

    assert len({event.host for event in joined(events)}) >= 3
    rig.plane.wait(lambda: not run.pods("worker"))
    assert [pod["phase"] for pod in run.pods("head")] == ["Running"]


def test_a_node_without_power_costs_its_worker(rig: Cluster, kuberay: None, tmp_path: Path) -> None:
    words = ("cluster.max_workers=2", "cluster.start_workers=2", "schedule.duration_seconds=210")
    with Run(rig, tmp_path, "power", *words) as run:
        run.until(trains, "a trial")
        (head,) = run.pods("head")
        node = next(pod["node"] for pod in run.pods("worker") if pod["node"] != head["node"])
        rig.off(node)
        try:
            run.until(lambda events: len(joined(events)) > 2, "a worker on another node")
            events = run.scored()
        finally:
            rig.on(node)

    assert lost(events)


def test_drained_pods_continue_on_another_node(rig: Cluster, tmp_path: Path) -> None:
    with Run(rig, tmp_path, "drain", *PLAIN, "cluster.apart=true", "schedule.duration_seconds=180") as run:
        run.until(trains, "a trial")
        (head,) = run.pods("head")
        node = next(pod["node"] for pod in run.pods("worker") if pod["node"] != head["node"])
        rig.plane.kubectl("drain", node, "--delete-emptydir-data", "--force", "--timeout=180s")
        try:
            run.until(lambda events: len(joined(events)) == 3, "a worker on another node")
            events = run.scored()
        finally:
            rig.plane.kubectl("uncordon", node)

    assert len(lost(events)) == 1


@pytest.mark.parametrize("by", ["none", "kuberay"])
def test_a_lost_head_resumes_from_the_journal(rig: Cluster, kuberay: None, tmp_path: Path, by: str) -> None:
    words = (f"cluster.operator={by}", "schedule.duration_seconds=360")
    with Run(rig, tmp_path, f"head-{by}", *words) as run:
        run.until(trains, "a trial")
        (head,) = run.pods("head")
        rig.plane.kubectl("delete", "pod", "-n", run.namespace, head["name"], "--grace-period=0", "--force")
        events = run.scored()

    assert any(isinstance(event, RunResumed) for event in events)
    assert "the driver was down for" in run.follower.output


def test_the_command_waits_for_a_stopped_api_server(rig: Cluster, tmp_path: Path) -> None:
    with Run(rig, tmp_path, "silence", *PLAIN, "schedule.duration_seconds=75") as run:
        run.until(trains, "a trial")
        rig.plane.stop_server()
        time.sleep(30)
        rig.plane.start_server()
        run.scored()


def test_two_runs_share_a_namespace(rig: Cluster, kuberay: None, tmp_path: Path) -> None:
    duration = "schedule.duration_seconds=90"
    with (
        Run(rig, tmp_path, "first", "cluster.operator=none", duration) as first,
        Run(rig, tmp_path, "second", duration, namespace=first.namespace) as second,
    ):
        hosts = [{event.host for event in joined(run.scored())} for run in (first, second)]

    assert hosts[0].isdisjoint(hosts[1])


def test_a_stranger_in_another_namespace_is_refused(rig: Cluster, kuberay: None, tmp_path: Path) -> None:
    script = (REPOSITORY / "tests/rigs/foreign_client.py").read_text()
    with Run(rig, tmp_path, "guarded", "schedule.duration_seconds=120") as run:
        run.until(trains, "a trial")
        (head,) = run.pods("head")
        addresses = [f"{head['address']}:{port}" for port in (6379, 8265, 10001)]
        stranger = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "stranger", "namespace": "default"},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [
                    {
                        "name": "a",
                        "image": rig.image,
                        "imagePullPolicy": "Never",
                        "command": ["python", "-c", script, *addresses],
                    }
                ],
            },
        }
        rig.plane.apply(stranger)
        rig.plane.wait(
            lambda: "Succeeded" in rig.plane.kubectl("get", "pod", "stranger", "-o", "jsonpath={.status.phase}")
        )
        answers = yaml.safe_load(rig.plane.kubectl("logs", "stranger"))
        run.scored()

    gcs, dashboard, _ = (answers[address] for address in addresses)
    statuses = {gcs["grpc"][method] for method in METHODS if method.startswith("/ray.rpc.") and "Gcs" in method}
    assert statuses == {UNAUTHENTICATED}
    assert dashboard["http"]["POST /api/jobs/"].startswith("401")
    assert dashboard["http"]["GET /api/v0/nodes"].startswith("401")


def test_an_image_that_no_node_has_ends_the_job(rig: Cluster, tmp_path: Path) -> None:
    with Run(rig, tmp_path, "absent", *PLAIN, image="localhost/absent:1") as run:
        assert run.follower.end(SECONDS) == 2
        rig.plane.wait(lambda: {pod["phase"] for pod in run.pods("head") + run.pods("worker")} <= {"Terminating"})

    assert "can never start" in run.follower.output and "ErrImageNeverPull" in run.follower.output
    assert not list((run.follower.folder / "runs").iterdir())


def test_a_head_that_fails_at_once_is_explained_by_its_log(rig: Cluster, tmp_path: Path) -> None:
    """The driver looks for the data set in its pod, where the folder does not exist. The workers end with it."""
    words = (*PLAIN, "cluster.restarts=0", "dataset=images", "dataset.root=/data/absent")
    with Run(rig, tmp_path, "failing", *words) as run:
        assert run.follower.end(SECONDS) == 2
        rig.plane.wait(lambda: {pod["phase"] for pod in run.pods("worker")} <= {"Terminating"})

    assert "ended before its run began, and there is no report" in run.follower.output
    assert "container head:" in run.follower.output and "/data/absent" in run.follower.output


def test_a_quota_that_admits_only_the_head_is_shown(rig: Cluster, tmp_path: Path) -> None:
    rig.new_namespace("scarce")
    rig.plane.kubectl("create", "quota", "small", "-n", "scarce", "--hard=requests.cpu=1500m")
    with Run(rig, tmp_path, "scarce", *PLAIN, "cluster.cpus=2", namespace="scarce") as run:
        run.follower.until("running on the head (", SECONDS)
        assert "FailedCreate" in (shown := run.follower.output.splitlines()[-1]) and "exceeded quota: small" in shown
        assert run.pods("worker") == []
