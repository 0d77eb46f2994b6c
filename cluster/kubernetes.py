"""Option +cluster=kubernetes: a run in pods of a Kubernetes cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from cluster.kubernetes_job import KubernetesJob, as_yaml
from cluster.manifests import ROLE_LABEL, RUN_LABEL, KubernetesRun, kuberay_objects, plain_objects
from cluster.place import (
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_OF_A_NODE,
    PORT,
    Demand,
    Existing,
    HeadPlace,
    JobSubmission,
    NodesAsked,
    Place,
    SchedulerConf,
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
_SIZE = r"[1-9][0-9]{0,14}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)"
_PART = r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*"
_IMAGE = (
    rf"(([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|localhost|[A-Za-z0-9-]+(?=:))(:{PORT})?/)?{_PART}(/{_PART})*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?|"
)
_PATH = r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+"
_DNS_NAME = "a name of lower case letters, digits, '-' and '.'"
_DNS_LABEL = "a name of lower case letters, digits and '-'"
_NODE_LABEL = (rf"{_KEY}=({_NAME})?", "a label of nodes, LABEL=VALUE")
_REQUIREMENT = (
    rf"!?{_KEY}|{_KEY}!?={_NAME}(,{_NAME})*",
    "a requirement as kubectl writes it: LABEL, !LABEL, LABEL=VALUE[,VALUE…] or LABEL!=VALUE[,VALUE…]",
)
_OWN_LABELS = (RUN_LABEL, ROLE_LABEL, "app.kubernetes.io/part-of", "ray.io/")
_PATH_IN_PODS = "an absolute path of letters, digits, '.', '_' and '-', /runs"
_OF_THE_SYSTEM = ("dev", "etc", "proc", "sys", "tmp", "usr")
_OWN_VARIABLES = ("RAY_AUTH_", "RAY_ADDRESS", "AIPERF_OPTIONS", "RAY_CLUSTER_", "KUBERAY_")


@dataclass
class KubernetesConf(SchedulerConf):
    """Pods of a Kubernetes cluster, by a RayJob of KubeRay or by Jobs alone.

    The run is applied and followed. Ctrl-C leaves it running. Its folder is on a claim that all its pods share. Journal
    and report are fetched from it.
    """

    kind: str = "kubernetes"
    image: str = field(
        default="", metadata=form(_IMAGE, "an image's name in lower case, registry.example.org/aiperf:1")
    )
    """Image of all pods. It must contain this package: see Dockerfile."""
    operator: str = field(default="kuberay", metadata={"among": OPERATORS})
    """kuberay: a RayJob with Ray's autoscaler for the workers. `none`: a Job for the head, and an indexed Job for the
    workers."""
    namespace: str = field(default="default", metadata=form(_LABEL, _DNS_LABEL))
    """Namespace. It must exist."""
    max_workers: int = field(default=1, metadata={"least": 1, "most": MOST_NODES})
    """Maximum number of worker pods, one Ray node each. All of them are requested when the run begins."""
    min_workers: int = field(default=0, metadata={"least": 0, "most": MOST_NODES})
    """Minimum number of worker pods that are kept (kuberay)."""
    start_workers: int = field(default=1, metadata={"least": 1, "most": MOST_NODES})
    """Number of worker pods with which the run begins. More may join at any time."""
    join_seconds: float = field(default=1800.0, metadata={"least": 1, "most": LONGEST_SECONDS})
    """Maximum time for them to join, with new nodes and image pulls."""
    accelerators: int = field(default=0, metadata={"least": 0, "most": MOST_OF_A_NODE})
    """Accelerators of each worker pod."""
    accelerator_resource: str = field(
        default="nvidia.com/gpu",
        metadata=form(rf"{_SUBDOMAIN}/{_NAME}", "a resource's name, DOMAIN/NAME, nvidia.com/gpu"),
    )
    """Resource name of the accelerators, from the cluster's device plugin."""
    cpus: int = field(default=4, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """Processors of each worker pod, as request and limit. Memory likewise."""
    memory: str = field(default="16Gi", metadata=form(_SIZE, "a whole number with a unit, 16Gi"))
    shared_memory: str = field(default="4Gi", metadata=form(_SIZE, "a whole number with a unit, 4Gi"))
    """Size of /dev/shm in each pod. It counts as memory of the pod."""
    head_cpus: int = field(default=2, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """Processors of the head pod, which runs Ray's head and the driver, and does not train."""
    head_memory: str = field(default="8Gi", metadata=form(_SIZE, "a whole number with a unit, 8Gi"))
    runs_claim: str = field(default="aiperf-runs", metadata=form(_SUBDOMAIN, _DNS_NAME))
    """PersistentVolumeClaim for journals, checkpoints and reports. All pods must be able to write to it
    (ReadWriteMany)."""
    runs_path: str = field(default="/runs", metadata=form(_PATH, _PATH_IN_PODS))
    """Mount path of the claim in the pods."""
    runs_size: str | None = field(default=None, metadata=form(_SIZE, "a whole number with a unit, 500Gi"))
    """Create the claim with this size if it does not exist. Default: it must exist."""
    storage_class: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Storage class of a new claim. Default: that of the cluster."""
    data_claim: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Claim with the data set, mounted read-only. Default: the data set is in the image, or synthetic."""
    data_path: str = field(default="/data", metadata=form(_PATH, _PATH_IN_PODS))
    """Mount path of the data claim in the pods: dataset.root=/data/imagenet."""
    node_selector: list[str] = field(default_factory=list, metadata=form(*_NODE_LABEL))
    """LABEL=VALUE of nodes for workers."""
    head_node_selector: list[str] = field(default_factory=list, metadata=form(*_NODE_LABEL))
    """LABEL=VALUE of nodes for the head."""
    node_affinity: list[str] = field(default_factory=list, metadata=form(*_REQUIREMENT))
    """Requirements that nodes for workers must all meet: gpu.vendor/model=h100,h200 or !spot."""
    apart: bool = False
    """Place at most one worker pod of the run on a node."""
    priority_class: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """PriorityClass of all pods. Default: that of the cluster."""
    host_network: bool = False
    """Head and workers use the network of their nodes, as some RDMA fabrics need. Then network policies do not apply to
    them, and pod security `restricted` rejects them."""
    extra_resources: list[str] = field(
        default_factory=list,
        metadata=form(rf"{_SUBDOMAIN}/{_NAME}={_QUANTITY}", "DOMAIN/NAME=AMOUNT, rdma/hca_shared_devices=1"),
    )
    """Additional resources of each worker pod: rdma/hca_shared_devices=1."""
    labels: list[str] = field(default_factory=list, metadata=form(rf"{_KEY}=({_NAME})?", "a label, KEY=VALUE"))
    """KEY=VALUE labels of the run's objects and of the pods of head and workers: kueue.x-k8s.io/queue-name=bench."""
    annotations: list[str] = field(
        default_factory=list, metadata=form(rf"{_KEY}=[^\x00\r\n]*", "an annotation, KEY=VALUE in one line")
    )
    """KEY=VALUE annotations of the same objects: k8s.v1.cni.cncf.io/networks=rdma."""
    tolerations: list[str] = field(
        default_factory=list,
        metadata=form(
            rf"{_KEY}(=({_NAME})?)?(:({'|'.join(EFFECTS)}))?", "KEY[=VALUE][:EFFECT], nvidia.com/gpu:NoSchedule"
        ),
    )
    """KEY[=VALUE][:EFFECT] tolerations of all pods: nvidia.com/gpu:NoSchedule."""
    pull_policy: str = field(default="IfNotPresent", metadata={"among": PULL_POLICIES})
    """IfNotPresent, Always or Never."""
    pull_secrets: list[str] = field(default_factory=list, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Secrets for pulling the image."""
    service_account: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Service account of the head, whose autoscaler requests pods (kuberay). Default: a new one with the minimum of
    rights."""
    token_secret: str | None = field(default=None, metadata=form(_SUBDOMAIN, _DNS_NAME))
    """Secret with Ray's token under the key auth_token. Default: KubeRay makes a token. Without KubeRay the driver
    makes it."""
    user: int = field(default=1000, metadata={"least": 1, "most": 2**32 - 2})
    """Numeric user and group of all containers, and of the claims' files. Never root."""
    env: list[str] = field(
        default_factory=list,
        metadata=form(r"[A-Za-z_][A-Za-z0-9_]*=[^\x00\r\n]*", "NAME=VALUE in one line, NCCL_SOCKET_IFNAME=eth0"),
    )
    """NAME=VALUE variables of all pods: NCCL_SOCKET_IFNAME=eth0. Do not pass secrets: they are visible in the job."""
    restarts: int = field(default=3, metadata={"least": 0, "most": 1000})
    """Maximum number of restarts after a failure of the head. Evictions and losses of a node are not counted."""
    keep_seconds: int = field(default=600, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time for which the pods are kept after the end."""
    idle_seconds: int = field(default=120, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time after which a worker that the run no longer needs is ended."""
    autoscaler: str = field(default="v2", metadata={"among": ("v1", "v2")})
    """Version of Ray's autoscaler: v2 or v1."""
    ray_version: str | None = field(default=None, metadata=form(r"[0-9]+\.[0-9]+\.[0-9]+", "three numbers, 2.60.0"))
    """Version of Ray in the image. Default: the version installed here."""
    operator_namespace: str | None = field(default=None, metadata=form(_LABEL, _DNS_LABEL))
    """Namespace of KubeRay's operator, which the network policy admits. Default: any namespace."""
    metrics_namespace: str | None = field(default=None, metadata=form(_LABEL, _DNS_LABEL))
    """Namespace of a Prometheus that may read the pods' metrics. Default: no access."""

    def check(self) -> None:
        """Check the options, each alone and against the others. Raise ValueError for the first that breaks a rule."""
        super().check()
        for law in self._broken():
            raise ValueError(law)

    def check_run(self, seconds: float, data: str | None) -> None:
        """Check that the data set is on a claim or in the image of the pods."""
        claims = [self.runs_path, *([] if self.data_claim is None else [self.data_path])]
        is_claimed = data is None or any(PurePosixPath(data).is_relative_to(each) for each in claims)
        if data is not None and not is_claimed and (self.data_claim is not None or not data.startswith("/")):
            raise ValueError(
                f"dataset.root is an absolute path in the pods, on a claim ({', '.join(claims)}) or in the image, "
                f"but found {data!r}: write a path below cluster.data_path, or leave cluster.data_claim out"
            )

    def requested_nodes(self) -> NodesAsked:
        """Return the requested number of worker pods and the resources of each: accelerators, processors, memory in bytes."""
        return replace(
            super().requested_nodes(),
            nodes=self.start_workers,
            most_nodes=self.max_workers if self.max_workers > self.start_workers else None,
            accelerators=self.accelerators,
            cores=self.cpus,
            memory_bytes=quantity(self.memory),
        )

    def requested_resources(self, seconds: float) -> Sequence[tuple[str, str]]:
        each = f"{self.cpus} processors, {self.memory} of memory"
        if self.accelerators:
            each = f"{self.accelerators} {self.accelerator_resource}, {each}"
        by = "a RayJob of KubeRay" if self.operator == "kuberay" else "Jobs"
        pods = f"{self.min_workers} to {self.max_workers} pods of workers in {self.namespace}, by {by}: {each}"
        return [("requested", pods), ("manifests", "cluster.submit=false prints them")]

    def place(self, environment: Mapping[str, str]) -> Place:
        begins = 1 + self.start_workers
        if self.operator == "none":
            return HeadPlace(begins, begins, self.join_seconds)
        each = {"CPU": float(self.cpus)} | ({"GPU": float(self.accelerators)} if self.accelerators else {})
        return Existing("auto", begins, begins, self.join_seconds, Demand(self.max_workers, each))

    def job(self, submission: JobSubmission) -> KubernetesJob:
        """Return the run as a job: the Kubernetes objects to create. Nothing is created yet."""
        from importlib import metadata  # slow

        words = [word for word in submission.words if not word.startswith("runs=")]  # the folder here
        words += [f"runs={self.runs_path}"] if submission.words else []
        run = KubernetesRun(self, submission.folder.name, words, self.ray_version or metadata.version("ray"))
        objects = plain_objects(run) if self.operator == "none" else kuberay_objects(run)
        return KubernetesJob(as_yaml(objects), submission.folder, run, tuple(objects))

    def _broken(self) -> Iterator[str]:
        if not self.image:
            yield (
                "cluster.image is the image that all pods run (docs/clusters.md builds one), "
                f"but found {self.image!r}: give cluster.image=IMAGE"
            )
        if not self.min_workers <= self.max_workers or not self.start_workers <= self.max_workers:
            yield (
                "cluster.min_workers and cluster.start_workers are at most cluster.max_workers, but found "
                f"{self.min_workers}, {self.start_workers} and {self.max_workers}: raise cluster.max_workers"
            )
        for name in ("runs_path", "data_path"):
            path: str = getattr(self, name)
            if path.split("/")[1] in _OF_THE_SYSTEM:
                yield (
                    f"cluster.{name} is an absolute path outside the system's folders "
                    f"({', '.join(f'/{each}' for each in _OF_THE_SYSTEM)}), but found {path!r}: take another, /runs"
                )
        for name in ("memory", "head_memory"):
            if quantity(self.shared_memory) > quantity(getattr(self, name)):
                yield (
                    f"cluster.shared_memory counts as memory of each pod, and is at most cluster.{name}={getattr(self, name)}, "
                    f"but found {self.shared_memory!r}: lower it, or raise cluster.{name}"
                )
        if _overlap(self.runs_path, self.data_path):
            yield (
                f"cluster.runs_path and cluster.data_path do not overlap, but found {self.runs_path!r} and {self.data_path!r}: "
                "take separate paths, /runs and /data"
            )
        for name, what, own in (("env", "variables", _OWN_VARIABLES), ("labels", "labels", _OWN_LABELS)):
            for word in getattr(self, name):
                if word.startswith(own):
                    yield (
                        f"cluster.{name} must not set {what} of the run or KubeRay: {', '.join(own)}, "
                        f"but found {word!r}: leave it out"
                    )
        for name in ("node_selector", "head_node_selector", "extra_resources", "labels", "annotations"):
            keys = Counter(word.partition("=")[0] for word in getattr(self, name))
            if twice := next((key for key, count in keys.items() if count > 1), None):
                yield f"cluster.{name} gives each key once, but found {twice!r} more than once: leave one of them"
        for word in self.extra_resources:
            if word.partition("=")[0] in ("nvidia.com/gpu", self.accelerator_resource):
                yield (
                    f"cluster.extra_resources is without accelerators (cluster.accelerators), but found {word!r}: "
                    "leave it out"
                )
        if self.runs_size is None and self.storage_class is not None:
            yield f"cluster.storage_class={self.storage_class} needs cluster.runs_size. Give both, or leave it out"
        if self.operator == "none":
            yield from self._without_operator()

    def _without_operator(self) -> Iterator[str]:
        usual: dict[str, Any] = {"min_workers": 0, "service_account": None, "operator_namespace": None}
        for name, value in usual.items():
            if getattr(self, name) != value:
                yield f"cluster.{name}={getattr(self, name)} needs cluster.operator=kuberay. Leave it out"


def quantity(text: str) -> int:
    """Return the number of bytes or units of a Kubernetes quantity. `text`: a whole number, with or without a unit.

    Units are Ki, Mi, … (powers of 1024) and k, M, … (powers of 1000).

    >>> quantity("16Gi"), quantity("2k")
    (17179869184, 2000)
    """
    number, unit = text.rstrip("kKMGTPi"), text.lstrip("0123456789")
    base: int = 1024 if unit.endswith("i") else 1000
    factor: int = base ** " KMGTP".index(unit[:1].upper() or " ")
    return int(number) * factor


def _overlap(one: str, other: str) -> bool:
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)
