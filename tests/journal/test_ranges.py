"""A number outside the range that its field declares is refused by reader and writer with the same words."""

from __future__ import annotations

import math
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.errors import JournalDamaged
from aiperf.journal import events
from aiperf.journal.journal import Journal, read
from aiperf.journal.legality import IllegalLine, check_ranges, ranges
from tests.builders.forged_journal import lines_of, write

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS: tuple[type[msgspec.Struct], ...] = typing.get_args(events.AnyEvent)
RANGED = [
    (kind, owner, *row)
    for kind in KINDS
    for name, _, limits in ranges(kind)
    for owner, rows in [(name, ranges(limits)) if isinstance(limits, type) else ("", ranges(kind))]
    for row in rows
    if owner or row[0] == name
]
"""Event, its part with the field ('' for the event itself), field, True for a mapping, limits."""


class Part(msgspec.Struct):
    images: events.Count


class Whole(msgspec.Struct):
    part: Part | None
    parts: dict[str, Part]


def least_event(kind: type[msgspec.Struct], **fields: Any) -> Any:
    """Return an event with a legal value in each field, except `fields`."""
    values: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        values[name] = fields[name] if name in fields else _legal(hint)
    return kind(**values)


def _legal(hint: Any) -> Any:
    if hint is type(None) or type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(hint) is typing.Annotated:
        return type(hint.__metadata__[0].ge)(1) if hint.__origin__ is int else 0.5
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)[0]
    return (typing.get_origin(hint) or hint)()


@pytest.mark.parametrize(("kind", "part", "name", "is_mapping", "limits"), RANGED)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_number_out_of_range_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
    kind: type[msgspec.Struct],
    part: str,
    name: str,
    is_mapping: bool,
    limits: tuple[float, float],
    data: st.DataObject,
) -> None:
    least, most = limits
    owner = next(limits for field, _, limits in ranges(kind) if field == part) if part else kind
    assert isinstance(owner, type)
    is_integer = "float" not in str(typing.get_type_hints(owner)[name])
    number: Any = data.draw(
        st.integers(max_value=int(least) - 1) | st.integers(min_value=int(most) + 1)
        if is_integer
        else st.floats(max_value=least, exclude_max=True, allow_infinity=False)
        | st.floats(min_value=most, exclude_min=True, allow_infinity=False)
    )
    inner = least_event(owner, **{name: {"x": number} if is_mapping else number})
    event = least_event(kind, **{part: inner}) if part else inner
    folder = tmp_path_factory.mktemp("run")
    rule = f"{name} must be from {least} to {most}. This line has {number!r}"

    with Journal(folder / "journal.jsonl", durable=False) as journal, pytest.raises(IllegalLine) as unwritten:
        journal.append([event])
    lines = lines_of(GOLDEN / "resumed-v5.jsonl")[:2]
    write(folder / "forged.jsonl", [*lines, msgspec.to_builtins(event) | {"at": lines[-1]["at"]}])
    with pytest.raises(JournalDamaged) as unread:
        list(read(folder / "forged.jsonl"))

    assert str(unwritten.value) == rule
    assert f"journal damaged at line 3 of 3: no run can write it: {rule}. " in str(unread.value)


def test_number_that_is_none_is_not_written(tmp_path: Path) -> None:
    event = least_event(events.EpochFinished, accuracy=math.nan)

    with Journal(tmp_path / "journal.jsonl", durable=False) as journal, pytest.raises(IllegalLine, match="accuracy"):
        journal.append([event])


def test_range_of_a_part_of_an_event_is_checked() -> None:
    for whole in (Whole(part=Part(images=-1), parts={}), Whole(part=None, parts={"x": Part(images=-1)})):
        with pytest.raises(IllegalLine, match=r"images must be from 0 to \d+. This line has -1"):
            check_ranges(whole)
