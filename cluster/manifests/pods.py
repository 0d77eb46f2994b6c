"""The pods of a run: one head without accelerators, workers with them, and what both have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.manifests.asked import ROLE_LABEL, Asked, Manifest, literal

OPTIONS = "AIPERF_OPTIONS"
"""The environment variable of the head's pod that holds a run's options, as a JSON list."""


def template(asked: Asked, role: str, container: Manifest, *, on: Sequence[str], account: str | None) -> Manifest:
    """A pod's template: `container`, and around it all that a pod of this run needs. `account`: its service account; None: it
    may ask nothing of the API."""
    choices = asked.choices
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
        "volumes": _volumes(asked, role),
    }
    if choices.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in choices.pull_secrets]
    if on:
        spec["nodeSelector"] = dict(_pair(word) for word in on)
    if choices.tolerations:
        spec["tolerations"] = [toleration(word) for word in choices.tolerations]
    return {"metadata": {"labels": {**asked.labels, ROLE_LABEL: role}}, "spec": spec}


def container(asked: Asked, name: str, **parts: object) -> Manifest:
    """The container of a pod: the run's image, without any privilege."""
    return {
        "name": name,
        "image": asked.choices.image,
        "imagePullPolicy": asked.choices.pull_policy,
        "securityContext": locked(),
        **parts,
    }


def locked() -> Manifest:
    """A container that is not root and cannot become it."""
    return {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}


def mounts(asked: Asked, role: str) -> list[Manifest]:
    """Where the volumes stand in a container: runs and data in all, shared memory in a worker's and the head's."""
    choices = asked.choices
    found: list[Manifest] = [{"name": "runs", "mountPath": choices.runs_path}]
    if choices.data_claim is not None:
        found.append({"name": "data", "mountPath": choices.data_path, "readOnly": True})
    found += [{"name": "shm", "mountPath": "/dev/shm"}] if role in ("head", "worker") else []
    return found


def _volumes(asked: Asked, role: str) -> list[Manifest]:
    choices = asked.choices
    found: list[Manifest] = [{"name": "runs", "persistentVolumeClaim": {"claimName": choices.runs_claim}}]
    if choices.data_claim is not None:
        found.append({"name": "data", "persistentVolumeClaim": {"claimName": choices.data_claim, "readOnly": True}})
    if role in ("head", "worker"):
        # the ranks of a worker share images and NCCL's buffers in it; without a size a node's half
        found.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": choices.shared_memory}})
    return found


def environment(asked: Asked, more: Mapping[str, str] | None = None) -> list[Manifest]:
    """A container's environment: what a run's Ray is to be everywhere, the user's own, and `more`."""
    own = {
        "HOME": "/tmp",  # an image knows no home of whatever user runs in it
        "USER": "aiperf",
        "LOGNAME": "aiperf",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_worker_niceness": "0",
    }
    users = dict(_pair(word) for word in asked.choices.env)
    return [{"name": name, "value": literal(value)} for name, value in (own | users | dict(more or {})).items()]


def token(secret: str) -> list[Manifest]:
    """Ray's token from a Secret, in the form in which KubeRay gives it to its pods."""
    return [
        {"name": "RAY_AUTH_MODE", "value": "token"},
        {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "auth_token"}}},
    ]


def worker_resources(asked: Asked) -> Manifest:
    """What a worker's pod is given, no more and no less: a benchmark shares no processor that it counts on."""
    choices = asked.choices
    amounts = {"cpu": str(choices.cpus), "memory": choices.memory}
    if choices.accelerators:
        amounts[choices.accelerator_resource] = str(choices.accelerators)
    return {"requests": dict(amounts), "limits": dict(amounts)}


def head_resources(asked: Asked) -> Manifest:
    """What the head's pod is given."""
    amounts = {"cpu": str(asked.choices.head_cpus), "memory": asked.choices.head_memory}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def small_resources() -> Manifest:
    """Of a pod that only passes words on."""
    return {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def toleration(word: str) -> Manifest:
    """KEY[=VALUE][:EFFECT], as kubectl taint writes a taint.

    >>> toleration("gpu:NoSchedule"), toleration("pool=bench")
    ({'key': 'gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}, {'key': 'pool', 'operator': 'Equal', 'value': 'bench'})
    """
    rest, _, effect = word.partition(":")
    key, equals, value = rest.partition("=")
    found: Manifest = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    return found | ({"effect": effect} if effect else {})


def _pair(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return key, value
