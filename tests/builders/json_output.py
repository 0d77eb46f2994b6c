"""Check of an output of --json against the schema that ships in the package."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema_rs


def follows_its_schema(text: str) -> Any:
    """Return the JSON object in a text. Raise jsonschema_rs.ValidationError if it differs from its schema."""
    value = json.loads(text)
    _validator(value["schema"]).validate(value)
    return value


@cache
def _validator(name: str) -> Any:
    schema = files("aiperf.cli").joinpath(f"schemas/{name}.schema.json").read_text("utf-8")
    return jsonschema_rs.validator_for(json.loads(schema))
