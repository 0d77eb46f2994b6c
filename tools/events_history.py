"""What each schema of the journal added: what the first release's code wrote, and the lines of events_history.txt.

A test compares the sum of it with the types, so that no field comes into a journal without its line and its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FIRST: dict[str, str] = {
    "BatchReduced": "at trial attempt from_batch_size to_batch_size",
    "CeilingMeasured": "at worker family batch_size",
    "CheckpointDropped": "at trial reason",
    "EpochFinished": "at trial attempt epoch accuracy validation_loss training_loss learning_rate checkpoint",
    "Progress": "at worker trial attempt epoch start end training_images validation_images busy_seconds communication_seconds "
    "validation_seconds input_seconds checkpoint_seconds",
    "ProposalRequested": "at number worker round seed position",
    "RunEnded": "at reason",
    "RunResumed": "at down_seconds clock_stepped_back_seconds versions machine",
    "RunStarted": "at schema run started_unix seed config config_hash start_graph dataset duration_seconds warmup_seconds "
    "versions machine simulated",
    "TrialFailed": "at trial reason",
    "TrialFinished": "at trial attempt reason accuracy told_accuracy",
    "TrialLost": "at trial attempt reason",
    "TrialPrepared": "at trial attempt precision ranks compiled build_seconds weights_seconds compile_seconds",
    "TrialProposed": "at number position seed searcher parent morphs batch_size kernel_size pruned fingerprint forward_flops "
    "backward_flops validation_flops tensor_forward_flops tensor_backward_flops parameters seconds",
    "TrialRejected": "at number reason",
    "TrialStarted": "at trial attempt worker epoch batch_size",
    "WorkerJoined": "at worker host ranks device device_memory_bytes collective machine",
    "WorkerLost": "at worker reason",
}
"""Schema 1 as it was first written: the fields of each event."""

RELEASES = {1: "0.1.0", 2: "0.2.0", 3: "0.2.0", 4: "0.2.0"}
"""The release that began to write a schema."""

LINES = Path(__file__).with_name("events_history.txt")

_LINE = re.compile(
    r"(?P<schema>\d+) (?P<event>\w+)(?:\((?P<fields>[\w, ]+)\)|\.(?P<field>\w+)(?P<changed> changed)?): (?P<why>.+)"
)


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the history."""

    schema: int
    event: str
    fields: tuple[str, ...]
    """That came with it; empty where the meaning of one that was there changed."""
    text: str
    """As a reader of the page is told it."""


def changes() -> list[Change]:
    """What was added or changed after FIRST, by schema, event and field."""
    lines = [line for line in LINES.read_text().splitlines() if line and not line.startswith("#")]
    return sorted((_change(line) for line in lines), key=lambda change: (change.schema, change.event, change.text))


def documented() -> dict[str, set[str]]:
    """The fields of every event and part of one, as the history has them."""
    fields = {event: set(names.split()) for event, names in FIRST.items()}
    for change in changes():
        fields.setdefault(change.event, set()).update(change.fields)
    return fields


def _change(line: str) -> Change:
    found = _LINE.fullmatch(line)
    if found is None:
        raise SystemExit(f"a line of {LINES.name} has one of the forms that its head names; {line!r} has none of them")
    schema, event, why = int(found["schema"]), found["event"], found["why"]
    if found["fields"]:
        return Change(schema, event, tuple(found["fields"].replace(",", " ").split()), f"`{event}`, new: {why}")
    if found["changed"]:
        return Change(schema, event, (), f"`{event}.{found['field']}` changed: {why}")
    return Change(schema, event, (found["field"],), f"`{event}.{found['field']}`: {why}")
