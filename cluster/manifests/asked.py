"""What the manifests are made of: a run, and the choices of `cluster.kubernetes.KubernetesConf` as they are looked at here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Manifest = dict[str, Any]
"""An object of the API, or a part of one, as JSON has it."""
RUN_LABEL, ROLE_LABEL = "aiperf-run", "aiperf-role"
"""Labels of all that belongs to a run: its name; and whether a pod is its head, a worker, the submitter or a reader."""
LONGEST_NAME = 40
"""KubeRay takes 47 letters for a RayJob, Kubernetes 63 for what is named after it; ours append seven at most."""


class Choices(Protocol):
    """The fields of `KubernetesConf` that a manifest is made of."""

    namespace: str
    image: str
    pull_policy: str
    pull_secrets: list[str]
    min_workers: int
    max_workers: int
    accelerators: int
    accelerator_resource: str
    cpus: int
    memory: str
    shared_memory: str
    head_cpus: int
    head_memory: str
    node_selector: list[str]
    head_node_selector: list[str]
    tolerations: list[str]
    runs_claim: str
    runs_path: str
    runs_size: str | None
    storage_class: str | None
    data_claim: str | None
    data_path: str
    user: int
    service_account: str | None
    token_secret: str | None
    env: list[str]
    join_seconds: float
    restarts: int
    keep_seconds: int
    idle_seconds: int
    autoscaler: str
    operator_namespace: str | None
    metrics_namespace: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """One run that is to take place on Kubernetes."""

    choices: Choices
    name: str
    """Of the run's folder."""
    words: Sequence[str]
    """Its options, as they were typed."""
    ray: str
    """Version of Ray in the image."""

    @property
    def object_name(self) -> str:
        """Of the run's objects: a label as DNS has it (RFC 1035)."""
        return named(self.name)

    @property
    def folder(self) -> str:
        """The run's, as the pods see it."""
        return f"{self.choices.runs_path.rstrip('/')}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Of all that belongs to the run."""
        return {RUN_LABEL: self.object_name, "app.kubernetes.io/part-of": "aiperf"}

    def metadata(self, suffix: str = "") -> Manifest:
        """Of one of its objects."""
        return {
            "name": f"{self.object_name}{suffix}",
            "namespace": self.choices.namespace,
            "labels": self.labels,
        }


def named(run: str) -> str:
    """A run's name as names of the API are: lower case letters, digits and hyphens. What is cut off or changed is told apart
    by a digest.

    >>> named("20261122-140000-digits"), named("20261122-140000-My_Run")
    ('aiperf-20261122-140000-digits', 'aiperf-20261122-140000-my-run-3bb2')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    if plain == run and len(plain) + len("aiperf-") <= LONGEST_NAME:
        return f"aiperf-{run}"
    digest = hashlib.sha256(run.encode()).hexdigest()[:4]
    return f"aiperf-{plain}"[: LONGEST_NAME - 5].rstrip("-") + f"-{digest}"


def literal(text: str) -> str:
    """As it stands in a container's command, arguments or environment, where Kubernetes would replace $(NAME).

    >>> literal("a=$(b)")
    'a=$$(b)'
    """
    return text.replace("$(", "$$(")
