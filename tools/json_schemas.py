"""Schemas of the outputs of --json (aiperf/cli/schemas), generated from the classes of the results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, get_type_hints

import msgspec

from aiperf.accounting.error_figures import ErrorFigures
from aiperf.accounting.losses import Waterfall
from aiperf.accounting.score import Score
from aiperf.accounting.step_breakdown import StepBreakdown, StepPart
from aiperf.accounting.valid_flops import FixedNetworkResult
from aiperf.bops.networks import NetworkRoofline
from aiperf.bops.peak import MachinePeak
from aiperf.bops.result import ProgramResult, SourceCount
from aiperf.cli.help import field_docstrings
from aiperf.cli.verbs.runs import status
from aiperf.comparison.cluster_sizes import ClusterSize
from aiperf.comparison.compare import Comparison, Repeats
from aiperf.drive.live import LiveView
from aiperf.journal.events import NodeChecked
from aiperf.leaderboard.leaderboard import BenchmarkRuns, SiteAnnouncements, UnreadableJournal
from aiperf.ranking.breaches import RuleViolation
from aiperf.ranking.levels import LayerDifference
from aiperf.report.facts import TrainingFloor
from aiperf.run_warning import RunWarning
from aiperf.statistics.predicted_score import ScorePrediction
from aiperf.system.energy import EnergyFacts
from aiperf.verify.check import Verification
from aiperf.verify.quality import QualityAudit
from tools.generated_docs import PROJECT, REF, dataclasses_of, describe

FOLDER = PROJECT / "aiperf" / "cli" / "schemas"
Object = dict[str, Any]
Number = float | None


def shape(name: str, *parts: type | Mapping[str, Any]) -> Any:
    """Return the type of a JSON object with the fields of classes, and with further fields."""
    status.LiveView = LiveView  # type: ignore[attr-defined]  # imported for type checking alone
    fields: dict[str, Any] = {"schema": str, "version": int}
    for part in parts:
        fields |= part if isinstance(part, Mapping) else _hints(part)
    return TypedDict(name, fields)  # type: ignore[operator]


def _hints(of: type) -> dict[str, Any]:
    hints = get_type_hints(of, include_extras=True)
    if not (issubclass(of, msgspec.Struct) and of.__struct_config__.omit_defaults):
        return hints
    required = {field.name for field in msgspec.structs.fields(of) if field.required}
    return {name: hint if name in required else NotRequired[hint] for name, hint in hints.items()}


def _optional(of: type) -> dict[str, Any]:
    return {name: NotRequired[hint] for name, hint in get_type_hints(of).items()}


BREACHES, WARNINGS = tuple[RuleViolation, ...], tuple[RunWarning, ...]
AUDITED = {"differing_images": int | None, "is_confirmed": bool}
ENTRY = {"id": str, "fingerprint": str, "number": int, "at_unix": float}
OPERATIONS = {"forward_flops": int, "backward_flops": int}
FORMS: dict[str, tuple[type | Mapping[str, Any], ...]] = {
    "aiperf-score": (
        _optional(FixedNetworkResult),
        Score,
        {"figures": dict[str, Number], "breaches": BREACHES, "ranking": BREACHES, "warnings": WARNINGS},
        {"losses": Waterfall | None, "energy": EnergyFacts | None, "error_figures": ErrorFigures},
    ),
    "aiperf-check": (
        {"run": str, "division": str, "is_valid": bool, "rules": dict[str, str], "breaches": list[Object]},
        {"attempts_lost_share": float, "trials_given_up_share": float, "warnings": WARNINGS},
    ),
    "aiperf-level": (
        {"run": str, "reference": str, "level": str | None, "is_valid": bool, "strictest": str | None},
        {"differences": tuple[LayerDifference, ...]},
    ),
    "aiperf-verification": (
        Verification,
        {"is_sound": bool, "quality": Object | None, "retrained": list[Object]},
    ),
    "aiperf-inspection": ({"submissions": list[Object]},),
    "aiperf-announcement": (ENTRY, {"broken_rules": NotRequired[list[str]]}),
    "aiperf-announcements": ({"head": str, "torn_bytes": int, "entries": list[Object]},),
    "aiperf-quality": (QualityAudit, AUDITED),
    "aiperf-precision": ({"metric": str, "images": int, "quality": float},),
    "aiperf-steps": ({"steps": tuple[StepBreakdown, ...]},),
    "aiperf-trace": (
        {"is_truncated": bool, "unreadable_events": int, "steps": int, "parts": tuple[StepPart, ...]},
        {"device": NotRequired[str]},
    ),
    "aiperf-comparison": (Comparison,),
    "aiperf-repeats": (Repeats,),
    "aiperf-scaling": ({"sizes": tuple[ClusterSize, ...]},),
    "aiperf-scale": (
        {"scaling": str | None, "evaluation": float, "points": list[Object], "pairs": list[Object]},
        {"by": Object | None, "batch": Object | None, "bound": Object, "reported": list[Object]},
        {
            "reported_curves": dict[str, Object],
            "predicted": list[Object],
            "sentences": list[str],
            "warnings": list[str],
        },
    ),
    "aiperf-standing": ({"list": str, "entries": int, "runs": list[Object]},),
    "aiperf-list": (
        {"by": str, "metrics": list[Object], "lists": tuple[BenchmarkRuns, ...]},
        {"sites": tuple[SiteAnnouncements, ...], "unread": tuple[UnreadableJournal, ...]},
    ),
    "aiperf-peak": (MachinePeak,),
    "aiperf-operations": (SourceCount,),
    "aiperf-program": (ProgramResult, {"kind": str}),
    "aiperf-programs": ({"programs": tuple[ProgramResult, ...]},),
    "aiperf-floor": (TrainingFloor, {"kind": str}),
    "aiperf-roofline": (
        NetworkRoofline,
        {"kind": str, "floor_seconds": float, "floor_share": float, "images_per_second": float},
    ),
    "aiperf-flops": (
        {"layers": dict[str, dict[str, int]], "total": dict[str, int], "tensor": dict[str, int], "parameters": int},
        {"training_memory_bytes": dict[str, int], "array": NotRequired[int], "array_share": NotRequired[float]},
        {"array_waste": NotRequired[list[Object]], "measured": NotRequired[Object]},
    ),
    "aiperf-detector": (
        {"tensor": dict[str, int], "per_region": dict[str, int], "regions": int, "with_regions": dict[str, int]},
        {"parameters": int, "parameter_tensors": int},
    ),
    "aiperf-topology": (
        {"nodes": int, "links": int, "diameter": int, "bisection_links": int | None, "bytes": Number},
        {"bisection_bytes_per_second": Number, "bisection_bytes_per_second_both_ways": Number},
        {"all_reduce_seconds": dict[str, Number] | None},
    ),
    "aiperf-hpl": (
        {"n": int, "n_padded": int, "nb": int, "reading": str, "predictions": list[Object]},
        {"elasticities": dict[str, float], "curve": NotRequired[list[Object]], "varied": NotRequired[list[Object]]},
    ),
    "aiperf-preflight": ({"checks": tuple[NodeChecked, ...]},),
    "aiperf-prediction": (ScorePrediction, {"score": float, "interval": tuple[float, float], "digest": str}),
    "aiperf-status": (status.Status,),
}
"""Classes and further members of each output of --json, by the name of its schema."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of an output. A member that a later release adds is no fault."""
    of = shape("Output", *FORMS[name])
    _, parts = msgspec.json.schema_components([of], ref_template=REF)
    for part, owner in dataclasses_of(*get_type_hints(of).values()).items():
        if part in parts and "properties" in parts[part]:
            describe(parts[part], owner)
    whole = parts.pop("Output")
    for owner in (part for part in FORMS[name] if isinstance(part, type)):
        for field, meaning in field_docstrings(owner).items():
            whole["properties"][field]["description"] = " ".join(meaning.split())
    whole["properties"]["schema"] = {"const": name}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{name}: output of --json of AIPerf"}
    return {**head, **whole, "$defs": {part: parts[part] for part in sorted(parts)}}


def text(name: str) -> str:
    return json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in FORMS:
        (FOLDER / f"{name}.schema.json").write_text(text(name))
