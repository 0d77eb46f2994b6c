"""Support objects of a run: network policies, the claim for runs, and the rights of the head."""

from __future__ import annotations

from cluster.manifests.manifest_input import ROLE_LABEL, RUN_LABEL, KubernetesRun, Manifest
from cluster.ports import HEAD_PORTS

OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
"""Labels of KubeRay's own pod, as its Helm chart sets them."""


def runs_claim(asked: KubernetesRun) -> list[Manifest]:
    """Return the claim for runs if cluster.runs_size asks for it. The claim is never deleted with a run."""
    choices = asked.choices
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


def network_policies(asked: KubernetesRun, *, has_operator: bool) -> list[Manifest]:
    """Return the network policies.

    Only the run's own pods may reach Ray's ports, since a token could be guessed. KubeRay's operator may reach the
    dashboard port if KubeRay runs the job. Outgoing traffic (DNS, the API, data registries) is not limited.
    """
    own: Manifest = {"podSelector": {"matchLabels": {RUN_LABEL: asked.object_name}}}
    ingress: list[Manifest] = [{"from": [own]}]
    if (metrics := asked.choices.metrics_namespace) is not None:
        ingress.append({"from": [_of_namespace(metrics)], "ports": [_tcp(HEAD_PORTS["metrics"])]})
    policies = [_policy(asked, "", {RUN_LABEL: asked.object_name}, ingress)]
    if has_operator:
        namespace = asked.choices.operator_namespace
        peer = {
            "namespaceSelector": {} if namespace is None else _of_namespace(namespace)["namespaceSelector"],
            "podSelector": {"matchLabels": OPERATOR},
        }
        head = {RUN_LABEL: asked.object_name, ROLE_LABEL: "head"}
        policies.append(_policy(asked, "-op", head, [{"from": [peer], "ports": [_tcp(HEAD_PORTS["dashboard"])]}]))
    return policies


def account_of_head(asked: KubernetesRun) -> list[Manifest]:
    """Return the service account of a head with an autoscaler, with KubeRay's own choice of rights.

    Empty if the user names an account.
    """
    if asked.choices.service_account is not None:
        return []
    rules: list[Manifest] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": asked.object_name, "namespace": asked.choices.namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": asked.metadata()},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": asked.metadata(), "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": asked.metadata(),
            "subjects": [subject],
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": asked.object_name},
        },
    ]


def _policy(asked: KubernetesRun, suffix: str, pods: dict[str, str], ingress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": asked.metadata(suffix),
        "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _of_namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def _tcp(port: int) -> Manifest:
    return {"protocol": "TCP", "port": port}
