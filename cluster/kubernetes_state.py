"""State of a run on Kubernetes, computed from the API's objects: its job, its pods and their events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.manifests.manifest_input import ROLE_LABEL
from cluster.place import JobState

Said = Mapping[str, Any]
"""An object of the API, as JSON."""
NEVER = frozenset(["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"])
"""Reasons for which a container waits until a user changes something, for example a missing image or Secret."""
TELLING = frozenset(
    ["FailedCreate", "FailedScheduling", "FailedMount", "FailedAttachVolume", "FailedToCreateRoleBinding"]
)
"""Reasons of events that explain a missing or pending pod: a quota, no free node, a missing claim."""
LONGEST_REASON = 300


def job_state(job: Said, pods: Sequence[Said], events: Sequence[Said]) -> JobState:
    """Return the state of a run.

    `job`: the RayJob, or the head's Job. `pods`: all pods of the run. `events`: warnings about its objects.
    """
    name, is_over, message = _ray_job(job) if job.get("kind") == "RayJob" else _plain_job(job)
    heads = [pod for pod in pods if _role(pod) == "head"]
    running = [pod for pod in pods if _phase(pod) == "Running"]
    is_up = any(pod in running for pod in heads)
    waits = _waiting([pod for pod in pods if _phase(pod) == "Pending"])
    reason = message
    if not is_over and not reason:
        reason = waits or ("" if is_up and not any(_phase(pod) == "Pending" for pod in pods) else _latest(events))
    return JobState(
        name=name,
        reason=reason[:LONGEST_REASON],
        nodes=_counted(running),
        is_over=is_over,
        is_hopeless=not is_over and not is_up and any(_never(pod) for pod in heads),
    )


def failed_containers(pod: Said) -> list[str]:
    """Return the names of a pod's containers that ended with a status other than 0, now or before their last start."""
    return [
        one["name"]
        for one in _containers(pod.get("status") or {})
        if any(
            ((one.get(when) or {}).get("terminated") or {}).get("exitCode", 0) != 0 for when in ("state", "lastState")
        )
    ]


def _ray_job(job: Said) -> tuple[str, bool, str]:
    status = job.get("status") or {}
    deployment = status.get("jobDeploymentStatus") or "Pending"
    is_over = deployment in ("Complete", "Failed", "ValidationFailed")
    failed = deployment in ("Failed", "ValidationFailed", "Retrying")
    why = ": ".join(word for word in (status.get("reason"), status.get("message")) if word)
    return deployment, is_over, why if failed else ""


def _plain_job(job: Said) -> tuple[str, bool, str]:
    status = job.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            why = "" if condition["type"] == "Complete" else condition.get("message") or condition.get("reason") or ""
            return condition["type"], True, why
    return ("Running" if status.get("ready") else "Pending"), False, ""


def _waiting(pods: Sequence[Said]) -> str:
    """Return the first reason that a waiting pod reports, or ''."""
    for pod in pods:
        status = pod.get("status") or {}
        for one in _containers(status):
            waiting = (one.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason")
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                return f"{pod['metadata']['name']}: {reason}: {waiting.get('message') or 'no more is said'}"
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return f"{pod['metadata']['name']}: {condition.get('reason')}: {condition.get('message')}"
    return ""


def _latest(events: Sequence[Said]) -> str:
    telling = [event for event in events if event.get("reason") in TELLING]
    if not telling:
        return ""
    last = max(telling, key=_when)
    return f"{last['involvedObject']['name']}: {last['reason']}: {last.get('message', '')}"


def _when(event: Said) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _never(pod: Said) -> bool:
    waiting = [(one.get("state") or {}).get("waiting") or {} for one in _containers(pod.get("status") or {})]
    return any(one.get("reason") in NEVER for one in waiting)


def _containers(status: Said) -> list[Said]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _counted(running: Sequence[Said]) -> str:
    workers = sum(_role(pod) == "worker" for pod in running)
    words = ["the head"] if any(_role(pod) == "head" for pod in running) else []
    words += [f"{workers} workers" if workers > 1 else "1 worker"] if workers else []
    return " and ".join(words)


def _role(pod: Said) -> str | None:
    role: str | None = (pod["metadata"].get("labels") or {}).get(ROLE_LABEL)
    return role


def _phase(pod: Said) -> str | None:
    phase: str | None = (pod.get("status") or {}).get("phase")
    return phase
