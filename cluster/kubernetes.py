"""Nodes of a Kubernetes cluster: `+cluster=kubernetes`. Its manifests are values made in `cluster.manifests`; applying and
following them is thin (`cluster.kubernetes_job`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from cluster.kubernetes_job import KubernetesJob, as_yaml
from cluster.manifests import kuberay, plain_jobs
from cluster.manifests.asked import Asked
from cluster.place import (
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_OF_A_NODE,
    BatchConf,
    Demand,
    Existing,
    Head,
    NodesAsked,
    Place,
    Submission,
    form,
)

OPERATORS = ("kuberay", "none")
PULL_POLICIES = ("IfNotPresent", "Always", "Never")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"({_SUBDOMAIN}/)?{_NAME}"
_QUANTITY = r"[1-9][0-9]{0,14}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?"
_PATH = r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+"
_DNS_NAME = "a name of lower case letters, digits, '-' and '.'"
_DNS_LABEL = "a name of lower case letters, digits and '-'"
_NODE_LABEL = (rf"{_KEY}=({_NAME})?", "a label of nodes, LABEL=VALUE")
_PATH_IN_PODS = "an absolute path of letters, digits, '.', '_' and '-', /runs"
_OF_THE_SYSTEM = ("dev", "etc", "proc", "sys", "tmp", "usr")
_OWN_VARIABLES = ("RAY_AUTH_", "RAY_ADDRESS", "AIPERF_OPTIONS", "RAY_CLUSTER_", "KUBERAY_")


@dataclass
class KubernetesConf(BatchConf):
    """Pods of a Kubernetes cluster, by a RayJob of KubeRay or by Jobs alone. The run is applied and followed; Ctrl-C leaves it
    running. Its folder lies on a claim that all its pods share; journal and report are fetched from there."""

    kind: str = "kubernetes"
    image: str = field(default="", metadata=form(r"[\w./:@-]*", "an image's name, registry.example.org/aiperf:1"))
    """The image that all pods run, with this package in it: see Dockerfile."""
    operator: str = field(default="kuberay", metadata={"among": OPERATORS})
    """kuberay: a RayJob, whose workers come and go by Ray's autoscaler; none: a Job for the head, and an indexed
    one for the workers."""
    namespace: str = field(default="default", metadata=form(_LABEL, _DNS_LABEL))
    """It must be there."""
    max_workers: int = field(default=1, metadata={"least": 1, "most": MOST_NODES})
    """Pods of workers, a node of Ray each; all of them are asked for as the run begins."""
    min_workers: int = field(default=0, metadata={"least": 0, "most": MOST_NODES})
    """So many are kept in any case (kuberay)."""
    start_workers: int = field(default=1, metadata={"least": 1, "most": MOST_NODES})
    """The run begins when so many have joined; the others may come at any time."""
    join_seconds: float = field(default=1800.0, metadata={"least": 1, "most": LONGEST_SECONDS})
    """How long they may take: new nodes, and images that are pulled."""
    accelerators: int = field(default=0, metadata={"least": 0, "most": MOST_OF_A_NODE})
    """Of each worker's pod."""
    accelerator_resource: str = field(
        default="nvidia.com/gpu",
        metadata=form(rf"{_SUBDOMAIN}/{_NAME}", "a resource's name, DOMAIN/NAME, nvidia.com/gpu"),
    )
    """As the cluster's device plugin names them."""
    cpus: int = field(default=4, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """Of each worker's pod: asked for and never exceeded; likewise below."""
    memory: str = field(default="16Gi", metadata=form(_QUANTITY, "a whole number with a unit, 16Gi"))
    shared_memory: str = field(default="4Gi", metadata=form(_QUANTITY, "a whole number with a unit, 4Gi"))
    """/dev/shm of each pod; counted as its memory."""
    head_cpus: int = field(default=2, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """Of the head's pod, which holds Ray's head and the driver, and trains nothing."""
    head_memory: str = field(default="8Gi", metadata=form(_QUANTITY, "a whole number with a unit, 8Gi"))
    runs_claim: str = field(default="aiperf-runs", metadata=form(_SUBDOMAIN, _DNS_NAME))
    """PersistentVolumeClaim that all pods can write to (ReadWriteMany): journals, checkpoints, reports."""
    runs_path: str = field(default="/runs", metadata=form(_PATH, _PATH_IN_PODS))
    """Where it stands in the pods."""
    runs_size: str | None = field(default=None, metadata=form(_QUANTITY, "a whole number with a unit, 500Gi"))
    """Make the claim, of this size, where it is not there; none: it is."""
    storage_class: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Of a claim that is made; none: the cluster's default."""
    data_claim: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Claim that holds the data set, read only; none: the data set is in the image, or made up."""
    data_path: str = field(default="/data", metadata=form(_PATH, _PATH_IN_PODS))
    """Where it stands in the pods: dataset.root=/data/imagenet."""
    node_selector: list[str] = field(default_factory=list, metadata=form(*_NODE_LABEL))
    """LABEL=VALUE each, of nodes for workers."""
    head_node_selector: list[str] = field(default_factory=list, metadata=form(*_NODE_LABEL))
    """The same for the head."""
    tolerations: list[str] = field(
        default_factory=list,
        metadata=form(
            rf"{_KEY}(=({_NAME})?)?(:({'|'.join(EFFECTS)}))?", "KEY[=VALUE][:EFFECT], nvidia.com/gpu:NoSchedule"
        ),
    )
    """KEY[=VALUE][:EFFECT] each, of all pods: nvidia.com/gpu:NoSchedule."""
    pull_policy: str = field(default="IfNotPresent", metadata={"among": PULL_POLICIES})
    """IfNotPresent, Always or Never."""
    pull_secrets: list[str] = field(default_factory=list, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Secrets with which the image is pulled."""
    service_account: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Of the head, whose autoscaler asks for pods (kuberay); none: one is made with no more rights than that takes."""
    token_secret: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Secret whose key auth_token holds Ray's token; none: KubeRay makes one; without KubeRay the driver does."""
    user: int = field(default=1000, metadata={"least": 1, "most": 2**32 - 2})
    """Number of the user and group that all containers run as, and that the claims' files belong to. Never root."""
    env: list[str] = field(
        default_factory=list,
        metadata=form(r"[A-Za-z_][A-Za-z0-9_]*=[^\x00\r\n]*", "NAME=VALUE in one line, NCCL_SOCKET_IFNAME=eth0"),
    )
    """NAME=VALUE each, of all pods: NCCL_SOCKET_IFNAME=eth0. No secrets: whoever may read the job reads them."""
    restarts: int = field(default=3, metadata={"least": 0, "most": 1000})
    """So often the job is begun anew after a loss of its head: the run goes on from its journal."""
    keep_seconds: int = field(default=600, metadata={"least": 0, "most": LONGEST_SECONDS})
    """The pods stay so long after the end."""
    idle_seconds: int = field(default=120, metadata={"least": 0, "most": LONGEST_SECONDS})
    """A worker that the run does not ask for any more is ended after so long."""
    autoscaler: str = field(default="v2", metadata={"among": ("v1", "v2")})
    """Version of Ray's autoscaler: v2 or v1."""
    ray_version: str | None = field(default=None, metadata=form(r"[0-9]+\.[0-9]+\.[0-9]+", "three numbers, 2.60.0"))
    """Of the Ray in the image; none: that which is installed here."""
    operator_namespace: str | None = field(default=None, metadata=form(_LABEL, _DNS_LABEL))
    """Where KubeRay's operator runs, which the network policy lets in; none: wherever."""
    metrics_namespace: str | None = field(default=None, metadata=form(_LABEL, _DNS_LABEL))
    """Where a Prometheus runs that may read the pods' metrics; none: nobody may."""

    def check(self) -> None:
        """See `ClusterConf.check`."""
        super().check()
        for law in self._broken():
            raise ValueError(law)

    def nodes_asked(self) -> NodesAsked:
        """The workers' pods."""
        return replace(
            super().nodes_asked(),
            nodes=self.start_workers,
            most_nodes=self.max_workers if self.max_workers > self.start_workers else None,
            accelerators=self.accelerators,
            cores=self.cpus,
            memory_bytes=quantity(self.memory),
        )

    def asked_for(self, seconds: float) -> Sequence[tuple[str, str]]:
        """The pods, and what shows their manifests."""
        each = f"{self.cpus} processors, {self.memory} of memory"
        if self.accelerators:
            each = f"{self.accelerators} {self.accelerator_resource}, {each}"
        by = "a RayJob of KubeRay" if self.operator == "kuberay" else "Jobs"
        pods = f"{self.min_workers} to {self.max_workers} pods of workers in {self.namespace}, by {by}: {each}"
        return [("asked for", pods), ("manifests", "cluster.submit=false prints them")]

    def place(self, environment: Mapping[str, str]) -> Place:
        """KubeRay's Ray, which this process runs on the head of; else a head of our own, which the workers' pods join."""
        begins = 1 + self.start_workers
        if self.operator == "none":
            return Head(begins, begins, self.join_seconds)
        each = {"CPU": float(self.cpus)} | ({"GPU": float(self.accelerators)} if self.accelerators else {})
        return Existing("auto", begins, begins, self.join_seconds, Demand(self.max_workers, each))

    def job(self, submission: Submission) -> KubernetesJob:
        """The run as objects of the API."""
        from importlib import metadata  # takes longer than all else that is imported here

        words = [word for word in submission.words if not word.startswith("runs=")]  # the folder here
        words += [f"runs={self.runs_path}"] if submission.words else []
        asked = Asked(self, submission.folder.name, words, self.ray_version or metadata.version("ray"))
        objects = plain_jobs.objects(asked) if self.operator == "none" else kuberay.objects(asked)
        return KubernetesJob(as_yaml(objects), (submission.folder,), asked, tuple(objects))

    def _broken(self) -> Iterator[str]:
        """Every law that a value breaks."""
        if not self.image:
            yield f"cluster.image is the image that all pods run (docs/kubernetes.md builds one); found {self.image!r}"
        if not self.min_workers <= self.max_workers or not self.start_workers <= self.max_workers:
            yield (
                "cluster.min_workers and cluster.start_workers are at most cluster.max_workers; found "
                f"{self.min_workers}, {self.start_workers} and {self.max_workers}"
            )
        for name in ("runs_path", "data_path"):
            path: str = getattr(self, name)
            if path.split("/")[1] in _OF_THE_SYSTEM:
                yield (
                    f"cluster.{name} is an absolute path in no folder of the system, of which "
                    f"{', '.join(f'/{each}' for each in _OF_THE_SYSTEM)} are kept out; found {path!r}: take another, /runs"
                )
        if _overlap(self.runs_path, self.data_path):
            yield f"cluster.runs_path and cluster.data_path lie apart; found {self.runs_path!r} and {self.data_path!r}"
        for word in self.env:
            if word.startswith(_OWN_VARIABLES):
                yield f"cluster.env leaves out what the run or KubeRay sets: {', '.join(_OWN_VARIABLES)}; found {word!r}"
        if self.runs_size is None and self.storage_class is not None:
            yield f"cluster.storage_class is of a claim that is made, by cluster.runs_size; found {self.storage_class!r} alone"
        if self.operator == "none":
            yield from self._without_operator()

    def _without_operator(self) -> Iterator[str]:
        usual: dict[str, Any] = {"min_workers": 0, "service_account": None, "operator_namespace": None}
        for name, value in usual.items():
            if getattr(self, name) != value:
                yield f"cluster.{name} is for cluster.operator=kuberay; found {getattr(self, name)!r} without it: leave it out"


def quantity(word: str) -> int:
    """What a quantity of Kubernetes means: Ki, Mi, … of 1024, k, M, … of 1000 each.

    >>> quantity("16Gi"), quantity("2k")
    (17179869184, 2000)
    """
    number, unit = word.rstrip("kKMGTPi"), word.lstrip("0123456789")
    base: int = 1024 if unit.endswith("i") else 1000
    factor: int = base ** " KMGTP".index(unit[:1].upper() or " ")
    return int(number) * factor


def _overlap(one: str, other: str) -> bool:
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)
