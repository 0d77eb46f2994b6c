"""Stand-in for KubeRay's operator, which is written in Go: pods from RayJob and RayCluster objects.

It follows KubeRay 1.5 to 1.7 with `submissionMode: K8sJobMode` and a token: commands, variables and labels of the pods,
replicas and scaleStrategy of the worker group, replacement of ended pods, and the states of a RayJob without its repetition.
Pods get the address of the head's pod instead of that of a Service, so a new head gets new workers and a new submitter. There
are no probes, and clusters of ended jobs stay.
"""

from __future__ import annotations

import copy
import json
import secrets
import ssl
import threading
import traceback
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cluster.kubernetes import quantity

Object = dict[str, Any]
CORE, BATCH, RAY = "/api/v1", "/apis/batch/v1", "/apis/ray.io/v1"
SHELL = ["/bin/bash", "-c", "--"]
HEAD_PORT, DASHBOARD_PORT = 6379, 8265


class Operator:
    """Use `operator(kubeconfig, log)`."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server: str = server["server"]
        self._context = ssl.create_default_context(cafile=server["certificate-authority"])
        self._context.load_cert_chain(user["client-certificate"], user["client-key"])
        self._log = log
        self._ends = threading.Event()

    def work(self) -> None:
        """Compare objects and pods once per second. A failed request is written to the log and repeated."""
        while not self._ends.wait(1.0):
            try:
                for job in self._ask("GET", f"{RAY}/rayjobs")["items"]:
                    self._job(job)
                for cluster in self._ask("GET", f"{RAY}/rayclusters")["items"]:
                    self._cluster(cluster)
            except OSError:
                with self._log.open("a") as log:
                    traceback.print_exc(file=log)

    def end(self) -> None:
        """Let `work` return."""
        self._ends.set()

    # ---- RayJob

    def _job(self, job: Object) -> None:
        status = job.get("status") or {}
        state = status.get("jobDeploymentStatus", "")
        if state == "":
            name = f"{job['metadata']['name']}-{secrets.token_hex(3)}"
            self._report(job, jobDeploymentStatus="Initializing", rayClusterName=name, jobId=name)
            return
        cluster = self._found(f"{RAY}{_within(job)}/rayclusters", status["rayClusterName"])
        if state == "Initializing":
            self._initialize(job, status, cluster)
        elif state == "Running" and cluster is not None:
            self._watch(job, status, cluster)

    def _initialize(self, job: Object, status: Object, cluster: Object | None) -> None:
        if cluster is None:
            marks = {key: job["metadata"].get(key) or {} for key in ("labels", "annotations")}
            metadata = {"name": status["rayClusterName"], **marks, **_owned(job)}
            kind = {"apiVersion": "ray.io/v1", "kind": "RayCluster"}
            self._create(job, RAY, "rayclusters", {**kind, "metadata": metadata, "spec": job["spec"]["rayClusterSpec"]})
        elif (head := self._head(cluster)) is not None:
            self._create(job, BATCH, "jobs", _submitter(job, cluster, _dashboard(head), status["jobId"]))
            self._report(job, jobDeploymentStatus="Running")

    def _watch(self, job: Object, status: Object, cluster: Object) -> None:
        head, submitter = self._head(cluster), self._found(f"{BATCH}{_within(job)}/jobs", job["metadata"]["name"])
        if submitter is None:
            self._report(job, jobDeploymentStatus="Initializing")
            return
        conditions = {each["type"]: each for each in submitter["status"].get("conditions") or []}
        if "Failed" in conditions:
            why = conditions["Failed"]
            message = f"Job submission has failed. Reason: {why['reason']}. Message: {why['message']}"
            self._report(job, jobDeploymentStatus="Failed", reason="SubmissionFailed", message=message)
        elif head is None:
            return
        elif _dashboard(head) not in str(submitter["spec"]["template"]):
            self._delete(f"{BATCH}{_within(job)}/jobs", submitter, propagationPolicy="Foreground")
        elif "Complete" in conditions:
            run = self._ray_job(cluster, head, status["jobId"])
            state = "Failed" if run["status"] == "FAILED" else "Complete"
            self._report(job, jobDeploymentStatus=state, jobStatus=run["status"], message=run["message"])

    # ---- RayCluster

    def _cluster(self, cluster: Object) -> None:
        if cluster["metadata"].get("deletionTimestamp"):
            return
        self._make_secret(cluster)
        alive = []
        for pod in self._pods(cluster):
            if pod["status"]["phase"] in ("Succeeded", "Failed") or _has_ended(pod):
                self._delete(f"{CORE}{_within(cluster)}/pods", pod)
            elif not pod["metadata"].get("deletionTimestamp"):
                alive.append(pod)
        head = next((pod for pod in alive if _label(pod, "node-type") == "head"), None)
        if head is None:
            self._create(cluster, CORE, "pods", _head_pod(cluster))
        elif address := head["status"].get("podIP"):
            (group,) = cluster["spec"]["workerGroupSpecs"]
            self._group(cluster, group, [pod for pod in alive if pod is not head], address)
        is_ready = head is not None and head["status"]["phase"] == "Running"
        self._report(cluster, state="ready" if is_ready else "")

    def _group(self, cluster: Object, group: Object, pods: list[Object], address: str) -> None:
        """Delete the workers that the autoscaler names, and those of an earlier head. Then add missing ones."""
        leaving = (group.get("scaleStrategy") or {}).get("workersToDelete") or []
        joins = f"--address={address}:"
        staying = [pod for pod in pods if pod["metadata"]["name"] not in leaving and joins in str(pod["spec"])]
        for pod in pods:
            if pod not in staying:
                self._delete(f"{CORE}{_within(cluster)}/pods", pod)
        wanted = max(group["minReplicas"], min(group["replicas"], group["maxReplicas"]))
        for _ in range(wanted - len(staying)):
            self._create(cluster, CORE, "pods", _worker_pod(cluster, group, address))

    def _make_secret(self, cluster: Object) -> None:
        name = cluster["metadata"]["name"]
        if _secret(cluster) == name and self._found(f"{CORE}{_within(cluster)}/secrets", name) is None:
            token = {"auth_token": secrets.token_hex(32)}
            self._create(cluster, CORE, "secrets", {"metadata": {"name": name, **_owned(cluster)}, "stringData": token})

    def _pods(self, cluster: Object) -> list[Object]:
        path = f"{CORE}{_within(cluster)}/pods?labelSelector=ray.io/cluster={cluster['metadata']['name']}"
        pods: list[Object] = self._ask("GET", path)["items"]
        return pods

    def _head(self, cluster: Object) -> Object | None:
        """Return the head's pod if it runs."""
        heads = [pod for pod in self._pods(cluster) if _label(pod, "node-type") == "head"]
        return next((pod for pod in heads if pod["status"]["phase"] == "Running"), None)

    def _ray_job(self, cluster: Object, head: Object, number: str) -> Object:
        """Return Ray's own state of the job."""
        secret = self._ask("GET", f"{CORE}{_within(cluster)}/secrets/{_secret(cluster)}")
        token = b64decode(secret["data"]["auth_token"]).decode()
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{_dashboard(head)}/api/jobs/{number}", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: Object = json.load(answer)
        return found

    # ---- requests

    def _ask(self, method: str, path: str, body: Object | None = None) -> Object:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server + path, content, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=10, context=self._context) as answer:
            found: Object = json.load(answer)
        return found

    def _found(self, path: str, name: str) -> Object | None:
        return next((each for each in self._ask("GET", path)["items"] if each["metadata"]["name"] == name), None)

    def _create(self, beside: Object, api: str, plural: str, each: Object) -> None:
        self._ask("POST", f"{api}{_within(beside)}/{plural}", each)

    def _delete(self, path: str, each: Object, **options: str) -> None:
        if not each["metadata"].get("deletionTimestamp"):
            self._ask("DELETE", f"{path}/{each['metadata']['name']}", options)

    def _report(self, each: Object, **values: object) -> None:
        path = f"{RAY}{_within(each)}/{each['kind'].lower()}s/{each['metadata']['name']}/status"
        self._ask("PATCH", path, {"status": values})


def _dashboard(head: Object) -> str:
    return f"http://{head['status']['podIP']}:{DASHBOARD_PORT}"


def _submitter(job: Object, cluster: Object, address: str, number: str) -> Object:
    """Return the Job whose pod submits the run to Ray and follows its output."""
    look = f"import urllib.request as r; exit(b'success' not in r.urlopen('{address}/api/gcs_healthz').read())"
    submit = f"ray job submit --address {address} --no-wait --submission-id {number} -- {job['spec']['entrypoint']}"
    words = (
        f'until python -c "{look}" >/dev/null 2>&1 ; do sleep 2 ; done ; '
        f"if ! ray job status --address {address} {number} >/dev/null 2>&1 ; then {submit} ; fi ; "
        f"ray job logs --address {address} --follow {number}"
    )
    pod = copy.deepcopy(job["spec"]["submitterPodTemplate"])
    container = pod["spec"]["containers"][0]
    container |= {"command": ["/bin/bash", "-ce", "--"], "args": [words]}
    container["env"] += [_value("PYTHONUNBUFFERED", "1"), *_token(cluster)]
    limit = (job["spec"].get("submitterConfig") or {}).get("backoffLimit", 2)
    spec = {"backoffLimit": limit, "template": pod}
    return {"metadata": {"name": job["metadata"]["name"], **_owned(job)}, "spec": spec}


def _head_pod(cluster: Object) -> Object:
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    group, options = cluster["spec"]["headGroupSpec"], cluster["spec"]["autoscalerOptions"]
    pod = _pod(cluster, group["template"], "headgroup", "head")
    ray = pod["spec"]["containers"][0]
    ray["args"] = [_ray_start("--head --no-monitor", group, ray)]
    is_v2 = "true" if options["version"] == "v2" else "false"
    ray["env"] += [_value("RAY_ADDRESS", f"127.0.0.1:{HEAD_PORT}"), _value("RAY_enable_autoscaler_v2", is_v2)]
    own = [
        _value("RAY_CLUSTER_NAME", name),
        _field("RAY_HEAD_POD_NAME", "metadata.name"),
        _value("KUBERAY_CRD_VER", "v1"),
    ]
    logs = [{"name": "ray-logs", "mountPath": "/tmp/ray"}]
    autoscaler = {
        "name": "autoscaler",
        "image": ray["image"],
        "command": SHELL,
        "args": [f"ray kuberay-autoscaler --cluster-name {name} --cluster-namespace {namespace}"],
        "env": [*own, *_token(cluster), *options["env"]],
        "volumeMounts": logs,
        **{key: options[key] for key in ("imagePullPolicy", "resources", "securityContext")},
    }
    ray["volumeMounts"] += logs
    pod["spec"]["containers"].append(autoscaler)
    pod["spec"]["volumes"].append({"name": "ray-logs", "emptyDir": {}})
    return pod


def _worker_pod(cluster: Object, group: Object, address: str) -> Object:
    pod = _pod(cluster, group["template"], group["groupName"], "worker")
    ray, head = pod["spec"]["containers"][0], f"{address}:{HEAD_PORT}"
    ray["env"].append(_value("RAY_ADDRESS", head))
    ray["args"] = [_ray_start(f"--address={head}", group, ray)]
    small = {"cpu": "200m", "memory": "256Mi"}
    waits = {"name": "wait-gcs-ready", "resources": {"limits": small, "requests": small}}
    waits["args"] = [f"until ray health-check --address {head} >/dev/null 2>&1; do sleep 5; done"]
    pod["spec"]["initContainers"] = [{**ray, **waits}]
    return pod


def _pod(cluster: Object, template: Object, group: str, kind: str) -> Object:
    name = cluster["metadata"]["name"]
    pod: Object = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}
    marks = {"cluster": name, "node-type": kind, "group": group, "is-ray-node": "yes"}
    labels = pod["metadata"]["labels"] | {f"ray.io/{key}": value for key, value in marks.items()}
    pod["metadata"] |= {"generateName": f"{name}-{group}-", "labels": labels, **_owned(cluster)}
    pod["spec"]["restartPolicy"] = "Never"
    ray = pod["spec"]["containers"][0]
    ray["command"] = SHELL
    own = [_value("RAY_CLUSTER_NAME", name), _value("RAY_NODE_TYPE_NAME", group), _value("RAY_PORT", str(HEAD_PORT))]
    ray["env"] += [*own, _field("RAY_CLOUD_INSTANCE_ID", "metadata.name"), *_token(cluster)]
    return pod


def _ray_start(words: str, group: Object, ray: Object) -> str:
    memory = quantity(ray["resources"]["limits"]["memory"])
    fixed = {"dashboard-agent-listen-port": 52365, "metrics-export-port": 8080, "memory": memory}
    options = " ".join(f"--{key}={value}" for key, value in (fixed | group["rayStartParams"]).items())
    return f"ulimit -n 65536; ray start {words} --block {options}"


def _token(cluster: Object) -> list[Object]:
    source = {"secretKeyRef": {"name": _secret(cluster), "key": "auth_token"}}
    return [_value("RAY_AUTH_MODE", "token"), {"name": "RAY_AUTH_TOKEN", "valueFrom": source}]


def _secret(cluster: Object) -> str:
    name: str = cluster["spec"]["authOptions"].get("secretName") or cluster["metadata"]["name"]
    return name


def _owned(owner: Object) -> Object:
    metadata = owner["metadata"]
    by = {"apiVersion": "ray.io/v1", "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {"ownerReferences": [by | {"controller": True, "blockOwnerDeletion": True}]}


def _within(each: Object) -> str:
    return f"/namespaces/{each['metadata']['namespace']}"


def _value(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _label(pod: Object, name: str) -> str | None:
    label: str | None = pod["metadata"]["labels"].get(f"ray.io/{name}")
    return label


def _has_ended(pod: Object) -> bool:
    """Return if Ray's container has ended while another one of the pod runs."""
    first = pod["spec"]["containers"][0]["name"]
    states = {each["name"]: each.get("state") or {} for each in pod["status"].get("containerStatuses") or []}
    return "terminated" in states.get(first, {})


@contextmanager
def operator(kubeconfig: Path, log: Path) -> Iterator[None]:
    """Run the stand-in in a thread until the end of the block."""
    running = Operator(kubeconfig, log)
    thread = threading.Thread(target=running.work)
    thread.start()
    try:
        yield
    finally:
        running.end()
        thread.join()
