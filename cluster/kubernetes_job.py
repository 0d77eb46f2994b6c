"""Run as a job of Kubernetes: create, follow and delete its objects, and fetch its journal and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from cluster.kubernetes_api import AlreadyThere, Api
from cluster.manifests import ROLE_LABEL, KubernetesRun, Manifest, environment, template
from cluster.place import HEAD_FILE, ClusterError, JobState, NoReport

SCRIPT = "kubernetes.yaml"
"""Name of the manifests' file in the run's folder."""
LEFT_BEHIND = ("checkpoints", "ceilings", HEAD_FILE)
"""Entries of a run's folder that are not fetched: large, or useless after the end."""
NAME = "journal.jsonl"
EVENTS, LOG_LINES = 8, 20
"""Maximum number of warnings (and of waiting pods that are asked for them), and of lines of each log."""
READER_LIVES = 900
"""Seconds after which a pod that reads a run's folder ends, if it was not deleted."""


def as_yaml(objects: Sequence[Manifest]) -> str:
    import yaml

    return "---\n".join(yaml.safe_dump(each, sort_keys=False, width=120) for each in objects)


@dataclass(frozen=True, slots=True)
class KubernetesJob:
    script: str
    folder: Path
    """Local folder of the run."""
    run: KubernetesRun
    objects: Sequence[Manifest]
    script_name: ClassVar[str] = SCRIPT

    advice: ClassVar[str] = (
        "name an image that the nodes can pull (cluster.image, cluster.pull_secrets) and existing Secrets"
    )
    writes_here: ClassVar[bool] = False

    @property
    def last_output(self) -> str:
        """Shell command that prints the last 50 lines of the log of each container in the run's pods."""
        return f"{self._kubectl} logs -l aiperf-run={self.run.object_name} --all-containers --tail=50"

    @property
    def status_command(self) -> str:
        """Shell command that shows the state of the run, by `aiperf status` in the head's pod."""
        selector = f"-l aiperf-run={self.run.object_name},{ROLE_LABEL}=head"
        return (
            f"{self._kubectl} exec $({self._kubectl} get pod {selector} -o name) -- "
            f"python -m aiperf status {self.run.folder}"
        )

    def submit(self, script: Path) -> str:
        """Create all Kubernetes objects of the run, and return the job's id."""
        api = self._api()
        jobs = self._jobs
        for job in jobs:
            self._clear(api, job)
        created: list[Manifest | None] = []
        try:
            for each in self.objects:
                created.append(self._create(api, each))
        except ClusterError:
            for each in [each for each in created if each is not None]:  # nothing half finished is left
                with suppress(ClusterError):
                    api.delete(each["kind"], each["metadata"]["name"])
            raise
        owner = next(each for each in created if each is not None and each["kind"] == jobs[0]["kind"])
        kinds = ("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy")
        owned = [each for each in self.objects if each["kind"] in kinds] + jobs[1:]
        api.own(owned, owner)
        return self.run.object_name

    def state(self, job: str) -> JobState:
        """Return the state of the job: that of its RayJob, or of the Job of the head."""
        api = self._api()
        kind, name = self._main
        job_object = api.read(kind, name)
        if job_object is None:
            return JobState("Deleted", "the object was deleted", "", is_over=True)
        pods = api.pods(job)
        waiting = [pod["metadata"]["name"] for pod in pods if _phase(pod) != "Running"][:EVENTS]
        ray = (job_object.get("status") or {}).get("rayClusterName")
        names = [*(each["metadata"]["name"] for each in self._jobs), *([ray] if ray else []), *waiting]
        events = api.warnings(job, names)
        state = job_state({**job_object, "kind": kind}, pods, events, self.run.choices.max_workers)
        if state.is_over or state.is_hopeless or not state.reason or state.nodes:
            return state
        ends = f"{self._kubectl} delete {kind.lower()} {name}"
        return replace(state, reason=f"{state.reason}. It waits without a limit. `{ends}` ends it")

    def cancel(self, job: str) -> None:
        """Request the deletion of the job and of all objects that it owns. Does not wait. `job`: not used."""
        api = self._api()
        for each in self._jobs:
            api.delete(each["kind"], each["metadata"]["name"])

    def lines(self, job: str) -> Sequence[str]:
        """Return the lines that `aiperf status` prints in the head's pod."""
        api = self._api()
        for pod in api.pods(job):
            labels, phase = pod["metadata"].get("labels") or {}, (pod.get("status") or {}).get("phase")
            if labels.get(ROLE_LABEL) == "head" and phase == "Running":
                first: str = pod["spec"]["containers"][0]["name"]
                command = ["python", "-m", "aiperf", "status", self.run.folder]
                with suppress(ClusterError):  # its first line is just being written
                    return api.run_command(pod["metadata"]["name"], first, command).splitlines()
        return ()

    def fetch(self, job: str) -> None:
        """Copy the run's folder from the cluster into its local folder, without checkpoints."""
        api = self._api()
        pod = self._reader()
        name: str = pod["metadata"]["name"]
        try:
            api.delete("Pod", name)
            api.await_deletion("Pod", name)
            api.create(pod)
            api.await_running(name)
            journal = f"{self.run.folder}/{NAME}"
            if (
                api.run_command(name, "reader", ["sh", "-c", '[ -f "$0" ] && echo yes || echo no', journal]).strip()
                == "no"
            ):
                raise NoReport("\n".join([f"'{journal}' does not exist", *self._reasons(api, job)]))
            api.copy_folder(name, "reader", self.run.folder, LEFT_BEHIND, self.folder)
        finally:
            self._end_workers(api)
            api.delete("Pod", name)

    def _end_workers(self, api: Api) -> None:
        """Delete the Job of the workers if the head failed for good. Its pods would wait for another head, for hours."""
        (kind, name), workers = self._main, self._jobs[1:]
        if workers and ((head := api.read(kind, name)) is None or _plain_job(head, False)[0] == "Failed"):
            for each in workers:
                api.delete(each["kind"], each["metadata"]["name"])

    def _reasons(self, api: Api, job: str) -> list[str]:
        """Return lines about the run's pods: warnings, and the end of the log of each failed container."""
        lines = [
            f"{event['involvedObject']['name']}: {event['reason']}: {event.get('message', '')}"
            for event in api.warnings(job)[-EVENTS:]
        ]
        for pod in api.pods(job):
            for one in failed_containers(pod):
                name: str = pod["metadata"]["name"]
                lines.append(f"log of {name}, container {one}:")
                lines += [f"  {line}" for line in api.last_lines(name, one, LOG_LINES)] or ["  it is empty"]
        return lines

    def _reader(self) -> Manifest:
        command = ["sleep", str(READER_LIVES)]
        pod = template(self.run, "reader", "reader", command=command, env=environment(self.run))
        labels: dict[str, Any] = pod["metadata"]["labels"]
        metadata = {**self.run.metadata("-read"), "labels": labels}
        spec = {**pod["spec"], "activeDeadlineSeconds": READER_LIVES, "terminationGracePeriodSeconds": 1}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _clear(self, api: Api, job: Manifest) -> None:
        kind, name = job["kind"], job["metadata"]["name"]
        existing = api.read(kind, name)
        if existing is None:
            return
        if not job_state({**existing, "kind": kind}, (), ()).is_over:
            raise ClusterError(f"{kind} {name} still exists and is running: wait for its end, or delete it")
        api.delete(kind, name)
        api.await_deletion(kind, name)

    def _create(self, api: Api, each: Manifest) -> Manifest | None:
        try:
            return {**api.create(each), "apiVersion": each["apiVersion"], "kind": each["kind"]}
        except AlreadyThere:
            if each["kind"] in ("RayJob", "Job"):
                raise
            return None  # the runs' claim, or objects of an earlier start

    @property
    def _jobs(self) -> list[Manifest]:
        return [each for each in self.objects if each["kind"] in ("RayJob", "Job")]

    @property
    def _main(self) -> tuple[str, str]:
        job = self._jobs[0]
        return job["kind"], job["metadata"]["name"]

    @property
    def _kubectl(self) -> str:
        return f"kubectl -n {self.run.choices.namespace}"

    def _api(self) -> Api:
        return Api(self.run.choices.namespace)


ApiObject = Mapping[str, Any]
"""An object of the API, as JSON."""
HOPELESS_REASONS = frozenset(
    ["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"]
)
"""Reasons for which a container waits until a user changes something, for example a missing image or Secret."""
EXPLAINING_EVENTS = frozenset(
    ["FailedCreate", "FailedScheduling", "FailedMount", "FailedAttachVolume", "FailedToCreateRoleBinding"]
)
"""Reasons of events that explain a missing or pending pod: a quota, no free node, a missing claim."""
LONGEST_REASON = 300


def job_state(
    job: ApiObject, pods: Sequence[ApiObject], events: Sequence[ApiObject], most_workers: int = 0
) -> JobState:
    """Return the state of a run's job from Kubernetes objects."""
    heads = [pod for pod in pods if _role(pod) == "head"]
    running = [pod for pod in pods if _phase(pod) == "Running"]
    is_up = any(pod in running for pod in heads)
    name, is_over, message = _ray_job(job) if job.get("kind") == "RayJob" else _plain_job(job, is_up)
    waits = _waiting([pod for pod in pods if _phase(pod) == "Pending"])
    reason = message
    if not is_over and not reason:
        current = [event for event in events if _is_current(event, pods)]
        is_complete = sum(_role(pod) == "worker" for pod in running) >= most_workers
        is_waiting = not is_up or not is_complete or any(_phase(pod) == "Pending" for pod in pods)
        reason = waits or (_latest(current) if is_waiting else "")
    return JobState(
        name=name,
        reason=reason[:LONGEST_REASON].rstrip("."),
        nodes=_count_by_node(running),
        is_over=is_over,
        is_hopeless=not is_over and not is_up and any(_is_hopeless(pod) for pod in heads),
    )


def failed_containers(pod: ApiObject) -> list[str]:
    """Return the names of a pod's containers that ended with a status other than 0, now or before their last restart."""
    return [
        one["name"]
        for one in _containers(pod.get("status") or {})
        if any(
            ((one.get(when) or {}).get("terminated") or {}).get("exitCode", 0) != 0 for when in ("state", "lastState")
        )
    ]


def _ray_job(job: ApiObject) -> tuple[str, bool, str]:
    status = job.get("status") or {}
    deployment = status.get("jobDeploymentStatus") or "Pending"
    is_over = deployment in ("Complete", "Failed", "ValidationFailed")
    failed = deployment in ("Failed", "ValidationFailed", "Retrying")
    why = ": ".join(word for word in (status.get("reason"), status.get("message")) if word)
    return deployment, is_over, why if failed else ""


def _plain_job(job: ApiObject, is_up: bool) -> tuple[str, bool, str]:
    status = job.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            why = "" if condition["type"] == "Complete" else condition.get("message") or condition.get("reason") or ""
            return condition["type"], True, why
    return ("Running" if is_up else "Pending"), False, ""


def _waiting(pods: Sequence[ApiObject]) -> str:
    """Return the first reason that a waiting pod reports, or ''."""
    for pod in pods:
        status = pod.get("status") or {}
        for one in _containers(status):
            waiting = (one.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason")
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                return f"{pod['metadata']['name']}: {reason}: {waiting.get('message') or 'without a message'}"
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return f"{pod['metadata']['name']}: {condition.get('reason')}: {condition.get('message')}"
    return ""


def _latest(events: Sequence[ApiObject]) -> str:
    explaining = [event for event in events if event.get("reason") in EXPLAINING_EVENTS]
    if not explaining:
        return ""
    last = max(explaining, key=_when)
    return f"{last['involvedObject']['name']}: {last['reason']}: {last.get('message', '')}"


def _is_current(event: ApiObject, pods: Sequence[ApiObject]) -> bool:
    """Return False for a warning about a pod that runs or is gone, or about the scheduling of a pod that has a node."""
    about = event["involvedObject"]
    pod = next((pod for pod in pods if pod["metadata"]["name"] == about["name"]), None)
    if pod is None:
        return bool(about.get("kind") != "Pod")
    has_node = "nodeName" in (pod.get("spec") or {})
    return _phase(pod) != "Running" and not (has_node and event.get("reason") == "FailedScheduling")


def _when(event: ApiObject) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _is_hopeless(pod: ApiObject) -> bool:
    waiting = [(one.get("state") or {}).get("waiting") or {} for one in _containers(pod.get("status") or {})]
    return any(one.get("reason") in HOPELESS_REASONS for one in waiting)


def _containers(status: ApiObject) -> list[ApiObject]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _count_by_node(running: Sequence[ApiObject]) -> str:
    workers = sum(_role(pod) == "worker" for pod in running)
    counts = ["the head"] if any(_role(pod) == "head" for pod in running) else []
    counts += [f"{workers} workers" if workers > 1 else "1 worker"] if workers else []
    return " and ".join(counts)


def _role(pod: ApiObject) -> str | None:
    role: str | None = (pod["metadata"].get("labels") or {}).get(ROLE_LABEL)
    return role


def _phase(pod: ApiObject) -> str | None:
    phase: str | None = (pod.get("status") or {}).get("phase")
    return phase
