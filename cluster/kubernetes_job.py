"""A run as a job of Kubernetes: its manifests applied, followed, taken back; its journal and report fetched."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.kubernetes_api import AlreadyThere, Api
from cluster.kubernetes_state import job_state
from cluster.manifests.asked import ROLE_LABEL, Asked, Manifest
from cluster.manifests.pods import container, environment, mounts, small_resources, template
from cluster.place import ClusterError, JobState

SCRIPT = "kubernetes.yaml"
"""The manifests' name in the run's folder."""
LEFT_BEHIND = ("checkpoints", "ceilings", "ray-head.json")
"""What of a run's folder is not fetched: large, or of no use after its end."""
READER_LIVES = 900
"""Seconds after which a pod that reads a run's folder ends by itself, should nobody end it."""


def as_yaml(objects: Sequence[Manifest]) -> str:
    """The objects as one text of several documents."""
    import yaml

    return "---\n".join(yaml.safe_dump(each, sort_keys=False, width=120) for each in objects)


@dataclass(frozen=True, slots=True)
class KubernetesJob:
    """See `place.BatchJob`. Its id is the name of the run's objects."""

    script: str
    folders: Sequence[Path]
    asked: Asked
    objects: Sequence[Manifest]
    script_name: str = SCRIPT

    @property
    def advice(self) -> str:
        """See `place.BatchJob`."""
        return "name an image that the nodes can pull (cluster.image, cluster.pull_secrets) and Secrets that are there"

    @property
    def last_words(self) -> str:
        """See `place.BatchJob`."""
        return f"{self._kubectl} logs -l aiperf-run={self.asked.object_name} --all-containers --tail=50"

    @property
    def how_to_look(self) -> str:
        """See `place.BatchJob`."""
        selector = f"-l aiperf-run={self.asked.object_name},{ROLE_LABEL}=head"
        return (
            f"{self._kubectl} exec $({self._kubectl} get pod {selector} -o name) -- "
            f"python -m aiperf status {self.asked.folder}"
        )

    def submit(self, script: Path) -> str:
        """Makes the objects; those that are there from an earlier start of the run are replaced once they are over."""
        api = self._api()
        jobs = [each for each in self.objects if each["kind"] in ("RayJob", "Job")]
        for job in jobs:
            self._clear(api, job)
        made = [self._made(api, each) for each in self.objects]
        owner = next(each for each in made if each is not None and each["kind"] == jobs[0]["kind"])
        kinds = ("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy")
        api.own([each for each in self.objects if each["kind"] in kinds], owner)
        return self.asked.object_name

    def run_here(self, script: Path) -> int:
        """Never: no process of a user's is within an allocation of Kubernetes."""
        raise AssertionError("a run on Kubernetes takes place in its own pods")

    def state(self, job: str) -> JobState:
        """Of the RayJob, or of the head's Job."""
        api = self._api()
        kind, name = self._main
        found = api.read(kind, name)
        if found is None:
            return JobState("Deleted", "somebody has deleted it", "", is_over=True)
        return job_state({**found, "kind": kind}, api.pods(job), api.warnings(job))

    def cancel(self, job: str) -> None:
        """Deletes the jobs; what stands around them goes with them."""
        api = self._api()
        for each in self.objects:
            if each["kind"] in ("RayJob", "Job"):
                api.delete(each["kind"], each["metadata"]["name"])

    def lines(self, job: str) -> Sequence[str]:
        """What `aiperf status` says in the head's pod."""
        api = self._api()
        for pod in api.pods(job):
            labels, phase = pod["metadata"].get("labels") or {}, (pod.get("status") or {}).get("phase")
            if labels.get(ROLE_LABEL) == "head" and phase == "Running":
                first: str = pod["spec"]["containers"][0]["name"]
                command = ["python", "-m", "aiperf", "status", self.asked.folder]
                with suppress(ClusterError):  # its first line is just being written
                    return api.carried_out(pod["metadata"]["name"], first, command).splitlines()
        return ()

    def fetch(self, job: str) -> None:
        """Copies the run's folder here, but for the checkpoints: by a pod that only reads it, since the head's may be gone."""
        api = self._api()
        pod = self._reader()
        name: str = pod["metadata"]["name"]
        api.delete("Pod", name)
        api.await_gone("Pod", name)
        api.create(pod)
        try:
            api.await_running(name)
            api.copied(name, "reader", self.asked.folder, LEFT_BEHIND, self.folders[0])
        finally:
            api.delete("Pod", name)

    def _reader(self) -> Manifest:
        reader = container(
            self.asked,
            "reader",
            command=["sleep", str(READER_LIVES)],
            env=environment(self.asked),
            resources=small_resources(),
            volumeMounts=mounts(self.asked, "reader"),
        )
        pod = template(self.asked, "reader", reader, on=self.asked.choices.head_node_selector, account=None)
        labels: dict[str, Any] = pod["metadata"]["labels"]
        metadata = {**self.asked.metadata("-read"), "labels": labels}
        spec = {**pod["spec"], "activeDeadlineSeconds": READER_LIVES}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _clear(self, api: Api, job: Manifest) -> None:
        kind, name = job["kind"], job["metadata"]["name"]
        there = api.read(kind, name)
        if there is None:
            return
        if not job_state({**there, "kind": kind}, (), ()).is_over:
            raise ClusterError(f"{kind} {name} is still there and goes on; wait for its end, or delete it")
        api.delete(kind, name)
        api.await_gone(kind, name)

    def _made(self, api: Api, each: Manifest) -> Manifest | None:
        try:
            return {**api.create(each), "apiVersion": each["apiVersion"], "kind": each["kind"]}
        except AlreadyThere:
            if each["kind"] in ("RayJob", "Job"):
                raise
            return None  # the runs' claim; or, of a start before this one, what stands around the jobs

    @property
    def _main(self) -> tuple[str, str]:
        job = next(each for each in self.objects if each["kind"] in ("RayJob", "Job"))
        return job["kind"], job["metadata"]["name"]

    @property
    def _kubectl(self) -> str:
        return f"kubectl -n {self.asked.choices.namespace}"

    def _api(self) -> Api:
        return Api(self.asked.choices.namespace)
