"""Run on a Kubernetes cluster, submitted and followed by the real client, against a stand-in of the API server."""

from __future__ import annotations

import base64
import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kubernetes.stream.ws_client import WSClient

from aiperf.__main__ import main
from aiperf.cli import batch
from cluster import kubernetes_api
from cluster.kubernetes import KubernetesConf
from cluster.kubernetes_api import Api
from cluster.kubernetes_job import job_state
from cluster.place import ClusterError, NoReport
from tests.cluster.test_manifests import job_of
from tests.rigs.kubernetes_api import ApiServer, api_server

COMMAND = ["+cluster=kubernetes", "cluster.image=aiperf:1", "name=mine"]
GOLDEN = Path(__file__).parents[1] / "golden" / "resumed-v4.jsonl"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Server of the user's kubeconfig. The working directory contains only that file."""
    monkeypatch.chdir(tmp_path)
    for module in (batch, kubernetes_api):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    with api_server(tmp_path) as (there, config):
        monkeypatch.setenv("KUBECONFIG", str(config))
        # the library reads the environment at its first import, in any earlier test
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


def test_objects_are_applied_in_order_and_owned_by_the_job(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "cluster.follow=false", "cluster.runs_size=1Gi"]) == 0

    (folder,) = (tmp_path / "runs").iterdir()
    printed = capsys.readouterr().out
    assert str(folder / "kubernetes.yaml") in printed and "apiVersion" not in printed
    assert "kind: RayJob" in (folder / "kubernetes.yaml").read_text()
    ((name, job),) = server.of("rayjobs").items()
    assert name == f"aiperf-{folder.name}"
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": name, "uid": job["metadata"]["uid"]}
    for kind in ("serviceaccounts", "roles", "rolebindings", "networkpolicies"):
        assert server.of(kind)
        assert all(each["metadata"]["ownerReferences"] == [owner] for each in server.of(kind).values())
    assert "ownerReferences" not in server.of("persistentvolumeclaims")["aiperf-runs"]["metadata"], "runs stay"
    assert [path.rsplit("/", 1)[1] for path, _ in server.objects][-1] == "rayjobs", "nothing runs unguarded"
    assert all(query["fieldValidation"] == ["Strict"] for query in server.queries)


def test_a_servers_refusal_is_reported_and_leaves_no_object(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refused["rayjobs"] = 403, 'rayjobs.ray.io is forbidden: User "me" cannot create'

    assert main(COMMAND) == 2

    assert 'Forbidden: rayjobs.ray.io is forbidden: User "me" cannot create' in capsys.readouterr().err
    assert not list((tmp_path / "runs").iterdir())


def test_a_missing_kubeconfig_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert main(COMMAND) == 2

    assert "+cluster=kubernetes needs a kubeconfig" in capsys.readouterr().err


def test_a_missing_client_is_reported_with_its_install_command(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kubernetes", None)

    assert main(COMMAND) == 2

    assert "pip install 'aiperf-cluster[kubernetes]'" in capsys.readouterr().err


def test_a_run_is_followed_and_its_journal_and_report_fetched(
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
        if "--exclude=./checkpoints" not in command:
            return "yes\n"  # the journal exists
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            archive.add(remote / "journal.jsonl", "./journal.jsonl")
        return base64.encodebytes(file.getvalue()).decode()

    monkeypatch.setattr(Api, "read", goes_on)
    monkeypatch.setattr(Api, "run_command", packed)

    status = main(COMMAND)

    said = capsys.readouterr().out
    assert "complete" in said
    assert "score" in said
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "journal.jsonl").read_bytes() == GOLDEN.read_bytes()
    assert status in (0, 1), "as the fetched journal says"
    assert not server.of("pods"), "the reader is gone"


def test_an_image_that_cannot_be_pulled_ends_the_job(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = pod("head", "Pending", **waiting("ImagePullBackOff", "Back-off pulling image aiperf:1"))
    monkeypatch.setattr(Api, "pods", lambda api, run: [head])

    assert main(COMMAND) == 2

    said = capsys.readouterr().err
    assert "can never start (pod-head: ImagePullBackOff: Back-off pulling image aiperf:1)" in said
    assert "cluster.pull_secrets" in said
    assert not server.of("rayjobs")
    assert not list((tmp_path / "runs").iterdir())


class Call:
    """A command's stream after its end, as the client has it."""

    def __init__(self, end: dict[str, Any]) -> None:
        self._end = end

    def run_forever(self, timeout: float) -> None:
        """Finish the job."""

    def read_stdout(self, timeout: float) -> str:
        return ""

    read_stderr = read_stdout
    _returncode = None
    is_open = lambda self: False  # noqa: E731
    read_channel = lambda self, channel: json.dumps(self._end)  # noqa: E731
    returncode = WSClient.returncode  # the client's own reading of the server's last word


def test_a_container_that_restarts_is_not_there_yet(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower tries again with its next look."""
    message = "unable to upgrade connection: container not found"
    end = {"status": "Failure", "details": {"causes": [{"message": message}]}}
    monkeypatch.setattr("kubernetes.stream.stream", lambda *_, **__: Call(end))
    server.put("/api/v1/namespaces/default/pods", {**pod("head"), "spec": {"containers": [{"name": "ray-head"}]}})

    with pytest.raises(ClusterError, match="pod pod-head has no container that runs now"):
        Api("default").run_command("pod-head", "ray-head", ["python"])
    assert list(job_of(KubernetesConf(image="a"), []).lines("aiperf-a")) == []


def test_only_events_of_the_runs_own_objects_are_asked_for(server: ApiServer) -> None:
    job = job_of(KubernetesConf(image="a"), [])
    name, where = job.run.object_name, "/api/v1/namespaces/default"
    server.put(
        "/apis/ray.io/v1/namespaces/default/rayjobs",
        {"metadata": {"name": name}, "status": {"rayClusterName": f"{name}-c"}},
    )
    for about in (f"{name}-c", f"{name}-of-another-run", "another"):
        event = {"involvedObject": {"name": about, "kind": "RayCluster"}, "reason": "FailedCreate", "message": about}
        server.put(f"{where}/events", {"metadata": {"name": f"event-{about}"}, **event})

    state = job.state(name)

    assert state.reason.startswith(f"{name}-c: FailedCreate: {name}-c. It waits")
    selectors = [query["fieldSelector"][0] for query in server.queries if "fieldSelector" in query]
    assert selectors == [f"type=Warning,involvedObject.name={each}" for each in (name, f"{name}-c")]


def test_a_run_that_never_began_ends_with_its_reasons(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = pod("head", "Failed", containerStatuses=[{"name": "head", "state": {"terminated": {"exitCode": 1}}}])
    server.logs["pod-head"] = "loading\nImportError: libcudart.so.12\n"
    event = {"involvedObject": {"name": "pod-head"}, "reason": "BackOff", "message": "restarting failed container"}
    over = {"conditions": [{"type": "Failed", "status": "True", "message": "reached the backoff limit"}]}
    read = Api.read

    def ended(api: Api, kind: str, name: str) -> dict[str, Any] | None:
        found = read(api, kind, name)
        return found and {**found, "status": {"phase": "Running"} if kind == "Pod" else over}

    monkeypatch.setattr(Api, "read", ended)
    monkeypatch.setattr(Api, "pods", lambda api, run: [head])
    monkeypatch.setattr(Api, "warnings", lambda *_: [event])
    monkeypatch.setattr(Api, "run_command", lambda *_: "no\n")

    assert main([*COMMAND, "cluster.operator=none"]) == 2

    said = capsys.readouterr().err
    assert "ended before its run began, and there is no report" in said
    assert "pod-head: BackOff: restarting failed container" in said
    assert "ImportError: libcudart.so.12" in said
    assert "cd:" not in said


def test_a_cluster_without_kuberay_is_named_with_the_fix(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.missing.add("rayjobs")

    assert main([*COMMAND, "cluster.runs_size=1Gi"]) == 2

    assert "Install KubeRay, or run without it: cluster.operator=none" in capsys.readouterr().err
    assert not server.objects, "nothing half finished is left"
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("content", ["", "[]", "a: b", "clusters: 3", "contexts: [1]\ncurrent-context: a", "\x00", "{"])
def test_a_kubeconfig_that_is_none_is_refused(
    server: ApiServer, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kubeconfig").write_text(content)

    assert main(COMMAND) == 2

    assert "+cluster=kubernetes needs a kubeconfig" in capsys.readouterr().err
    assert not list((tmp_path / "runs").iterdir())


def test_an_unbound_claim_is_waited_for_with_the_way_to_end_it(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbound = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "unbound claims"}
    monkeypatch.setattr(Api, "pods", lambda api, run: [pod("head", "Pending", conditions=[unbound])])
    job = job_of(KubernetesConf(image="a", operator="none"), [])
    number = job.submit(tmp_path)

    state = job.state(number)

    assert not state.is_over and not state.is_hopeless
    assert state.reason.startswith("pod-head: Unschedulable: unbound claims. It waits without a limit. `kubectl")
    assert f"delete job {number}-head` ends it" in state.reason


def test_an_earlier_job_is_replaced_only_when_it_is_over(server: ApiServer, tmp_path: Path) -> None:
    job = job_of(KubernetesConf(image="a"), [])
    job.submit(tmp_path)
    ((_, first),) = server.of("rayjobs").items()
    with pytest.raises(ClusterError, match="still exists and is running"):
        job.submit(tmp_path)

    first["status"] = {"jobDeploymentStatus": "Failed"}
    job.submit(tmp_path)

    ((_, second),) = server.of("rayjobs").items()
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_a_waiting_run_names_the_pod_or_event_with_the_reason() -> None:
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


@pytest.mark.parametrize("job", [ray_job("Running"), {"kind": "Job", "status": {}}])
def test_a_quota_that_admits_only_the_head_is_reported(job: dict[str, Any]) -> None:
    """No worker's pod exists that could be Pending."""
    quota = {
        "reason": "FailedCreate",
        "message": "exceeded quota: gpus",
        "involvedObject": {"kind": "Job", "name": "aiperf-a-work"},
        "metadata": {},
    }
    running = [pod("head"), pod("worker")]

    assert job_state(job, running, [quota], 2).reason == "aiperf-a-work: FailedCreate: exceeded quota: gpus"
    assert job_state(job, [pod("head"), pod("worker", "Failed")], [quota], 1).reason.endswith("exceeded quota: gpus")
    assert job_state(job, [*running, pod("worker")], [quota], 2).reason == "", "all are there"


@pytest.mark.parametrize(("condition", "refused"), [("Complete", ""), ("Failed", ""), ("Failed", "exceeded quota")])
def test_a_head_that_failed_for_good_ends_its_workers(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str, refused: str
) -> None:
    """Also if a quota that the workers fill refuses the pod that would fetch the report."""
    job = job_of(KubernetesConf(image="a", operator="none"), [])
    number = job.submit(tmp_path)
    head, workers = (server.of("jobs")[f"{number}-{part}"] for part in ("head", "work"))
    assert workers["metadata"]["ownerReferences"][0]["uid"] == head["metadata"]["uid"], "they go with the head's Job"
    head["status"] = {"conditions": [{"type": condition, "status": "True"}]}
    monkeypatch.setattr(Api, "await_running", lambda *_: None)
    monkeypatch.setattr(Api, "run_command", lambda *_: "no\n")
    if refused:
        server.refused["pods"] = 403, refused

    with pytest.raises((NoReport, ClusterError), match=refused or "does not exist"):
        job.fetch(number)

    assert (f"{number}-work" in server.of("jobs")) == (condition == "Complete")


def test_a_past_event_of_a_pod_is_not_its_reason_to_wait() -> None:
    """A pod whose image is pulled is Pending, while the warning of its scheduling is still stored."""
    worker = {**pod("worker", "Pending"), "spec": {"nodeName": "n1"}}
    unbound, mount = (
        {
            "reason": reason,
            "message": "unbound claim.",
            "involvedObject": {"kind": "Pod", "name": "pod-worker"},
            "metadata": {},
        }
        for reason in ("FailedScheduling", "FailedMount")
    )

    assert job_state(ray_job("Running"), [pod("head"), worker], [unbound]).reason == ""
    assert job_state(ray_job("Running"), [pod("head"), pod("worker", "Pending")], [unbound]).reason.endswith("claim")
    assert "FailedMount" in job_state(ray_job("Running"), [pod("head"), worker], [mount]).reason
    assert job_state(ray_job("Running"), [pod("worker")], [mount]).reason == ""
    assert job_state(ray_job("Running"), [], [mount]).reason == "", "the pod is gone"


def test_a_missing_worker_image_is_reported() -> None:
    state = job_state(ray_job("Running"), [pod("head"), pod("worker", "Pending", **waiting("ImagePullBackOff"))], [])

    assert state.reason == "pod-worker: ImagePullBackOff: said"
    assert not state.is_hopeless
    assert not state.is_over


@pytest.mark.parametrize("status", ["Complete", "Failed", "ValidationFailed"])
def test_a_ray_job_ends_when_kuberay_reports_it(status: str) -> None:
    state = job_state(ray_job(status, message="why"), [], [])

    assert state.is_over
    assert state.reason == ("" if status == "Complete" else "why")


def test_a_plain_job_is_over_by_its_condition() -> None:
    goes_on: dict[str, Any] = {"kind": "Job", "status": {}}
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "4 times"}

    assert job_state(goes_on, [pod("head", "Pending")], []).name == "Pending"
    assert job_state(goes_on, [pod("head")], []).name == "Running"
    ended = job_state({"kind": "Job", "status": {"conditions": [failed]}}, [], [])
    assert (ended.name, ended.reason, ended.is_over) == ("Failed", "4 times", True)


def fetched(monkeypatch: pytest.MonkeyPatch, to: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    """Copy a pod's folder whose archive has these members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(Api, "run_command", lambda *_: base64.encodebytes(file.getvalue()).decode())
    Api.copy_folder(object.__new__(Api), "head", "aiperf", "/runs/1", [], to)


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def test_a_pods_folder_arrives_with_links_as_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, victim = tmp_path / "run", tmp_path / "victim"
    to.mkdir()
    victim.write_bytes(b"theirs")
    (to / "journal.jsonl").symlink_to(victim)

    fetched(
        monkeypatch,
        to,
        (member("./journal.jsonl"), b"ours"),
        (member("./telemetry", tarfile.DIRTYPE), b""),
        (member("./telemetry/0.jsonl"), b"a sample"),
        (member("./latest", tarfile.SYMTYPE, "journal.jsonl"), b""),
        (member("./again", tarfile.LNKTYPE, "./journal.jsonl"), b""),
    )

    found = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
    assert found == {"journal.jsonl": b"ours", "telemetry/0.jsonl": b"a sample", "latest": b"ours", "again": b"ours"}
    assert not any(path.is_symlink() for path in to.rglob("*")) and victim.read_bytes() == b"theirs"


@pytest.mark.parametrize(
    "bad",
    [
        member("../victim"),
        member("/etc/victim"),
        member("./../../victim"),
        member("./out", tarfile.SYMTYPE, "/etc/passwd"),
        member("./out", tarfile.SYMTYPE, "../secret"),
        member("./pipe", tarfile.FIFOTYPE),
        member("./disk", tarfile.BLKTYPE),
    ],
    ids=lambda bad: f"{bad.name} {bad.linkname}",
)
def test_a_member_outside_of_the_folder_is_refused(
    bad: tarfile.TarInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "runs" / "1"
    to.mkdir(parents=True)

    with pytest.raises(ClusterError, match="could not be copied"):
        fetched(monkeypatch, to, (bad, b""))

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
