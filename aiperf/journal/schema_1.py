"""What a line of schema 1 cannot hold: events and fields that later schemas gained."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from aiperf.journal.events import AnyEvent, RunResumed
from aiperf.journal.lawful import Unlawful

_DEFAULTS_OF_SCHEMA_1 = frozenset(
    {
        ("RunStarted", "simulated"),
        ("RunStarted", "proposal_rules"),
        ("RunResumed", "schema"),
        ("TrialPrepared", "cuda_graphs"),
        ("EpochFinished", "interval"),
    }
)
"""Fields with a default that schema 1 has. All others with one came later, since older journals are to be read."""
_EVENTS_OF_SCHEMA_1 = frozenset(
    {
        "RunStarted",
        "RunResumed",
        "WorkerJoined",
        "WorkerLost",
        "CeilingMeasured",
        "ProposalRequested",
        "TrialProposed",
        "TrialRejected",
        "TrialStarted",
        "TrialPrepared",
        "Progress",
        "EpochFinished",
        "BatchReduced",
        "TrialFinished",
        "TrialLost",
        "TrialFailed",
        "CheckpointDropped",
        "RunEnded",
    }
)


def _gained(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (one.name, one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory())
        for one in msgspec.structs.fields(kind)
        if not one.required and (kind.__name__, one.name) not in _DEFAULTS_OF_SCHEMA_1
    )


_GAINED = {kind: _gained(kind) for kind in get_args(AnyEvent)}
"""What a line of schema 1 does not have, with the value that is read in its place."""


def must_be_of_schema_1(event: AnyEvent) -> None:
    if isinstance(event, RunResumed) and event.schema > 1:
        return  # the line that begins a later one
    if type(event).__name__ not in _EVENTS_OF_SCHEMA_1:
        raise Unlawful(f"a line is of its schema; schema 1 has no {type(event).__name__}")
    for name, default in _GAINED[type(event)]:
        if getattr(event, name) != default:
            raise Unlawful(f"a line has the fields of its schema; schema 1 has no {type(event).__name__}.{name}")
