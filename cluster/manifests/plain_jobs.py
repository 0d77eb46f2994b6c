"""A run as two Jobs of Kubernetes itself, where KubeRay is not installed: one with Ray's head and the driver, and an indexed
one whose pods join it.

The head's address and the token that Ray asks for reach the workers through a file in the run's folder (docs/slurm.md), which
the head's driver writes and removes. Nothing asks for more workers while the run goes on: Kubernetes keeps as many as the
second Job says, and starts a lost one anew.
"""

from __future__ import annotations

from cluster.manifests.around import network_policies, runs_claim
from cluster.manifests.asked import Asked, Manifest, literal
from cluster.manifests.pods import (
    container,
    environment,
    head_resources,
    mounts,
    template,
    token,
    worker_resources,
)

PYTHON = ["python", "-m", "aiperf"]
GRACE_SECONDS = 120
"""A head that is asked to end closes its journal and writes the report."""
LOSSES = 16
"""So often a worker's pod may fail by itself before its place is given up; evictions do not count."""


def objects(asked: Asked) -> list[Manifest]:
    """Everything, in the order in which it is applied."""
    return [*runs_claim(asked), *network_policies(asked, has_operator=False), head_job(asked), workers_job(asked)]


def head_job(asked: Asked) -> Manifest:
    """One pod, started anew after a loss: the driver then goes on from the journal."""
    choices = asked.choices
    command = [*PYTHON, "drive", "--supervised", asked.folder, *asked.words]
    head = container(
        asked,
        "head",
        command=[literal(word) for word in command],
        env=_environment(asked),
        resources=head_resources(asked),
        volumeMounts=mounts(asked, "head"),
    )
    pod = template(asked, "head", head, on=choices.head_node_selector, account=None)
    pod["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
    spec = {
        "backoffLimit": choices.restarts,
        "ttlSecondsAfterFinished": choices.keep_seconds,
        "podFailurePolicy": _disruptions_are_no_failures(),
        "template": pod,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": asked.metadata("-head"), "spec": spec}


def workers_job(asked: Asked) -> Manifest:
    """A pod a worker. Each ends by itself when the run is over; one that is lost is started anew."""
    choices = asked.choices
    patience = f"{choices.join_seconds:.0f}"
    worker = container(
        asked,
        "worker",
        command=[*PYTHON, "join", "--rejoin", "--patience", patience, asked.folder],
        env=_environment(asked),
        resources=worker_resources(asked),
        volumeMounts=mounts(asked, "worker"),
    )
    spec = {
        "completionMode": "Indexed",
        "completions": choices.max_workers,
        "parallelism": choices.max_workers,
        "backoffLimitPerIndex": LOSSES,
        "maxFailedIndexes": choices.max_workers,
        "ttlSecondsAfterFinished": choices.keep_seconds,
        "podFailurePolicy": _disruptions_are_no_failures(),
        "template": template(asked, "worker", worker, on=choices.node_selector, account=None),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": asked.metadata("-work"), "spec": spec}


def _environment(asked: Asked) -> list[Manifest]:
    secret = asked.choices.token_secret
    return environment(asked) + ([] if secret is None else token(secret))


def _disruptions_are_no_failures() -> Manifest:
    condition = {"type": "DisruptionTarget", "status": "True"}
    return {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
