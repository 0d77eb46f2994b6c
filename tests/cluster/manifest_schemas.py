"""Strict checks of manifests as an API server makes them: core kinds by kubernetes-validate, KubeRay's by its CRDs."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

VARIABLE = "AIPERF_KUBERAY_CRDS"
"""Names the folder that KubeRay's CRDs lie in, as its releases publish them: ray.io_rayjobs.yaml, …"""
KUBERNETES = "1.31"
"""Oldest Kubernetes version for the manifests. Later versions keep these fields."""


def complaints(manifest: dict[str, Any]) -> list[str]:
    """Return the fields that an API server with strict validation would refuse. Skips the test without the CRDs."""
    if manifest["apiVersion"].startswith("ray.io/"):
        schema = _of_custom_kinds()[manifest["apiVersion"], manifest["kind"]]
        found = schema.iter_errors(manifest)
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in found]
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
def _of_custom_kinds() -> dict[tuple[str, str], jsonschema.Draft202012Validator]:
    found = {}
    for path in sorted(crds().glob("ray.io_*.yaml")):
        with path.open() as file:
            crd = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for version in crd["spec"]["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            kind = f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]
            found[kind] = jsonschema.Draft202012Validator(schema)
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
