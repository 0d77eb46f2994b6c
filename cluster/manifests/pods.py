"""The pods of a run: one head without accelerators, workers with them, and what both have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.manifests.manifest_input import ROLE_LABEL, RUN_LABEL, KubernetesRun, Manifest, literal, pair

OPTIONS = "AIPERF_OPTIONS"
"""The environment variable of the head's pod that holds a run's options, as a JSON list."""


def template(run: KubernetesRun, role: str, container: Manifest, *, on: Sequence[str], account: str | None) -> Manifest:
    """Return the template of a pod of this run around `container`.

    `account`: service account. None if the pod may not use the API.
    """
    choices = run.choices
    spec: Manifest = {"restartPolicy": "Never"}
    if account is None:
        spec["automountServiceAccountToken"] = False
    else:
        spec["serviceAccountName"] = account
    spec |= {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": choices.user,
            "runAsGroup": choices.user,
            "fsGroup": choices.user,  # the claims' files belong to the run's user
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": _volumes(run, role),
    }
    if choices.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in choices.pull_secrets]
    if on:
        spec["nodeSelector"] = dict(pair(word) for word in on)
    if choices.tolerations:
        spec["tolerations"] = [toleration(word) for word in choices.tolerations]
    if choices.priority_class is not None:
        spec["priorityClassName"] = choices.priority_class
    if role == "worker" and (affinity := _affinity(run)):
        spec["affinity"] = affinity
    if role not in ("head", "worker"):  # a queue of jobs must not hold the pods that serve one
        return {"metadata": {"labels": {**run.labels, ROLE_LABEL: role}}, "spec": spec}
    if choices.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {"metadata": run.marked({**run.labels, ROLE_LABEL: role}), "spec": spec}


def _affinity(run: KubernetesRun) -> Manifest:
    """Return the affinity of a worker's pod: required node labels, and at most one worker per node if configured."""
    choices, required = run.choices, "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: Manifest = {}
    if choices.node_affinity:
        terms = [{"matchExpressions": [requirement(word) for word in choices.node_affinity]}]
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
    if choices.apart:
        others = {"matchLabels": {RUN_LABEL: run.object_name, ROLE_LABEL: "worker"}}
        affinity["podAntiAffinity"] = {required: [{"labelSelector": others, "topologyKey": "kubernetes.io/hostname"}]}
    return affinity


def requirement(word: str) -> Manifest:
    """Requirement of a node's labels, written as in a selector of kubectl.

    >>> requirement("pool=a,b"), requirement("!spot")
    ({'key': 'pool', 'operator': 'In', 'values': ['a', 'b']}, {'key': 'spot', 'operator': 'DoesNotExist'})
    """
    key, equals, values = word.partition("=")
    if equals:
        return {"key": key.rstrip("!"), "operator": "NotIn" if key.endswith("!") else "In", "values": values.split(",")}
    return {"key": key.lstrip("!"), "operator": "DoesNotExist" if key.startswith("!") else "Exists"}


def container(run: KubernetesRun, name: str, **parts: object) -> Manifest:
    """The container of a pod: the run's image, without any privilege."""
    return {
        "name": name,
        "image": run.choices.image,
        "imagePullPolicy": run.choices.pull_policy,
        "securityContext": locked(),
        **parts,
    }


def locked() -> Manifest:
    """A container that is not root and cannot become it."""
    return {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}


def mounts(run: KubernetesRun, role: str) -> list[Manifest]:
    """Return the mounts of a container: runs and data in all, shared memory in workers and head."""
    choices = run.choices
    mounts_of_pod: list[Manifest] = [{"name": "runs", "mountPath": choices.runs_path}]
    if choices.data_claim is not None:
        mounts_of_pod.append({"name": "data", "mountPath": choices.data_path, "readOnly": True})
    mounts_of_pod += [{"name": "shm", "mountPath": "/dev/shm"}] if role in ("head", "worker") else []
    return mounts_of_pod


def _volumes(run: KubernetesRun, role: str) -> list[Manifest]:
    choices = run.choices
    volumes: list[Manifest] = [{"name": "runs", "persistentVolumeClaim": {"claimName": choices.runs_claim}}]
    if choices.data_claim is not None:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": choices.data_claim, "readOnly": True}})
    if role in ("head", "worker"):
        # the ranks of a worker share images and NCCL buffers here. The default size is half of the node's memory
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": choices.shared_memory}})
    return volumes


def environment(run: KubernetesRun, more: Mapping[str, str] | None = None) -> list[Manifest]:
    """A container's environment: what a run's Ray is to be everywhere, the user's own, and `more`."""
    own = {
        "HOME": "/tmp",  # the image has no home folder for an arbitrary user
        "USER": "aiperf",
        "LOGNAME": "aiperf",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_worker_niceness": "0",
    }
    users = dict(pair(word) for word in run.choices.env)
    return [{"name": name, "value": literal(value)} for name, value in (own | users | dict(more or {})).items()]


def token(secret: str) -> list[Manifest]:
    """Ray's token from a Secret, in the form in which KubeRay gives it to its pods."""
    return [
        {"name": "RAY_AUTH_MODE", "value": "token"},
        {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "auth_token"}}},
    ]


def worker_resources(run: KubernetesRun) -> Manifest:
    """Return the resources of a worker's pod. Requests equal limits, so that no processor is shared."""
    choices = run.choices
    amounts = {"cpu": str(choices.cpus), "memory": choices.memory}
    if choices.accelerators:
        amounts[choices.accelerator_resource] = str(choices.accelerators)
    amounts |= dict(pair(word) for word in choices.extra_resources)
    return {"requests": dict(amounts), "limits": dict(amounts)}


def head_resources(run: KubernetesRun) -> Manifest:
    """Return the resources of the head's pod."""
    amounts = {"cpu": str(run.choices.head_cpus), "memory": run.choices.head_memory}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def small_resources() -> Manifest:
    """Return the resources of a pod that only forwards messages."""
    return {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def toleration(word: str) -> Manifest:
    """KEY[=VALUE][:EFFECT], as kubectl taint writes a taint.

    >>> toleration("gpu:NoSchedule"), toleration("pool=bench")
    ({'key': 'gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}, {'key': 'pool', 'operator': 'Equal', 'value': 'bench'})
    """
    taint, _, effect = word.partition(":")
    key, equals, value = taint.partition("=")
    tolerated: Manifest = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        tolerated["value"] = value
    return tolerated | ({"effect": effect} if effect else {})
