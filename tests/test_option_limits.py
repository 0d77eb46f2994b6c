"""Values outside the limits of a configured field are refused before a run starts."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.config import RunConf, configure, name_of_choice, records_of, schemas_of_parts
from aiperf.errors import BadConfiguration
from aiperf.option_limits import WIDEST, FieldLimits, hold, limits_of
from aiperf.system.form import FIELDS as FORM
from aiperf.system.form import SystemForm
from aiperf.train.trainer_config import TrainerConf
from cluster.simulated import SimulatedConf
from tests.cli.test_option_paths import PATHS

PARTS: dict[str, tuple[type[Any], ...]] = {"": (RunConf,), **schemas_of_parts()}
RECORDS = {
    f"{part}.{each.name}": records_of(schema, each.name)
    for part, schemas in PARTS.items()
    for schema in schemas
    for each in fields(schema)
    if part and records_of(schema, each.name)
}
CHOSEN = {
    f"{part}.{fields(schema)[0].name}" for part, those in PARTS.items() for schema in those if name_of_choice(schema)
}
FIELDS = [
    (part, schema, name, limits)
    for part, schemas in [*PARTS.items(), *RECORDS.items()]
    for schema in schemas
    for name, limits in limits_of(schema).items()
    if f"{part}.{name}" not in CHOSEN and not (part in RECORDS and name == "kind")
]
FREE_TEXT = {
    "announcement": "looked up in the log of announcements, which is asked before a run starts",
    **{
        f"system.{name}": "words for people, in a report"
        for name in FORM
        if limits_of(SystemForm)[name].types == (str,)
    },
}
"""Fields that accept any text, each with the reason."""


def wrong(limits: FieldLimits) -> list[Any]:
    """Values that a field does not take: out of range on either side, no number, of another type, null, an empty list."""
    bounds = limits.metadata
    found: list[Any] = []
    if limits.is_number:
        whole = float not in limits.types
        found += [math.nan, math.inf, -math.inf, WIDEST + 1, -WIDEST - 1]
        found += (
            [bounds["least"] - 1 if whole else math.nextafter(bounds["least"], -math.inf)] if "least" in bounds else []
        )
        found += [bounds["most"] + 1 if whole else math.nextafter(bounds["most"], math.inf)] if "most" in bounds else []
        found += [bounds[bound] for bound in ("above", "below") if bound in bounds]
        found += [1.5] if whole else []
        found += [True] if bool not in limits.types else []
    if (limits.is_number and str not in limits.types) or "among" in bounds:
        found.append("no such word")
    if bool in limits.types:
        found += [0, 1.0, "true"]
    if limits.types == (str,):
        found += [3, 1.5, False]
    if "form" in bounds:
        found += ["a\nb", "a\x00b"]
    if limits.of_list:
        entries = [[each] for each in found]
        return [*entries, "text", 3, *([[]] if bounds.get("fewest") else []), *([] if limits.or_none else [None])]
    return [*found, [], 3 if dict in limits.types else {}, *([] if limits.or_none else [None])]


def right(limits: FieldLimits) -> list[Any]:
    """Values at a field's limits."""
    bounds = limits.metadata
    found: list[Any] = []
    whole = float not in limits.types
    if limits.is_number:
        found += [bounds[bound] for bound in ("least", "most") if bound in bounds]
        found += [math.nextafter(bounds["above"], math.inf)] if "above" in bounds else []
        found += [math.nextafter(bounds["below"], -math.inf)] if "below" in bounds else []
        found += [WIDEST] if whole and "most" not in bounds else []
    found += limits.among or ()
    return [[each] for each in found] if limits.of_list else [*found, *([None] if limits.or_none else [])]


@pytest.mark.parametrize(("part", "schema"), sorted({(part, schema) for part, schema, _, _ in FIELDS}, key=str))
def test_every_field_accepts_bounds_and_refuses_values_beyond(part: str, schema: type[Any]) -> None:
    for name, limits in [field[2:] for field in FIELDS if field[:2] == (part, schema)]:
        conf, option = schema(), f"{part}.{name}" if part else name
        for value in wrong(limits):
            setattr(conf, name, value)
            with pytest.raises(BadConfiguration) as refused:
                hold(conf, part)
            assert str(refused.value).startswith(f"{option} "), value
            assert f", but found {value!r}: give such a value, or leave it out" in str(refused.value)
        for value in right(limits):
            setattr(conf, name, value)
            hold(conf, part)


def test_every_number_has_a_lower_bound_and_floats_an_upper_one() -> None:
    numbers = {f"{part}.{name}".lstrip("."): limits for part, _, name, limits in FIELDS if limits.is_number}

    assert [option for option, limits in numbers.items() if not limits.metadata.keys() & {"least", "above"}] == []
    unbounded = [option for option, limits in numbers.items() if not limits.metadata.keys() & {"most", "below"}]
    assert [option for option in unbounded if float in numbers[option].types] == []


def test_every_text_field_has_limits_or_a_stated_reason() -> None:
    texts = {f"{part}.{name}".lstrip("."): limits for part, _, name, limits in FIELDS if limits.types == (str,)}
    unsaid = {option for option, limits in texts.items() if not limits.metadata.keys() & {"among", "form"}}

    assert unsaid - PATHS == FREE_TEXT.keys()


def is_refused_where_it_is_typed(part: str, schema: type[Any], name: str, limits: FieldLimits, value: Any) -> None:
    """Draw an invalid value of a field as text of a command line. Some become valid by conversion from text."""
    option = f"{part}.{name}" if part else name
    chosen = name_of_choice(schema)
    choice = [] if chosen is None else [f"{'+' if part == 'cluster' else ''}{part}={chosen}"]
    if limits.types == (str,) and value is not None:
        texts = [_typed(each).strip("'") for each in (value if isinstance(value, list) else [value])]
        if isinstance(value, list) == limits.of_list and limits.accepts(texts if limits.of_list else texts[0]):
            return  # any text is valid
    if limits.types == (float,) and isinstance(value, int) and abs(value) > WIDEST:
        return  # read as a number with a fraction, which has no such bound
    if limits.types == (str,) and not limits.of_list and value is not None and limits.accepts(_typed(value)):
        return  # a text is taken whole, '[]' too
    if limits.types == (bool,) and value in (0, 1, "true"):
        return  # as a command line takes them

    with pytest.raises(BadConfiguration) as refused:
        configure([*choice, f"{option}={_typed(value)}"])

    said = str(refused.value)
    assert option in said and ", but found " in said and ": " in said.partition(", but found ")[2], said


TYPED = [field for field in FIELDS if field[0] not in RECORDS]
"""Fields that a command line sets."""


@given(st.data())
@settings(max_examples=30, derandomize=True)
def test_a_value_out_of_range_gives_rule_value_and_fix(data: st.DataObject) -> None:
    part, schema, name, limits = data.draw(st.sampled_from(TYPED))
    is_refused_where_it_is_typed(
        part, schema, name, limits, data.draw(st.sampled_from([each for each in wrong(limits) if each != {}]))
    )


@pytest.mark.slow
@pytest.mark.parametrize("field", TYPED, ids=lambda field: f"{field[1].__name__}.{field[2]}")
def test_the_command_line_refuses_values_outside_the_limits(
    field: tuple[str, type[Any], str, FieldLimits],
) -> None:
    for value in wrong(field[3]):
        if value != {}:
            is_refused_where_it_is_typed(*field, value)


def _typed(value: Any) -> str:
    """As it is typed on a command line."""
    if isinstance(value, list):
        return f"[{','.join(map(_typed, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"'{value}'" if isinstance(value, str) else str(value)


def test_parts_made_by_other_programs_have_the_same_limits() -> None:
    conf = configure(["+cluster=simulated"])

    with pytest.raises(BadConfiguration, match=r"cluster\.workers is between 1 and 1000000, but found 0"):
        replace(conf, cluster=SimulatedConf(workers=0))
    with pytest.raises(BadConfiguration, match=r"cluster\.links has at least 1 entry, but found \[\]"):
        replace(conf, cluster=SimulatedConf(links=[]))
    with pytest.raises(BadConfiguration, match=r"trainer\.ranks is between 1 and 65536, but found 0"):
        TrainerConf(ranks=0)
