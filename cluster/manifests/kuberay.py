"""Run as a RayJob of KubeRay (ray.io/v1).

KubeRay's operator starts Ray's head, submits the driver there as a job, and starts workers when Ray's autoscaler
requests them.

KubeRay provides Ray's commands, addresses and token. It writes `ray start` with the head's address into each pod, and a
Secret with its own token into the environment.
"""

from __future__ import annotations

import json

from cluster.manifests.manifest_input import KubernetesRun, Manifest
from cluster.manifests.pods import (
    OPTIONS,
    container,
    environment,
    head_resources,
    locked,
    mounts,
    small_resources,
    template,
    worker_resources,
)
from cluster.manifests.support_objects import account_of_head, network_policies, runs_claim
from cluster.ports import HEAD_PORTS

GROUP = "workers"
"""Name of the only worker group."""


def objects(asked: KubernetesRun) -> list[Manifest]:
    """Return all objects in the order in which they are applied."""
    return [
        *runs_claim(asked),
        *account_of_head(asked),
        *network_policies(asked, has_operator=True),
        ray_job(asked),
    ]


def ray_job(asked: KubernetesRun) -> Manifest:
    """Return the job.

    The options are in the head's environment, so that no shell between KubeRay and the driver interprets them.
    """
    spec: Manifest = {
        "entrypoint": f"python -m aiperf drive --supervised --options-in {OPTIONS} {asked.folder}",
        "submissionMode": "K8sJobMode",
        "submitterPodTemplate": _submitter(asked),
        "backoffLimit": asked.choices.restarts,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": asked.choices.keep_seconds,
        "suspend": False,
        "rayClusterSpec": _cluster(asked),
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": asked.metadata(), "spec": spec}


def _cluster(asked: KubernetesRun) -> Manifest:
    choices = asked.choices
    authentication: Manifest = {"mode": "token"}
    if choices.token_secret is not None:
        authentication["secretName"] = choices.token_secret
    return {
        "rayVersion": asked.ray,
        "authOptions": authentication,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": choices.autoscaler,
            "upscalingMode": "Default",
            "idleTimeoutSeconds": choices.idle_seconds,
            "imagePullPolicy": choices.pull_policy,
            "resources": small_resources(),
            "securityContext": locked(),
            "env": environment(asked),
        },
        "headGroupSpec": {
            # no processor and no accelerator: nothing of the run's work is given to the head
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0", "dashboard-host": "0.0.0.0"},
            "template": _head(asked),
        },
        "workerGroupSpecs": [
            {
                "groupName": GROUP,
                "replicas": choices.min_workers,
                "minReplicas": choices.min_workers,
                "maxReplicas": choices.max_workers,
                "rayStartParams": {"num-cpus": str(choices.cpus), "num-gpus": str(choices.accelerators)},
                "template": _worker(asked),
            }
        ],
    }


def _head(asked: KubernetesRun) -> Manifest:
    choices = asked.choices
    head = container(
        asked,
        "ray-head",
        ports=[{"name": name, "containerPort": port} for name, port in HEAD_PORTS.items()],
        env=environment(asked, {OPTIONS: json.dumps(list(asked.words))}),
        resources=head_resources(asked),
        volumeMounts=mounts(asked, "head"),
    )
    account = choices.service_account or asked.object_name
    return template(asked, "head", head, on=choices.head_node_selector, account=account)


def _worker(asked: KubernetesRun) -> Manifest:
    worker = container(
        asked,
        "ray-worker",
        ports=[{"name": "metrics", "containerPort": HEAD_PORTS["metrics"]}],
        env=environment(asked),
        resources=worker_resources(asked),
        volumeMounts=mounts(asked, "worker"),
    )
    return template(asked, "worker", worker, on=asked.choices.node_selector, account=None)


def _submitter(asked: KubernetesRun) -> Manifest:
    """Return the submitter's pod. KubeRay adds its command and the token."""
    submitter = container(
        asked,
        "ray-job-submitter",
        env=environment(asked),
        resources=small_resources(),
        volumeMounts=mounts(asked, "submitter"),
    )
    return template(asked, "submitter", submitter, on=asked.choices.head_node_selector, account=None)
