"""Submission to a real Kubernetes API server, with real admission, quotas, permissions and scheduling. No node runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.test_manifests import pods
from tests.rigs.kubernetes.control_plane import ControlPlane, control_plane, missing
from tests.rigs.kubernetes.follower import Follower
from tests.rigs.kubernetes_api import crds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"no Kubernetes: {missing()}"),
]
COMMON = ("cluster.image=aiperf:1", "name=mine")
PLAIN = ("cluster.operator=none", "cluster.max_workers=2")
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {
        "capacity": {"cpu": "64", "memory": "512Gi", "pods": "100"},
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "100"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "test"}],
    },
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("kubernetes")) as plane:
        yield plane


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    """Return a new namespace that has its service account."""
    name = f"t{abs(hash(request.node.name)) % 10**8}"
    plane.kubectl("create", "namespace", name)
    plane.wait(lambda: "default" in plane.kubectl("get", "serviceaccounts", "-n", name, "-o", "name"))
    return name


def objects(plane: ControlPlane, namespace: str) -> list[str]:
    """Return the names of the run's objects, and of its pods."""
    kinds = "pods,jobs,networkpolicies,roles,rolebindings,serviceaccounts,persistentvolumeclaims"
    names = plane.kubectl("get", kinds, "-n", namespace, "-o", "name").split()
    return [name for name in names if name != "serviceaccount/default"]


def test_the_server_accepts_the_plain_manifests(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """`podFailurePolicy` and indexed Jobs are newer than Kubernetes 1.20, and its server drops these fields."""
    words = (*PLAIN, f"cluster.namespace={namespace}", "cluster.submit=false", "cluster.runs_size=1Gi")
    with Follower(plane.admin, tmp_path, *COMMON, *words) as printed:
        assert printed.end() == 0

    answer = plane.kubectl("apply", "--dry-run=server", "--validate=false", "-f", "-", manifest=printed.output)

    applied = [each for each in yaml.safe_load_all(printed.output) if each]
    assert len(answer.splitlines()) == len(applied) >= 4
    assert all("(server dry run)" in line for line in answer.splitlines())
    assert objects(plane, namespace) == []


def test_the_server_keeps_every_field_of_a_ray_job(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    files = sorted(crds().glob("ray.io_*.yaml"))
    for path in files:
        plane.kubectl("create", "--validate=false", "-f", str(path))
    plane.wait(lambda: "rayjobs" in plane.kubectl("api-resources", "--api-group=ray.io", "-o", "name"))
    try:
        with Follower(plane.admin, tmp_path, *COMMON, f"cluster.namespace={namespace}", "cluster.runs_size=1Gi") as run:
            run.until("is submitted")

        (stored,) = yaml.safe_load(plane.kubectl("get", "rayjobs", "-n", namespace, "-o", "yaml"))["items"]
        (written,) = tmp_path.glob("runs/*-mine/kubernetes.yaml")
        (sent,) = (each for each in yaml.safe_load_all(written.read_text()) if each["kind"] == "RayJob")
        assert is_kept(sent["spec"], stored["spec"])
    finally:
        for path in files:
            plane.kubectl("delete", "-f", str(path))


def test_the_server_admits_the_pods_as_restricted_and_no_root(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """A copy of each pod that is root is refused by the same policy."""
    words = (f"cluster.namespace={namespace}", "cluster.submit=false", "cluster.accelerators=8")
    for operator in ("none", "kuberay"):
        with Follower(plane.admin, tmp_path, *COMMON, *words, f"cluster.operator={operator}") as printed:
            assert printed.end() == 0
        for number, pod in enumerate(pods(list(yaml.safe_load_all(printed.output)))):
            whole = {"apiVersion": "v1", "kind": "Pod", **pod}
            whole["metadata"] |= {"name": f"p{number}", "namespace": namespace}
            whole["spec"].pop("serviceAccountName", None)  # it is created by the run
            plane.kubectl("create", "--dry-run=server", "-f", "-", manifest=yaml.safe_dump(whole))
            whole["spec"]["securityContext"] |= {"runAsNonRoot": False, "runAsUser": 0}
            for container in whole["spec"]["containers"]:
                container["securityContext"]["runAsNonRoot"] = False
            with pytest.raises(AssertionError, match="PodSecurityPolicy: unable to admit pod"):
                plane.kubectl("create", "--dry-run=server", "-f", "-", manifest=yaml.safe_dump(whole))


def is_kept(sent: Any, stored: Any) -> bool:
    """Return if every value that was sent is stored. The server may add defaults."""
    if isinstance(sent, dict):
        return all(name in stored and is_kept(value, stored[name]) for name, value in sent.items())
    if isinstance(sent, list):
        return len(sent) == len(stored) and all(is_kept(*pair) for pair in zip(sent, stored, strict=True))
    return str(sent) == str(stored)


@pytest.mark.parametrize("operator", ["kuberay", "none"])
def test_a_missing_namespace_is_named(plane: ControlPlane, tmp_path: Path, operator: str) -> None:
    words = (f"cluster.operator={operator}", "cluster.namespace=absent", "cluster.runs_size=1Gi")
    with Follower(plane.admin, tmp_path, *COMMON, *words) as run:
        assert run.end() == 2

    assert 'namespaces "absent" not found' in run.output
    assert not list((tmp_path / "runs").iterdir())


def test_missing_crds_are_named_with_the_fix(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    with Follower(plane.admin, tmp_path, *COMMON, f"cluster.namespace={namespace}", "cluster.runs_size=1Gi") as run:
        assert run.end() == 2

    assert "Install KubeRay, or run without it: cluster.operator=none" in run.output
    assert objects(plane, namespace) == []


def test_a_user_without_rights_leaves_no_object(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """The user may make claims and policies, and no Job."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "part", "namespace": namespace},
        "rules": [
            {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["*"]},
            {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["*"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "part", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "part"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}],
    }
    plane.apply(role, binding)

    words = (*PLAIN, f"cluster.namespace={namespace}", "cluster.runs_size=1Gi")
    with Follower(plane.kubeconfig("guest"), tmp_path, *COMMON, *words) as run:
        assert run.end() == 2

    assert '403 Forbidden: jobs.batch is forbidden: User "guest" cannot create resource "jobs"' in run.output
    plane.wait(lambda: [name for name in objects(plane, namespace) if not name.endswith("/part")] == [])


def test_a_quota_is_shown_with_the_way_out(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    plane.kubectl("create", "quota", "small", "-n", namespace, "--hard=pods=0")
    plane.wait(lambda: "pods: 0/0" in plane.kubectl("get", "quota", "-n", namespace))

    words = (*PLAIN, f"cluster.namespace={namespace}", "cluster.runs_size=1Gi")
    with Follower(plane.admin, tmp_path, *COMMON, *words) as run:
        run.until("exceeded quota: small")
        run.until(f"It waits without a limit. `kubectl -n {namespace} delete job ")


def test_the_workers_job_is_deleted_with_that_of_the_head(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    words = (*PLAIN, f"cluster.namespace={namespace}", "cluster.runs_size=1Gi", "cluster.follow=false")
    with Follower(plane.admin, tmp_path, *COMMON, *words) as run:
        assert run.end() == 0
    head, _ = sorted(plane.kubectl("get", "jobs", "-n", namespace, "-o", "name").split())

    plane.kubectl("delete", "-n", namespace, head)

    plane.wait(lambda: objects(plane, namespace) == ["persistentvolumeclaim/aiperf-runs"])


def test_an_unbound_claim_is_shown_after_a_restart(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """The API server is down for 30 s while the command follows the job. Then a node joins, but no volume."""
    words = (*PLAIN, f"cluster.namespace={namespace}", "cluster.runs_size=1Gi")
    with Follower(plane.admin, tmp_path, *COMMON, *words) as run:
        run.until("no nodes available to schedule pods")
        plane.stop_server()
        time.sleep(30)
        plane.start_server()
        plane.kubectl("create", "-f", "-", manifest=yaml.safe_dump(NODE))
        try:
            run.until("unbound immediate PersistentVolumeClaims")
        finally:
            plane.kubectl("delete", "node", "n1")
