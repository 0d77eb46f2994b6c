"""Kubernetes objects of a run.

With KubeRay (a RayJob, ray.io/v1), its operator starts Ray's head, submits the driver there as a job and starts workers for
Ray's autoscaler. It provides Ray's commands, addresses and token. Without KubeRay: one Job for the head, and one indexed Job
for the workers, which read the head's address and Ray's token from a file in the run's folder. There is no autoscaling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cluster import manifest_parts as parts
from cluster.manifest_parts import KubernetesRun, Manifest

GROUP = "workers"
PYTHON = ["python", "-m", "aiperf"]
GRACE_SECONDS = 120
"""Time for the head to close its journal and write the report."""
LOSSES = 16
"""Maximum number of failures of a worker's pod, without evictions. Then its index is given up."""


def kuberay_objects(run: KubernetesRun) -> list[Manifest]:
    return [
        *parts.runs_claim(run),
        *parts.account_of_head(run),
        *parts.network_policies(run, has_operator=True),
        ray_job(run),
    ]


def ray_job(run: KubernetesRun) -> Manifest:
    """Return the manifest (a dictionary) of the RayJob: Ray's head, its workers, and the command of the driver.

    The options are in an environment variable: no shell between KubeRay and the driver interprets them.
    """
    spec: Manifest = {
        "entrypoint": f"python -m aiperf drive --supervised --options-in {parts.OPTIONS} {run.folder}",
        "submissionMode": "K8sJobMode",
        # KubeRay adds its command and the token
        "submitterPodTemplate": parts.template(run, "submitter", "ray-job-submitter", env=parts.environment(run)),
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
            "resources": parts.small_resources(),
            "securityContext": parts.locked(),
            "env": parts.environment(run),
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
    ports = [{"name": name, "containerPort": port} for name, port in parts.HEAD_PORTS.items()]
    env = parts.environment(run, {parts.OPTIONS: json.dumps(list(run.words))})
    account = run.choices.service_account or run.object_name
    return parts.template(run, "head", "ray-head", account=account, ports=ports, env=env)


def _worker(run: KubernetesRun) -> Manifest:
    ports = [{"name": "metrics", "containerPort": parts.HEAD_PORTS["metrics"]}]
    return parts.template(run, "worker", "ray-worker", ports=ports, env=parts.environment(run))


def plain_objects(run: KubernetesRun) -> list[Manifest]:
    return [*parts.runs_claim(run), *parts.network_policies(run, has_operator=False), head_job(run), workers_job(run)]


def head_job(run: KubernetesRun) -> Manifest:
    """One pod with Ray's head and the driver, which resumes after a failure, up to cluster.restarts times without evictions."""
    choices = run.choices
    command = [parts.literal(word) for word in [*PYTHON, "drive", "--supervised", run.folder, *run.words]]
    pod = parts.template(run, "head", "head", command=command, env=_plain_environment(run))
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
        "template": parts.template(run, "worker", "worker", command=command, env=env),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": run.metadata("-work"), "spec": spec}


def _plain_environment(run: KubernetesRun, more: Mapping[str, str] | None = None) -> list[Manifest]:
    secret = run.choices.token_secret
    return parts.environment(run, more) + ([] if secret is None else parts.token(secret))


def _disruptions_are_no_failures() -> Manifest:
    condition = {"type": "DisruptionTarget", "status": "True"}
    return {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
