"""Kubernetes objects of a run without KubeRay: one Job for the head, and one indexed Job for the workers.

The pods of the workers read the head's address and Ray's token from a file in the run's folder. There is no autoscaling.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.manifests.parts import (
    KubernetesRun,
    Manifest,
    container,
    environment,
    head_resources,
    literal,
    mounts,
    network_policies,
    runs_claim,
    template,
    token,
    worker_resources,
)

PYTHON = ["python", "-m", "aiperf"]
GRACE_SECONDS = 120
"""Time for the head to close its journal and write the report."""
LOSSES = 16
"""Maximum number of failures of a worker's pod, without evictions. Then its index is given up."""


def objects(run: KubernetesRun) -> list[Manifest]:
    """Return all Kubernetes objects of a run without KubeRay, in the sequence in which they must be created."""
    return [*runs_claim(run), *network_policies(run, has_operator=False), head_job(run), workers_job(run)]


def head_job(run: KubernetesRun) -> Manifest:
    """Return the manifest (a dictionary) of the Job of the head: one pod with Ray's head and the driver.

    Restarted after a failure up to cluster.restarts times, without evictions and losses of a node. The driver then resumes.
    """
    choices = run.choices
    command = [*PYTHON, "drive", "--supervised", run.folder, *run.words]
    head = container(
        run,
        "head",
        command=[literal(word) for word in command],
        env=_environment(run),
        resources=head_resources(run),
        volumeMounts=mounts(run, "head"),
    )
    pod = template(run, "head", head, on=choices.head_node_selector, account=None)
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
    patience = f"{choices.join_seconds:.0f}"
    worker = container(
        run,
        "worker",
        command=[*PYTHON, "join", "--rejoin", "--patience", patience, run.folder],
        env=_environment(run, {"AIPERF_GPUS": str(choices.accelerators)}),  # join checks that it can use them
        resources=worker_resources(run),
        volumeMounts=mounts(run, "worker"),
    )
    spec = {
        "completionMode": "Indexed",
        "completions": choices.max_workers,
        "parallelism": choices.max_workers,
        "backoffLimitPerIndex": LOSSES,
        "maxFailedIndexes": choices.max_workers,
        "ttlSecondsAfterFinished": choices.keep_seconds,
        "podFailurePolicy": _disruptions_are_no_failures(),
        "template": template(run, "worker", worker, on=choices.node_selector, account=None),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": run.metadata("-work"), "spec": spec}


def _environment(run: KubernetesRun, more: Mapping[str, str] | None = None) -> list[Manifest]:
    secret = run.choices.token_secret
    return environment(run, more) + ([] if secret is None else token(secret))


def _disruptions_are_no_failures() -> Manifest:
    condition = {"type": "DisruptionTarget", "status": "True"}
    return {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
