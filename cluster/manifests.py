"""Kubernetes objects of a run.

With KubeRay, its operator starts Ray's head, the driver as a job, and workers for the autoscaler. Without it: one Job for the
head and one indexed Job for the workers, which read address and token from the run's folder. There is no autoscaling.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster.kubernetes import KubernetesConf

Manifest = dict[str, Any]
"""Object of the API, or a part of one, as JSON."""
HEAD_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080}
"""Fixed ports of Ray's head in a pod of KubeRay. Nodes have the metrics port only."""
RUN_LABEL, ROLE_LABEL = "aiperf-run", "aiperf-role"
"""Labels of a run's objects: the run's name, and the role of a pod (head, worker, submitter, reader)."""
LONGEST_NAME = 40
"""KubeRay allows 47 characters for a RayJob. This package appends at most seven."""


@dataclass(frozen=True, slots=True)
class KubernetesRun:
    """Run to be started on Kubernetes: its options, its name and the version of Ray."""

    choices: KubernetesConf
    name: str
    """Name of the run's folder."""
    words: Sequence[str]
    """Options as typed."""
    ray: str
    """Version of Ray in the image."""

    @property
    def object_name(self) -> str:
        """Name of the run's Kubernetes objects, a DNS label (RFC 1035) of at most 40 characters."""
        return named(self.name)

    @property
    def folder(self) -> str:
        """Path of the run's folder in the pods."""
        return f"{self.choices.runs_path.rstrip('/')}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        return {RUN_LABEL: self.object_name, "app.kubernetes.io/part-of": "aiperf"}

    def metadata(self, suffix: str = "") -> Manifest:
        """Return the metadata of one Kubernetes object: name, namespace, labels and annotations."""
        return {"name": f"{self.object_name}{suffix}", "namespace": self.choices.namespace, **self.marked(self.labels)}

    def marked(self, own: dict[str, str]) -> Manifest:
        """Metadata with the labels `own`, cluster.labels and cluster.annotations. `own` has priority. Without any, no key."""
        annotations = dict(pair(word) for word in self.choices.annotations)
        labels = {**dict(pair(word) for word in self.choices.labels), **own}
        return {"labels": labels, **({"annotations": annotations} if annotations else {})}


def named(run: str) -> str:
    """Return the name of a run's Kubernetes objects: lower-case letters, digits and hyphens, at most 40 characters.

    `run`: name of the run's folder. A digest distinguishes names that were shortened or changed.

    >>> named("20261122-140000-digits"), named("20261122-140000-My_Run")
    ('aiperf-20261122-140000-digits', 'aiperf-20261122-140000-my-run-1793')
    """
    name = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    if name == run and len(name) + len("aiperf-") <= LONGEST_NAME:
        return f"aiperf-{run}"
    digest = hashlib.sha256(run.encode()).hexdigest()[:4]
    return f"aiperf-{name}"[: LONGEST_NAME - 5].rstrip("-") + f"-{digest}"


def pair(text: str) -> tuple[str, str]:
    """Return (key, value) of a text KEY=VALUE. The value is '' without '='."""
    key, _, value = text.partition("=")
    return key, value


def literal(text: str) -> str:
    """Return the text with $(NAME) escaped. Kubernetes would replace it in a container's command, arguments or environment.

    >>> literal("a=$(b)")
    'a=$$(b)'
    """
    return text.replace("$(", "$$(")


OPTIONS = "AIPERF_OPTIONS"
"""The environment variable of the head's pod that holds a run's options, as a JSON list."""


def template(run: KubernetesRun, role: str, name: str, *, account: str | None = None, **parts: object) -> Manifest:
    """Return a pod with one container `name` of the run's image, without any privilege. `parts`: more of the container."""
    choices = run.choices
    container = {
        "name": name,
        "image": choices.image,
        "imagePullPolicy": choices.pull_policy,
        "securityContext": locked(),
        **parts,
        "resources": _resources(run, role),
        "volumeMounts": _mounts(run, role),
    }
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
    if on := choices.node_selector if role == "worker" else choices.head_node_selector:
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


def requirement(text: str) -> Manifest:
    """Return the requirement on a node's labels (matchExpressions) from a text in the form of a kubectl selector.

    >>> requirement("pool=a,b"), requirement("!spot")
    ({'key': 'pool', 'operator': 'In', 'values': ['a', 'b']}, {'key': 'spot', 'operator': 'DoesNotExist'})
    """
    key, equals, values = text.partition("=")
    if equals:
        return {"key": key.rstrip("!"), "operator": "NotIn" if key.endswith("!") else "In", "values": values.split(",")}
    return {"key": key.lstrip("!"), "operator": "DoesNotExist" if key.startswith("!") else "Exists"}


def locked() -> Manifest:
    """Return the security context of a container that does not run as root and cannot become root."""
    return {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}


def _mounts(run: KubernetesRun, role: str) -> list[Manifest]:
    """Return the volume mounts of a container: folder of runs, data set (with cluster.data_claim), and /dev/shm."""
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
        # Ray's store and NCCL's buffers are here. The default size is half of the node's memory
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": choices.shared_memory}})
    return volumes


def environment(run: KubernetesRun, more: Mapping[str, str] | None = None) -> list[Manifest]:
    """Return the environment variables of a container: those of all pods, those of cluster.env, and `more`."""
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
    return [
        {"name": "RAY_AUTH_MODE", "value": "token"},
        {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "auth_token"}}},
    ]


def _resources(run: KubernetesRun, role: str) -> Manifest:
    """Return the resources of a container. Requests equal limits, as exclusive processors require."""
    choices = run.choices
    if role not in ("head", "worker"):
        return small_resources()
    amounts = {"cpu": str(choices.head_cpus), "memory": choices.head_memory}
    if role == "worker":
        amounts = {"cpu": str(choices.cpus), "memory": choices.memory}
        if choices.accelerators:
            amounts[choices.accelerator_resource] = str(choices.accelerators)
        amounts |= dict(pair(word) for word in choices.extra_resources)
    return {"requests": dict(amounts), "limits": dict(amounts)}


def small_resources() -> Manifest:
    """Return the resources of a pod that only submits or copies: at most one processor and 1 GiB of memory."""
    return {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def toleration(text: str) -> Manifest:
    """Return the toleration of a taint from a text KEY[=VALUE][:EFFECT].

    >>> toleration("gpu:NoSchedule"), toleration("pool=bench")
    ({'key': 'gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}, {'key': 'pool', 'operator': 'Equal', 'value': 'bench'})
    """
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    tolerated: Manifest = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        tolerated["value"] = value
    return tolerated | ({"effect": effect} if effect else {})


OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
"""Labels of KubeRay's own pod, as its Helm chart sets them."""


def runs_claim(run: KubernetesRun) -> list[Manifest]:
    """Return the PersistentVolumeClaim for the folder of runs, as a list of one. Empty without cluster.runs_size."""
    choices = run.choices
    if choices.runs_size is None:
        return []
    spec: Manifest = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": choices.runs_size}}}
    if choices.storage_class is not None:
        spec["storageClassName"] = choices.storage_class
    metadata = {"name": choices.runs_claim, "namespace": choices.namespace}
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}]


def network_policies(run: KubernetesRun, *, has_operator: bool) -> list[Manifest]:
    """Return the network policies of a run: only its own pods may connect to its pods."""
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
    """Return ServiceAccount, Role and RoleBinding of a head with an autoscaler, with the rights that KubeRay chooses."""
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


GROUP = "workers"
PYTHON = ["python", "-m", "aiperf"]
GRACE_SECONDS = 120
"""Time for the head to close its journal and write the report."""
LOSSES = 16
"""Maximum number of failures of a worker's pod, without evictions. Then its index is given up."""


def kuberay_objects(run: KubernetesRun) -> list[Manifest]:
    return [
        *runs_claim(run),
        *account_of_head(run),
        *network_policies(run, has_operator=True),
        ray_job(run),
    ]


def ray_job(run: KubernetesRun) -> Manifest:
    """Return the manifest (a dictionary) of the RayJob: Ray's head, its workers, and the command of the driver.

    The options are in an environment variable: no shell between KubeRay and the driver interprets them.
    """
    spec: Manifest = {
        "entrypoint": f"python -m aiperf drive --supervised --options-in {OPTIONS} {run.folder}",
        "submissionMode": "K8sJobMode",
        # KubeRay adds its command and the token
        "submitterPodTemplate": template(run, "submitter", "ray-job-submitter", env=environment(run)),
        "backoffLimit": run.choices.restarts,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": run.choices.keep_seconds,
        "suspend": False,
        "rayClusterSpec": _cluster(run),
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": run.metadata(), "spec": spec}


def _cluster(run: KubernetesRun) -> Manifest:
    choices = run.choices
    authentication: Manifest = {"mode": "token"}
    if choices.token_secret is not None:
        authentication["secretName"] = choices.token_secret
    return {
        "rayVersion": run.ray,
        "authOptions": authentication,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": choices.autoscaler,
            "upscalingMode": "Default",
            "idleTimeoutSeconds": choices.idle_seconds,
            "imagePullPolicy": choices.pull_policy,
            "resources": small_resources(),
            "securityContext": locked(),
            "env": environment(run),
        },
        "headGroupSpec": {
            # no processor and no accelerator: nothing of the run's work is given to the head
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0", "dashboard-host": "0.0.0.0"},
            "template": _head(run),
        },
        "workerGroupSpecs": [
            {
                "groupName": GROUP,
                "replicas": choices.min_workers,
                "minReplicas": choices.min_workers,
                "maxReplicas": choices.max_workers,
                "rayStartParams": {"num-cpus": str(choices.cpus), "num-gpus": str(choices.accelerators)},
                "template": _worker(run),
            }
        ],
    }


def _head(run: KubernetesRun) -> Manifest:
    ports = [{"name": name, "containerPort": port} for name, port in HEAD_PORTS.items()]
    env = environment(run, {OPTIONS: json.dumps(list(run.words))})
    account = run.choices.service_account or run.object_name
    return template(run, "head", "ray-head", account=account, ports=ports, env=env)


def _worker(run: KubernetesRun) -> Manifest:
    ports = [{"name": "metrics", "containerPort": HEAD_PORTS["metrics"]}]
    return template(run, "worker", "ray-worker", ports=ports, env=environment(run))


def plain_objects(run: KubernetesRun) -> list[Manifest]:
    return [*runs_claim(run), *network_policies(run, has_operator=False), head_job(run), workers_job(run)]


def head_job(run: KubernetesRun) -> Manifest:
    """One pod with Ray's head and the driver, which resumes after a failure, up to cluster.restarts times without evictions."""
    choices = run.choices
    command = [literal(word) for word in [*PYTHON, "drive", "--supervised", run.folder, *run.words]]
    pod = template(run, "head", "head", command=command, env=_plain_environment(run))
    pod["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
    spec = {
        "backoffLimit": choices.restarts,
        "ttlSecondsAfterFinished": choices.keep_seconds,
        "podFailurePolicy": _disruptions_are_no_failures(),
        "template": pod,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": run.metadata("-head"), "spec": spec}


def workers_job(run: KubernetesRun) -> Manifest:
    """Return the manifest (a dictionary) of the Job of the workers: cluster.max_workers pods, one Ray node each."""
    choices = run.choices
    command = [*PYTHON, "join", "--rejoin", "--patience", f"{choices.join_seconds:.0f}", run.folder]
    env = _plain_environment(run, {"AIPERF_GPUS": str(choices.accelerators)})  # join checks that it can use them
    spec = {
        "completionMode": "Indexed",
        "completions": choices.max_workers,
        "parallelism": choices.max_workers,
        "backoffLimitPerIndex": LOSSES,
        "maxFailedIndexes": choices.max_workers,
        "ttlSecondsAfterFinished": choices.keep_seconds,
        "podFailurePolicy": _disruptions_are_no_failures(),
        "template": template(run, "worker", "worker", command=command, env=env),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": run.metadata("-work"), "spec": spec}


def _plain_environment(run: KubernetesRun, more: Mapping[str, str] | None = None) -> list[Manifest]:
    secret = run.choices.token_secret
    return environment(run, more) + ([] if secret is None else token(secret))


def _disruptions_are_no_failures() -> Manifest:
    condition = {"type": "DisruptionTarget", "status": "True"}
    return {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
