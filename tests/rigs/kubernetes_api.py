"""A stand-in for a Kubernetes API server, and strict checks of manifests as an API server makes them."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml


class ApiServer:
    """Objects by the path of their collection and their name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.refused: dict[str, tuple[int, str]] = {}
        """Collections in which nothing may be made, by the last part of their path: status and message."""
        self.missing: set[str] = set()
        """Collections that the server does not know at all, as without a CRD."""
        self.logs: dict[str, str] = {}
        """Logs by pod name."""
        self.queries: list[dict[str, list[str]]] = []

    def of(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return all objects of a kind by name: 'rayjobs'."""
        return {name: each for (path, name), each in self.objects.items() if path.rsplit("/", 1)[1] == collection}

    def put(self, path: str, manifest: dict[str, Any]) -> None:
        """Store an object that another client has made."""
        self.objects[path, manifest["metadata"]["name"]] = manifest


class _Handler(BaseHTTPRequestHandler):
    there: ApiServer

    def do_POST(self) -> None:
        path, manifest = self._path(), self._body()
        self.there.queries.append(parse_qs(urlsplit(self.path).query))
        name, kind = manifest["metadata"]["name"], path.rsplit("/", 1)[1]
        if kind in self.there.missing:
            return self._text(404, "404 page not found\n")
        if kind in self.there.refused:
            status, message = self.there.refused[kind]
            return self._answer(status, {"kind": "Status", "reason": "Forbidden", "message": message})
        if (path, name) in self.there.objects:
            message = f'{kind} "{name}" already exists'
            return self._answer(409, {"kind": "Status", "reason": "AlreadyExists", "message": message})
        manifest["metadata"]["uid"] = str(uuid.uuid4())
        self.there.objects[path, name] = manifest
        return self._answer(201, manifest)

    def do_GET(self) -> None:
        path = self._path()
        folder, _, name = path.rpartition("/")
        if name == "log" and (pod := folder.rpartition("/")[2]) in self.there.logs:
            return self._text(200, self.there.logs[pod])
        if (folder, name) in self.there.objects:
            return self._answer(200, self.there.objects[folder, name])
        if name in ("pods", "events"):
            self.there.queries.append(parse_qs(urlsplit(self.path).query))
            _, _, about = self.there.queries[-1].get("fieldSelector", [""])[0].partition("involvedObject.name=")
            items = [each for (of, _), each in self.there.objects.items() if of == path]
            items = [each for each in items if not about or each["involvedObject"]["name"] == about]
            return self._answer(200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})
        return self._missing(name)

    def do_PATCH(self) -> None:
        folder, _, name = self._path().rpartition("/")
        change = self._body()
        there = self.there.objects[folder, name]
        there["metadata"] |= change["metadata"]
        self._answer(200, there)

    def do_DELETE(self) -> None:
        folder, _, name = self._path().rpartition("/")
        if self.there.objects.pop((folder, name), None) is None:
            return self._missing(name)
        return self._answer(200, {"kind": "Status", "status": "Success"})

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def _path(self) -> str:
        return urlsplit(self.path).path

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _missing(self, name: str) -> None:
        self._answer(404, {"kind": "Status", "reason": "NotFound", "message": f'"{name}" not found'})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self._text(status, json.dumps(body), "application/json")

    def _text(self, status: int, body: str, kind: str = "text/plain") -> None:
        text = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def api_server(folder: Path) -> Iterator[tuple[ApiServer, Path]]:
    """Start the server and write a kubeconfig for it."""
    there = ApiServer()
    handler = type("Handler", (_Handler,), {"there": there})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    config = folder / "kubeconfig"
    context = {"cluster": "here", "user": "somebody"}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "somebody", "user": {}}],
                "contexts": [{"name": "here", "context": context}],
                "current-context": "here",
            }
        )
    )
    try:
        yield there, config
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


VARIABLE = "AIPERF_KUBERAY_CRDS"
"""Names the folder that KubeRay's CRDs lie in, as its releases publish them: ray.io_rayjobs.yaml, …"""
KUBERNETES = "1.31"
"""Oldest Kubernetes version for the manifests. Later versions keep these fields."""


def complaints(manifest: dict[str, Any]) -> list[str]:
    """Return the fields that an API server with strict validation would refuse. Skips the test without the CRDs."""
    if manifest["apiVersion"].startswith("ray.io/"):
        schema = _of_custom_kinds()[manifest["apiVersion"], manifest["kind"]]
        found = schema.iter_errors(manifest)
        return [f"{'/'.join(map(str, error.instance_path))}: {error.message[:200]}" for error in found]
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"]
    return []


def crds() -> Path:
    """Return the folder of the CRDs. Skips without one."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} names no folder of KubeRay's CRDs")
    return Path(folder)


@cache
def _of_custom_kinds() -> dict[tuple[str, str], jsonschema_rs.Validator]:
    found = {}
    for path in sorted(crds().glob("ray.io_*.yaml")):
        with path.open() as file:
            crd = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for version in crd["spec"]["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            kind = f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]
            found[kind] = jsonschema_rs.validator_for(schema)
    return found


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert a CRD's OpenAPI schema to JSON Schema. An unknown field is an error, as for the server."""
    kept = {name: value for name, value in schema.items() if not name.startswith("x-kubernetes")}
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields", False)
    for name in ("format", "default", "nullable"):
        kept.pop(name, None)
    if schema.get("nullable") and "type" in kept:
        kept["type"] = [kept["type"], "null"]
    if schema.get("x-kubernetes-int-or-string"):
        kept.pop("type", None)
        kept.pop("allOf", None)
        kept["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        return kept
    properties = schema.get("properties", {})
    if "required" in kept:  # the server fills defaults in first
        kept["required"] = [name for name in kept["required"] if "default" not in properties.get(name, {})]
    if properties:
        kept["properties"] = {name: _strict(one) for name, one in properties.items()}
        if not keeps_unknown and "additionalProperties" not in kept:
            kept["additionalProperties"] = False
    for name in ("additionalProperties", "items"):
        if isinstance(kept.get(name), dict):
            kept[name] = _strict(kept[name])
    for name in ("allOf", "anyOf", "oneOf"):
        if name in kept:
            kept[name] = [_strict(one) for one in kept[name]]
    return kept
