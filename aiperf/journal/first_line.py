"""Rules for the first line of a journal."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from aiperf.journal.descriptions import Configuration, DataSetFacts, MachineFacts, check_shape
from aiperf.journal.events import RunStarted
from aiperf.journal.lawful import LARGEST, LARGEST_COUNT, LARGEST_SECONDS, YEAR_10000, ImpossibleLine, must, whole

_OF_THE_SCHEDULE = ("duration_seconds", "warmup_seconds")


def config_hash(plain: dict[str, Any]) -> str:
    """Return the SHA-256 of the configuration in canonical JSON: sorted keys, no spaces."""
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()


def check_first_line(event: RunStarted) -> None:
    """Raise ImpossibleLine if a first line breaks a rule."""
    must(event.at == 0, "a run begins at 0 s", f"{event.at!r} s")
    must(
        0 <= event.started_unix < YEAR_10000,
        "started_unix is a date before the year 10000",
        repr(event.started_unix),
    )
    must(event.seed >= 0, "a seed is at least 0", repr(event.seed))
    warmup, duration = event.warmup_seconds, event.duration_seconds
    must(
        0 <= warmup < duration <= LARGEST_SECONDS,
        "a valid window lies between warm-up and declared end",
        f"warmup_seconds={warmup!r} and duration_seconds={duration!r}",
    )
    hashed = config_hash(event.config)
    must(
        event.config_hash == hashed,
        f"config_hash is the configuration's, {hashed[:12]}…",
        f"{event.config_hash[:12]!r}",
    )
    schedule = event.config.get("schedule")
    copies: list[tuple[str, Any, Any]] = [("seed", event.config.get("seed"), event.seed)]
    if isinstance(schedule, dict):
        copies += [(f"schedule.{name}", schedule.get(name), getattr(event, name)) for name in _OF_THE_SCHEDULE]
    for name, configured, recorded in copies:
        if configured is not None and configured != recorded:
            raise ImpossibleLine(
                f"the first line says what its configuration says; {name} is {configured!r} and {recorded!r}"
            )
    must(
        (event.config.get("follow") is None) == (event.follows is None),
        "a run follows another where its configuration says so",
        f"follow={event.config.get('follow')!r} and {'no' if event.follows is None else 'a'} followed run",
    )
    check_shape("config", event.config, Configuration)
    check_shape("dataset", event.dataset, DataSetFacts)
    check_shape("machine", event.machine, MachineFacts)
    for name in ("training_images", "validation_images"):
        whole(f"dataset.{name}", event.dataset.get(name), 1, LARGEST_COUNT)
    _shape(event)


def _shape(event: RunStarted) -> None:
    """Check that the plan matches the workers that it names."""
    shape = event.shape
    if shape is None:
        return
    for name, least in (("accelerators", 0), ("ranks", 1), ("cores", 0)):
        whole(f"shape.{name}", getattr(shape, name), least, LARGEST)
    whole("shape.memory_bytes", shape.memory_bytes, 1, LARGEST_COUNT)
    space, budget = event.config.get("space"), event.config.get("budget")
    if isinstance(space, dict) and isinstance(budget, dict):
        share, spaced = budget.get("memory_share"), space.get("budget")
        # Other types must not be multiplied: a text would be repeated.
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
            raise ImpossibleLine(f"budget.memory_share is a number from 0 to 1; found {repr(share)[:80]}")
        found = spaced.get("memory_bytes") if isinstance(spaced, dict) else None
        made = int(share * shape.memory_bytes)
        must(found == made, f"the budget's memory is made of the workers' shape, {made!r} bytes", repr(found))
