"""Calls of the Kubernetes API that a run needs. They raise ClusterError if the server refuses or does not answer."""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import shutil
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from cluster.manifests import RUN_LABEL, Manifest
from cluster.place import ClusterError

RAY = ("ray.io", "v1")
PLURAL = "rayjobs"
GONE_SECONDS, READER_SECONDS, ANSWER_SECONDS = 120.0, 300.0, 30.0
LOOK_SECONDS = 1.0
_KINDS = {
    "PersistentVolumeClaim": ("CoreV1Api", "persistent_volume_claim"),
    "ServiceAccount": ("CoreV1Api", "service_account"),
    "Pod": ("CoreV1Api", "pod"),
    "Role": ("RbacAuthorizationV1Api", "role"),
    "RoleBinding": ("RbacAuthorizationV1Api", "role_binding"),
    "NetworkPolicy": ("NetworkingV1Api", "network_policy"),
    "Job": ("BatchV1Api", "job"),
}
"""Class and method name of the client, by kind of object."""
_OF_BROKEN_FILES = (TypeError, ValueError, AttributeError, LookupError)
"""Errors of the client for a kubeconfig with unexpected content."""


class Api:
    """Access to one namespace of the Kubernetes API, as the user's kubeconfig defines it."""

    def __init__(self, namespace: str) -> None:
        """Connect to `namespace`."""
        try:
            import kubernetes
            import yaml
        except ImportError as error:
            raise ClusterError(
                "+cluster=kubernetes speaks to the API by the official Python client, and it is not installed: "
                "pip install 'aiperf-cluster[kubernetes]', or print the manifests with cluster.submit=false"
            ) from error
        try:
            kubernetes.config.load_config()  # type: ignore[no-untyped-call]
        except (kubernetes.config.ConfigException, yaml.YAMLError, OSError, *_OF_BROKEN_FILES) as error:
            named = [
                name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name and not Path(name).exists()
            ]
            why = f"KUBECONFIG names {named[0]!r}, which does not exist" if named else str(error).rstrip(".")
            raise ClusterError(
                f"+cluster=kubernetes needs a kubeconfig (KUBECONFIG, else ~/.kube/config), but none can be used: {why}. "
                "Correct it, or print the manifests with cluster.submit=false"
            ) from error
        self._namespace = namespace
        self._client: Any = kubernetes.client

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object, and return it as the server stored it. The server rejects unknown fields."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        return self._act("making", "create", kind, name, manifest, field_validation="Strict")

    def read(self, kind: str, name: str) -> Manifest | None:
        """Return an object, for example kind 'Job', by its name. None if it does not exist."""
        try:
            return {"kind": kind, **self._act("reading", "read", kind, name)}
        except _NotFound:
            return None

    def delete(self, kind: str, name: str) -> None:
        """Request the deletion of an object and of all objects that it owns. Does not wait. A missing object is no error."""
        with suppress(_NotFound):
            self._act("deleting", "delete", kind, name, propagation_policy="Foreground")

    def await_deletion(self, kind: str, name: str) -> None:
        """Wait until an object does not exist any more, at most 120 s."""
        deadline = time.monotonic() + GONE_SECONDS
        while self.read(kind, name) is not None:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{kind} {name} was deleted and is still there after {GONE_SECONDS:.0f} s. "
                    f"Read its finalizers: kubectl -n {self._namespace} describe {kind.lower()} {name}"
                )
            time.sleep(LOOK_SECONDS)

    def own(self, manifests: Sequence[Manifest], owner: Manifest) -> None:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        change = {"metadata": {"ownerReferences": [reference]}}
        for manifest in manifests:
            self._act("giving an owner to", "patch", manifest["kind"], manifest["metadata"]["name"], change)

    def pods(self, run: str) -> list[Manifest]:
        """Return all pods of a run, as dictionaries with the server's fields."""
        core = self._client.CoreV1Api()
        selector = f"{RUN_LABEL}={run}"
        answer = self._request("listing pods", core.list_namespaced_pod, self._namespace, label_selector=selector)
        return list(answer["items"])

    def warnings(self, run: str, names: Sequence[str] | None = None) -> list[Manifest]:
        """Return the events of type Warning about objects with names that begin with `run`, as dictionaries."""
        events: list[Manifest] = []
        for about in [""] if names is None else [f",involvedObject.name={name}" for name in names]:
            listed, selector = self._client.CoreV1Api().list_namespaced_event, f"type=Warning{about}"
            events += self._request("listing events", listed, self._namespace, field_selector=selector)["items"]
        return [event for event in events if event["involvedObject"].get("name", "").startswith(run)]

    def last_lines(self, pod: str, container: str, count: int) -> list[str]:
        """Return the last `count` lines of the log of a pod's container."""
        read = self._client.CoreV1Api().read_namespaced_pod_log
        with suppress(ClusterError):
            body = self._answer(
                f"reading the log of {pod}", read, pod, self._namespace, container=container, tail_lines=count
            )
            return body.decode(errors="replace").splitlines()
        return []

    def run_command(self, pod: str, container: str, command: Sequence[str]) -> str:
        """Run a command in a container of a pod, wait up to 300 s for its end, and return its standard output."""
        from kubernetes.stream import stream

        core = self._client.CoreV1Api()
        try:
            call = stream(
                core.connect_get_namespaced_pod_exec,
                pod,
                self._namespace,
                command=list(command),
                container=container,
                stdout=True,
                stderr=True,
                stdin=False,
                tty=False,
                _preload_content=False,
            )
            call.run_forever(timeout=READER_SECONDS)
            output, errors = call.read_stdout(timeout=0), call.read_stderr(timeout=0)
            status = _status(call, pod)
        except self._client.exceptions.ApiException as error:
            raise ClusterError(
                f"'{command[0]}' could not run in pod {pod}: {_server_message(error.status, error.body)}. "
                f"Read the pod's events: kubectl -n {self._namespace} describe pod {pod}"
            ) from error
        if status != 0:
            raise ClusterError(
                f"'{command[0]}' in pod {pod} ended with status {status}: {(errors or '').strip()}. "
                f"Read the pod's log: kubectl -n {self._namespace} logs {pod}"
            )
        return str(output or "")

    def copy_folder(self, pod: str, container: str, folder: str, left_out: Sequence[str], to: Path) -> None:
        """Copy the folder `folder` of a pod's container into the folder `to` of this machine."""
        without = [f"--exclude=./{name}" for name in left_out]
        command = ["sh", "-c", 'cd "$0" && tar -czf - "$@" . | base64', folder, *without]
        try:
            packed = base64.b64decode(self.run_command(pod, container, command), validate=False)
            with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
                _unpack(archive, to)
        except (binascii.Error, tarfile.TarError, EOFError, KeyError) as error:
            raise ClusterError(
                f"{folder} of pod {pod} could not be copied: {error}. It is undamaged: repeat the command"
            ) from error

    def await_running(self, pod: str) -> None:
        """Wait until a pod is in the phase Running, at most 300 s."""
        deadline = time.monotonic() + READER_SECONDS
        while True:
            state = self.read("Pod", pod)
            phase = ((state or {}).get("status") or {}).get("phase")
            if phase == "Running":
                return
            if state is None or phase in ("Failed", "Succeeded") or time.monotonic() > deadline:
                raise ClusterError(
                    f"pod {pod} must run within {READER_SECONDS:.0f} s, but it is {phase or 'deleted'}. "
                    f"Read its events: kubectl -n {self._namespace} describe pod {pod}"
                )
            time.sleep(LOOK_SECONDS)

    def _act(self, doing: str, verb: str, kind: str, name: str, *body: Manifest, **options: Any) -> Manifest:
        """Call the method `verb` of the client for an object. `doing`: first word of an error message."""
        names = () if verb == "create" else (name,)
        if kind == "RayJob":
            method = f"{'get' if verb == 'read' else verb}_namespaced_custom_object"
            call = getattr(self._client.CustomObjectsApi(), method)
            arguments = (*RAY, self._namespace, PLURAL, *names, *body)
        else:
            api, words = _KINDS[kind]
            call = getattr(getattr(self._client, api)(), f"{verb}_namespaced_{words}")
            arguments = (*names, self._namespace, *body)
        return self._request(f"{doing} {kind} {name}", call, *arguments, **options)

    def _request(self, what: str, call: Any, *arguments: Any, **options: Any) -> Manifest:
        answer: Manifest = json.loads(self._answer(what, call, *arguments, **options))
        return answer

    def _answer(self, what: str, call: Any, *arguments: Any, **options: Any) -> bytes:
        from urllib3.exceptions import HTTPError

        try:
            # the raw answer: a server of another version may return more fields than the client's classes have
            answer = call(*arguments, **options, _request_timeout=ANSWER_SECONDS, _preload_content=False)
            status, body = answer.status, answer.data
        except self._client.exceptions.ApiException as error:
            status, body = error.status, error.body
        except HTTPError as error:
            raise ClusterError(
                f"{what}: the API server did not answer: {error}. Check the connection: kubectl get pods"
            ) from error
        if 200 <= status < 300:
            return bytes(body)
        if status == 404 and not what.startswith("making"):
            raise _NotFound(what)
        if status == 404 and what.startswith("making RayJob") and not _is_json(body):
            raise ClusterError(
                f"{what}: the cluster knows no RayJob of ray.io/v1. Install KubeRay, or run without it: cluster.operator=none"
            )
        raise (AlreadyThere if status == 409 else ClusterError)(f"{what}: {_server_message(status, body)}")


class AlreadyThere(ClusterError):
    """Kubernetes object that exists already and cannot be created."""


class _NotFound(ClusterError):
    """Kubernetes object that does not exist."""


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Write the files of an archive into `folder`, a link as a copy. TarFile's filters exist from Python 3.11.4 on."""
    for member in archive:
        if member.isdir():
            continue
        name, content = PurePosixPath(member.name), archive.extractfile(member)
        if content is None or name.is_absolute() or ".." in name.parts:
            raise tarfile.TarError(f"{member.name!r} is no file of this folder")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with path.open("xb") as file:
            shutil.copyfileobj(content, file)


def _status(call: Any, pod: str) -> int | None:
    try:
        status: int | None = call.returncode
    except (ValueError, TypeError, LookupError) as error:
        raise ClusterError(f"pod {pod} has no container that runs now: {error}") from error
    return status


def _is_json(body: str | bytes | None) -> bool:
    try:
        json.loads(body or "")
    except ValueError:
        return False
    return True


def _server_message(status: int, body: str | bytes | None) -> str:
    try:
        answer: Mapping[str, Any] = json.loads(body or "")
        return f"{status} {answer['reason']}: {answer['message']}"
    except (TypeError, ValueError, KeyError):
        return f"status {status}"
