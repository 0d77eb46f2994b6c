"""Writes aiperf/report/report.schema.json from the facts of a report: `python -m tools.report_schema`.

Every field stands there with what its docstring says. Which fields a version has stands in report_fields.txt: of a version that
is written down a field neither goes nor means another type; whoever must change one raises facts.VERSION first.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
import textwrap
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from aiperf.comparison.compare import Comparison
from aiperf.comparison.followed import Followed
from aiperf.report.facts import SCHEMA, VERSION, Report

PROJECT = Path(__file__).parent.parent
FILE = PROJECT / "aiperf" / "report" / "report.schema.json"
FIELDS = Path(__file__).with_name("report_fields.txt")
REF = "#/$defs/{name}"
HEAD = "# VERSION Part.field: type. Written by `python -m tools.report_schema`, which refuses to take one back.\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of report.json."""
    types = (Report, Comparison, Followed)
    _, parts = msgspec.json.schema_components(types, ref_template=REF)
    for name, owner in _dataclasses(types).items():
        _tell(parts[name], owner)
    report = parts.pop("Report")
    for name, part, why in (
        (
            "against",
            "Comparison",
            "What `report RUN --against RUN2` found: RUN2 is the first side, this run the second.",
        ),
        ("followed", "Followed", "A following run beside the one that it follows."),
    ):
        report["properties"][name] = {"$ref": REF.format(name=part), "description": why}
    report["properties"]["schema"] = {"const": SCHEMA, "description": "The name of this form."}
    report["properties"]["version"] = {"const": VERSION, "description": "Of this form."}
    report["required"] = sorted({*report["required"], "schema", "version"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"report.json of AIPerf, version {VERSION}",
        **report,
        "$defs": {name: parts[name] for name in sorted(parts)},
    }


def fields(of: dict[str, Any]) -> dict[str, str]:
    """Every field of a schema, as `Part.field` to its type."""
    found = {}
    for name, part in {"Report": of, **of["$defs"]}.items():
        for field, told in part.get("properties", {}).items():
            found[f"{name}.{field}"] = _type(told)
    return found


def recorded() -> dict[str, dict[str, str]]:
    """The fields of every version, as report_fields.txt has them."""
    found: dict[str, dict[str, str]] = {}
    for line in FIELDS.read_text().splitlines() if FIELDS.is_file() else ():
        if not line.startswith("#"):
            version, _, rest = line.partition(" ")
            name, _, kind = rest.partition(": ")
            found.setdefault(version, {})[name] = kind
    return found


def taken_back(now: dict[str, str], before: dict[str, str]) -> list[str]:
    """Fields that went, or are of another type, in words."""
    return [
        f"{name} was {kind}; now it is {now.get(name, 'gone')}"
        for name, kind in before.items()
        if now.get(name) != kind
    ]


def main() -> int:
    """Writes both files; 1: a field of this version was taken back."""
    of = schema()
    now, versions = fields(of), recorded()
    if lost := taken_back(now, versions.get(str(VERSION), {})):
        print(
            "a field of report.json stays as it is while facts.VERSION does; found: " + "; ".join(lost), file=sys.stderr
        )
        return 1
    versions[str(VERSION)] = now
    lines = [
        f"{version} {name}: {kind}"
        for version in sorted(versions, key=int)
        for name, kind in sorted(versions[version].items())
    ]
    FIELDS.write_text(HEAD + "\n".join(lines) + "\n")
    FILE.write_text(text(of))
    return 0


def text(of: dict[str, Any]) -> str:
    """The schema as its file has it."""
    return json.dumps(of, indent=1, ensure_ascii=False) + "\n"


def _dataclasses(types: tuple[type, ...]) -> dict[str, type]:
    """Those that stand anywhere in these, by name; msgspec's structs among them."""
    found: dict[str, type] = {}
    waiting: list[Any] = list(types)
    while waiting:
        one = waiting.pop()
        waiting += getattr(one, "__args__", ())
        if isinstance(one, type) and one.__name__ not in found and (dataclasses.is_dataclass(one) or _is_struct(one)):
            found[one.__name__] = one
            waiting += inspect.get_annotations(one, eval_str=True).values()
    return found


def _is_struct(one: type) -> TypeGuard[type[msgspec.Struct]]:
    return issubclass(one, msgspec.Struct)


def _tell(part: dict[str, Any], owner: type) -> None:
    """Puts the docstrings of fields beside them, and takes defaults out: a report holds every field, but for telemetry's, which
    leaves out what is not known."""
    told = _docstrings(owner)
    for name, field in part["properties"].items():
        field.pop("default", None)
        if name in told:
            part["properties"][name] = {**field, "description": told[name]}
    if not (_is_struct(owner) and owner.__struct_config__.omit_defaults):
        part["required"] = sorted(part["properties"])
    # What reads a report of this version reads those of later releases too, which may hold more.
    part.pop("additionalProperties", None)


def _docstrings(owner: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            assert isinstance(node.target, ast.Name)
            found[node.target.id] = " ".join(str(after.value.value).split())
    return found


def _type(told: dict[str, Any]) -> str:
    if "$ref" in told:
        return str(told["$ref"]).rpartition("/")[2]
    if "anyOf" in told:
        return "|".join(sorted(_type(each) for each in told["anyOf"]))
    if "enum" in told:
        return "|".join(sorted(map(json.dumps, told["enum"])))
    if "const" in told:
        return "constant"
    match told.get("type"):
        case "array":
            items = told.get("prefixItems") or [told.get("items") or {}]
            return f"[{', '.join(_type(each) for each in items)}]"
        case "object" if isinstance(told.get("additionalProperties"), dict):
            return f"{{{_type(told['additionalProperties'])}}}"
        case None:
            return "any"
        case list() as kinds:
            return "|".join(sorted(kinds))
        case kind:
            return str(kind)


if __name__ == "__main__":
    raise SystemExit(main())
