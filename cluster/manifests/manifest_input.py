"""Input of the manifests: a run, and the fields of `cluster.kubernetes.KubernetesConf`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Manifest = dict[str, Any]
"""Object of the API, or a part of one, as JSON."""
RUN_LABEL, ROLE_LABEL = "aiperf-run", "aiperf-role"
"""Labels of a run's objects: the run's name, and the role of a pod (head, worker, submitter, reader)."""
LONGEST_NAME = 40
"""Maximum length of a run's name. KubeRay allows 47 characters for a RayJob, and Kubernetes 63 for derived names. This
package appends at most seven."""


class ManifestOptions(Protocol):
    """Fields of `KubernetesConf` that the manifests use."""

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
    node_affinity: list[str]
    apart: bool
    priority_class: str | None
    host_network: bool
    extra_resources: list[str]
    labels: list[str]
    annotations: list[str]
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
class KubernetesRun:
    """Run to be started on Kubernetes."""

    choices: ManifestOptions
    name: str
    """Name of the run's folder."""
    words: Sequence[str]
    """Options as typed."""
    ray: str
    """Version of Ray in the image."""

    @property
    def object_name(self) -> str:
        """Name of the run's objects, a DNS label (RFC 1035)."""
        return named(self.name)

    @property
    def folder(self) -> str:
        """Path of the run's folder in the pods."""
        return f"{self.choices.runs_path.rstrip('/')}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of all objects of the run."""
        return {RUN_LABEL: self.object_name, "app.kubernetes.io/part-of": "aiperf"}

    def metadata(self, suffix: str = "") -> Manifest:
        """Return the metadata of one object."""
        return {
            "name": f"{self.object_name}{suffix}",
            "namespace": self.choices.namespace,
            **self.marked(self.labels),
        }

    def marked(self, own: dict[str, str]) -> Manifest:
        """Return the labels `own` together with the labels and annotations that the user adds."""
        annotations = dict(pair(word) for word in self.choices.annotations)
        labels = {**dict(pair(word) for word in self.choices.labels), **own}
        return {"labels": labels, **({"annotations": annotations} if annotations else {})}


def named(run: str) -> str:
    """Return a run's name as an API name: lower case letters, digits and hyphens.

    A digest distinguishes names that were shortened or changed.

    >>> named("20261122-140000-digits"), named("20261122-140000-My_Run")
    ('aiperf-20261122-140000-digits', 'aiperf-20261122-140000-my-run-1793')
    """
    name = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    if name == run and len(name) + len("aiperf-") <= LONGEST_NAME:
        return f"aiperf-{run}"
    digest = hashlib.sha256(run.encode()).hexdigest()[:4]
    return f"aiperf-{name}"[: LONGEST_NAME - 5].rstrip("-") + f"-{digest}"


def pair(word: str) -> tuple[str, str]:
    """Return key and value of KEY=VALUE."""
    key, _, value = word.partition("=")
    return key, value


def literal(text: str) -> str:
    """Escape $(NAME), which Kubernetes would replace in a container's command, arguments or environment.

    >>> literal("a=$(b)")
    'a=$$(b)'
    """
    return text.replace("$(", "$$(")
