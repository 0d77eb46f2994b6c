"""A run handed to a Kubernetes cluster and followed there: the real client, against a stand-in of the API server."""

from __future__ import annotations

import base64
import io
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aiperf.__main__ import main
from aiperf.cli import batch
from cluster import kubernetes_api
from cluster.kubernetes_api import Api
from cluster.kubernetes_state import job_state
from cluster.place import ClusterError
from tests.cluster.api_server import ApiServer, api_server

COMMAND = ["+cluster=kubernetes", "cluster.image=aiperf:1", "name=mine"]
GOLDEN = Path(__file__).parents[1] / "golden" / "resumed-v4.jsonl"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """What the user's kubeconfig leads to; the working directory is empty but for that file."""
    monkeypatch.chdir(tmp_path)
    for module in (batch, kubernetes_api):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    with api_server(tmp_path) as (there, config):
        monkeypatch.setenv("KUBECONFIG", str(config))
        # read from the environment when the library is first imported, in whichever test that was
        for place in ("kubernetes.config", "kubernetes.config.kube_config"):
            monkeypatch.setattr(f"{place}.KUBE_CONFIG_DEFAULT_LOCATION", str(config))
        yield there


def pod(role: str, phase: str = "Running", **status: Any) -> dict[str, Any]:
    labels = {"aiperf-run": "aiperf-a", "aiperf-role": role}
    return {"metadata": {"name": f"pod-{role}", "labels": labels}, "status": {"phase": phase, **status}}


def waiting(reason: str, message: str = "said") -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}}]}


def ray_job(status: str, **more: str) -> dict[str, Any]:
    return {"kind": "RayJob", "status": {"jobDeploymentStatus": status, **more}}


def test_a_run_is_applied_in_order_and_what_stands_around_it_goes_with_its_job(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "cluster.follow=false", "cluster.runs_size=1Gi"]) == 0

    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "kubernetes.yaml").read_text() in capsys.readouterr().out
    ((name, job),) = server.of("rayjobs").items()
    assert name == f"aiperf-{folder.name}"
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": name, "uid": job["metadata"]["uid"]}
    for kind in ("serviceaccounts", "roles", "rolebindings", "networkpolicies"):
        assert server.of(kind)
        assert all(each["metadata"]["ownerReferences"] == [owner] for each in server.of(kind).values())
    assert "ownerReferences" not in server.of("persistentvolumeclaims")["aiperf-runs"]["metadata"], "runs stay"
    assert [path.rsplit("/", 1)[1] for path, _ in server.objects][-1] == "rayjobs", "nothing runs unguarded"
    assert all(query["fieldValidation"] == ["Strict"] for query in server.queries)


def test_what_the_server_refuses_is_said_in_its_words_and_nothing_is_left_here(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refused["rayjobs"] = 403, 'rayjobs.ray.io is forbidden: User "me" cannot create'

    assert main(COMMAND) == 2

    assert 'Forbidden: rayjobs.ray.io is forbidden: User "me" cannot create' in capsys.readouterr().err
    assert not list((tmp_path / "runs").iterdir())


def test_without_a_kubeconfig_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert main(COMMAND) == 2

    assert "+cluster=kubernetes needs a kubeconfig" in capsys.readouterr().err


def test_without_the_client_the_command_says_how_to_install_it(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kubernetes", None)

    assert main(COMMAND) == 2

    assert "pip install 'aiperf-cluster[kubernetes]'" in capsys.readouterr().err


def test_a_run_is_followed_to_its_end_and_its_journal_and_report_are_fetched(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remote = tmp_path / "remote"
    (remote / "checkpoints").mkdir(parents=True)
    shutil.copy(GOLDEN, remote / "journal.jsonl")
    states = iter(["Initializing", "Running", "Complete"])
    read = Api.read

    def goes_on(api: Api, kind: str, name: str) -> dict[str, Any] | None:
        found = read(api, kind, name)
        if kind == "Pod" and found is not None:
            return {**found, "status": {"phase": "Running"}}  # what a kubelet would do
        if found is not None:
            found["status"] = {"jobDeploymentStatus": next(states)}
        return found

    def packed(api: Api, name: str, container: str, command: Sequence[str]) -> str:
        assert "--exclude=./checkpoints" in command
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            archive.add(remote / "journal.jsonl", "./journal.jsonl")
        return base64.encodebytes(file.getvalue()).decode()

    monkeypatch.setattr(Api, "read", goes_on)
    monkeypatch.setattr(Api, "carried_out", packed)

    status = main(COMMAND)

    said = capsys.readouterr().out
    assert "complete" in said
    assert "score" in said
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "journal.jsonl").read_bytes() == GOLDEN.read_bytes()
    assert status in (0, 1), "as the fetched journal says"
    assert not server.of("pods"), "the reader is gone"


def test_an_image_that_cannot_be_pulled_ends_the_wait_and_the_job_is_deleted(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = pod("head", "Pending", **waiting("ImagePullBackOff", "Back-off pulling image aiperf:1"))
    monkeypatch.setattr(Api, "pods", lambda api, run: [head])

    assert main(COMMAND) == 2

    said = capsys.readouterr().err
    assert "would wait for ever (pod-head: ImagePullBackOff: Back-off pulling image aiperf:1)" in said
    assert "cluster.pull_secrets" in said
    assert not server.of("rayjobs")
    assert not list((tmp_path / "runs").iterdir())


def test_a_job_of_an_earlier_start_is_replaced_when_it_is_over_and_never_before(
    server: ApiServer, tmp_path: Path
) -> None:
    from cluster.kubernetes import KubernetesConf
    from tests.cluster.test_manifests import job_of

    job = job_of(KubernetesConf(image="a"), [])
    job.submit(tmp_path)
    ((_, first),) = server.of("rayjobs").items()
    with pytest.raises(ClusterError, match="still there and goes on"):
        job.submit(tmp_path)

    first["status"] = {"jobDeploymentStatus": "Failed"}
    job.submit(tmp_path)

    ((_, second),) = server.of("rayjobs").items()
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_why_nothing_runs_is_said_with_the_pod_or_the_event_that_tells() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: cpu"}
    quota = {
        "reason": "FailedCreate",
        "message": "exceeded quota: gpus",
        "involvedObject": {"name": "aiperf-a-work"},
        "metadata": {},
    }

    nothing = job_state(ray_job(""), [], [quota])
    no_room = job_state(ray_job("Initializing"), [pod("head", "Pending", conditions=[unschedulable])], [])
    few = job_state(
        ray_job("Running"), [pod("head"), pod("worker"), pod("worker", "Pending", conditions=[unschedulable])], []
    )
    all_up = job_state(ray_job("Running"), [pod("head"), pod("worker"), pod("worker")], [quota])

    assert (nothing.name, nothing.reason) == ("Pending", "aiperf-a-work: FailedCreate: exceeded quota: gpus")
    assert no_room.reason == "pod-head: Unschedulable: 0/3 nodes: cpu"
    assert not no_room.is_hopeless, "a cluster's own autoscaler may bring a node"
    assert (few.reason, few.nodes) == ("pod-worker: Unschedulable: 0/3 nodes: cpu", "the head and 1 worker")
    assert (all_up.reason, all_up.nodes) == ("", "the head and 2 workers"), "what is past is not reported"


def test_a_workers_image_that_is_not_there_is_told_and_the_others_go_on() -> None:
    state = job_state(ray_job("Running"), [pod("head"), pod("worker", "Pending", **waiting("ImagePullBackOff"))], [])

    assert state.reason == "pod-worker: ImagePullBackOff: said"
    assert not state.is_hopeless
    assert not state.is_over


@pytest.mark.parametrize("status", ["Complete", "Failed", "ValidationFailed"])
def test_a_ray_job_is_over_when_kuberay_says_so(status: str) -> None:
    state = job_state(ray_job(status, message="why"), [], [])

    assert state.is_over
    assert state.reason == ("" if status == "Complete" else "why")


def test_a_plain_job_is_over_by_its_condition() -> None:
    goes_on: dict[str, Any] = {"kind": "Job", "status": {"ready": 1}}
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "4 times"}

    assert job_state(goes_on, [], []).name == "Running"
    ended = job_state({"kind": "Job", "status": {"conditions": [failed]}}, [], [])
    assert (ended.name, ended.reason, ended.is_over) == ("Failed", "4 times", True)
