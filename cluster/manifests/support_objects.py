"""Support objects of a run: network policies, the claim for runs, and the rights of the head."""

from __future__ import annotations

from cluster.manifests.manifest_input import ROLE_LABEL, RUN_LABEL, KubernetesRun, Manifest
from cluster.ports import HEAD_PORTS

OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
"""Labels of KubeRay's own pod, as its Helm chart sets them."""


def runs_claim(run: KubernetesRun) -> list[Manifest]:
    """Return the claim for runs if cluster.runs_size asks for it. The claim is never deleted with a run."""
    choices = run.choices
    if choices.runs_size is None:
        return []
    spec: Manifest = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": choices.runs_size}},
    }
    if choices.storage_class is not None:
        spec["storageClassName"] = choices.storage_class
    metadata = {"name": choices.runs_claim, "namespace": choices.namespace}
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}]


def network_policies(run: KubernetesRun, *, has_operator: bool) -> list[Manifest]:
    """Return the network policies.

    Only the run's own pods may reach Ray's ports, since a token could be guessed. KubeRay's operator may reach the
    dashboard port if KubeRay runs the job. Outgoing traffic (DNS, the API, data registries) is not limited.
    """
    own: Manifest = {"podSelector": {"matchLabels": {RUN_LABEL: run.object_name}}}
    ingress: list[Manifest] = [{"from": [own]}]
    if (metrics := run.choices.metrics_namespace) is not None:
        ingress.append({"from": [_of_namespace(metrics)], "ports": [_tcp(HEAD_PORTS["metrics"])]})
    policies = [_policy(run, "", {RUN_LABEL: run.object_name}, ingress)]
    if has_operator:
        namespace = run.choices.operator_namespace
        peer = {
            "namespaceSelector": {} if namespace is None else _of_namespace(namespace)["namespaceSelector"],
            "podSelector": {"matchLabels": OPERATOR},
        }
        head = {RUN_LABEL: run.object_name, ROLE_LABEL: "head"}
        policies.append(_policy(run, "-op", head, [{"from": [peer], "ports": [_tcp(HEAD_PORTS["dashboard"])]}]))
    return policies


def account_of_head(run: KubernetesRun) -> list[Manifest]:
    """Return the service account of a head with an autoscaler, with KubeRay's own choice of rights.

    Empty if the user names an account.
    """
    if run.choices.service_account is not None:
        return []
    rules: list[Manifest] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": run.object_name, "namespace": run.choices.namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": run.metadata()},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": run.metadata(), "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": run.metadata(),
            "subjects": [subject],
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": run.object_name},
        },
    ]


def _policy(run: KubernetesRun, suffix: str, pods: dict[str, str], ingress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": run.metadata(suffix),
        "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _of_namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def _tcp(port: int) -> Manifest:
    return {"protocol": "TCP", "port": port}
