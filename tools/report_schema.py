"""Generator of aiperf/report/report.schema.json from the facts of a report: `python -m tools.report_schema`."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from aiperf.cli.help import field_docstrings
from aiperf.report.facts import SCHEMA, VERSION, Report

PROJECT = Path(__file__).parent.parent
FILE = PROJECT / "aiperf" / "report" / "report.schema.json"
REF = "#/$defs/{name}"


def schema() -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([Report], ref_template=REF)
    for name, owner in _dataclasses(Report).items():
        _describe(parts[name], owner)
    report = parts.pop("Report")
    report["properties"]["schema"] = {"const": SCHEMA, "description": "Name of this format."}
    report["properties"]["version"] = {"const": VERSION, "description": "Version of this format."}
    report["required"] = sorted({*report["required"], "schema", "version"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"report.json of AIPerf, version {VERSION}",
        **report,
        "$defs": {name: parts[name] for name in sorted(parts)},
    }


def main() -> None:
    FILE.write_text(text(schema()))


def text(of: dict[str, Any]) -> str:
    return json.dumps(of, indent=1, ensure_ascii=False) + "\n"


def _dataclasses(of: type) -> dict[str, type]:
    types_by_name: dict[str, type] = {}
    waiting: list[Any] = [of]
    while waiting:
        one = waiting.pop()
        waiting += getattr(one, "__args__", ())
        if (
            isinstance(one, type)
            and one.__name__ not in types_by_name
            and (dataclasses.is_dataclass(one) or _is_struct(one))
        ):
            types_by_name[one.__name__] = one
            waiting += inspect.get_annotations(one, eval_str=True).values()
    return types_by_name


def _is_struct(one: type) -> TypeGuard[type[msgspec.Struct]]:
    return issubclass(one, msgspec.Struct)


def _describe(part: dict[str, Any], owner: type) -> None:
    """Add the docstrings of fields, and remove defaults: a report contains every field."""
    descriptions = field_docstrings(owner)
    for name, field in part["properties"].items():
        field.pop("default", None)
        if name in descriptions:
            part["properties"][name] = {**field, "description": " ".join(descriptions[name].split())}
    if not (_is_struct(owner) and owner.__struct_config__.omit_defaults):
        part["required"] = sorted(part["properties"])
    # Readers of this version also read reports of later releases, which may contain more fields.
    part.pop("additionalProperties", None)


if __name__ == "__main__":
    main()
