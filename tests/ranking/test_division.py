"""Division files: required content, and errors on loading."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aiperf.ranking.candidate import FACTS
from aiperf.ranking.division import BUILT_IN, BadDivision, division, parsed
from aiperf.ranking.law import AllOf, AtLeast, AtMost, Equals, Has, NoLaw, OneOf, fits, law_of
from aiperf.ranking.levels import DIVISION

RULE = {
    "id": "error",
    "text": "error of a tenth or less",
    "source": ["decided"],
    "fact": "error",
    "law": {"at_most": 0.1},
    "remedy": "a longer run",
}
DOCUMENT = {
    "division": "ours",
    "title": "our own",
    "chosen": {},
    "rules": [RULE],
    "judged": {"trainer.precision": "error"},
    "free": {"seed": "any"},
}
KNOWN = ("trainer.precision", "trainer.momentum", "seed")


def division_text(**changed: Any) -> str:
    """A file of one rule, with parts of it changed."""
    return yaml.safe_dump({**DOCUMENT, **changed})


def of_rule(**changed: Any) -> str:
    """Return the division with changed parts of its rule. None removes a part."""
    rule = {name: value for name, value in {**RULE, **changed}.items() if value is not None}
    return division_text(rules=[rule])


def test_a_division_file_works_like_a_built_in_division(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(division_text())

    found = division(str(file), KNOWN)

    assert (found.name, found.rule("error").law) == ("ours", AtMost(0.1))


@pytest.mark.parametrize("name", [*BUILT_IN, DIVISION])
def test_a_file_cannot_take_the_name_of_a_built_in_division(tmp_path: Path, name: str) -> None:
    file = tmp_path / "ours.yaml"
    for spelt in (name, name.title(), name.upper(), f"{name} ", f" {name}\n", f"\u200b{name}"):
        file.write_text(division_text(division=spelt))

        with pytest.raises(BadDivision, match="another name"):
            division(str(file), KNOWN)


@pytest.mark.parametrize(
    "changed", [{"title": division("ranking").title}, {"title": "ａi\u200bPERF"}, {"division": "AIPerf"}]
)
def test_a_file_cannot_speak_for_aiperf(tmp_path: Path, changed: dict[str, str]) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(division_text(**changed))

    with pytest.raises(BadDivision, match="do not contain 'AIPerf'"):
        division(str(file), KNOWN)


REFUSED = {
    "no YAML": "rules: [",
    "twice": division_text() + "title: again\n",
    "no mapping": "- a\n",
    "unknown key": division_text(extra=1),
    "no rules": division_text(rules=None),
    "an empty list of rules": division_text(rules=[], judged={}),
    "unknown key of a rule": of_rule(hint="x"),
    "unknown source": of_rule(source=["hearsay"]),
    "no source": of_rule(source=[]),
    "no remedy": of_rule(remedy=""),
    "neither fact nor option": of_rule(fact=None),
    "fact and option": of_rule(option="seed"),
    "unknown fact": of_rule(fact="eror"),
    "unknown option": of_rule(fact=None, option="trainer.momentun"),
    "option of a bound": of_rule(law={"at_most": {"option": "trainer.momentun"}}),
    "option of a bound within others": of_rule(law={"all_of": [{"at_most": 1}, {"at_most": {"option": "x"}}]}),
    "a law that is none": of_rule(law={"below": 3}),
    "two laws": of_rule(law={"at_most": 3, "at_least": 1}),
    "a bound that is a text": of_rule(law={"at_most": "3"}),
    "a bound that is true": of_rule(law={"at_most": True}),
    "a text for a number": of_rule(law={"equals": "low"}),
    "a truth for a number": of_rule(law={"equals": True}),
    "a bound for texts": of_rule(fact="precisions", law={"at_most": 3}),
    "empty for a number": of_rule(law={"empty": True}),
    "an entry that images have not": of_rule(fact="images", law={"has": {"pixels": 3}}),
    "one id twice": division_text(rules=[RULE, RULE]),
    "judged by nobody": division_text(judged={"trainer.precision": "eror"}),
    "an option in two tables": division_text(free={"trainer.precision": "any"}),
    "a free option that there is not": division_text(free={"sed": "any"}),
    "code": "!!python/object/apply:os.getcwd []\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_ignored_content_is_rejected_with_the_file_name(text: str) -> None:
    with pytest.raises(BadDivision, match=r"ours\.yaml"):
        parsed(text, "ours.yaml", KNOWN)


def test_a_misspelled_name_gets_the_right_one_as_suggestion() -> None:
    with pytest.raises(BadDivision, match="did you mean 'error'"):
        parsed(REFUSED["unknown fact"], "ours.yaml", KNOWN)
    with pytest.raises(BadDivision, match="did you mean 'ranking'"):
        division("rankings")


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_division_without_one_line_is_rejected_or_another(
    name: str,
) -> None:
    """No line is there that nothing looks at."""
    text = files("aiperf.ranking").joinpath("divisions", f"{name}.yaml").read_text("utf-8")
    whole, lines = parsed(text, name), text.splitlines(keepends=True)

    unseen = [
        line for at, line in enumerate(lines) if line.strip() and not line.strip().startswith("#")
        and _same("".join([*lines[:at], *lines[at + 1 :]]), whole)
    ]  # fmt: skip

    assert unseen == []


def _same(text: str, whole: object) -> bool:
    try:
        return parsed(text, "cut") == whole
    except BadDivision:
        return False


numbers = st.integers(-5, 5) | st.floats(-5, 5)


@given(numbers, numbers)
def test_bounds_are_those_of_the_numbers_themselves(bound: float, found: float) -> None:
    assert AtMost(bound).holds(found, {}) == (found <= bound)
    assert AtLeast(bound).holds(found, {}) == (found >= bound)
    assert AllOf((AtMost(bound), AtLeast(bound))).holds(found, {}) == (found == bound)
    assert Equals(bound).holds(found, {}) == (found == bound)


@pytest.mark.parametrize("found", [None, "3", True, [3], float("nan")], ids=str)
def test_what_is_no_number_is_within_no_bound(found: Any) -> None:
    assert not AtMost(9).holds(found, {}) and not AtLeast(-9).holds(found, {})


def test_booleans_and_numbers_differ_in_lists_too() -> None:
    assert not Equals(True).holds(1, {}) and not Equals(0).holds(False, {})
    assert not Equals([1, 2]).holds([True, 2], {}) and Equals([1, 2]).holds([1.0, 2], {})
    assert not Has((("classes", 1),)).holds({"classes": True}, {})


def test_of_several_values_each_is_one_of_the_law() -> None:
    law = OneOf(("bf16", "fp16"))

    assert law.holds(frozenset({"bf16"}), {}) and law.holds("fp16", {})
    assert not law.holds(frozenset({"bf16", "fp8"}), {})


def test_each_fact_kind_has_a_fitting_and_an_unfitting_law() -> None:
    laws = [law_of(mapping) for mapping in ({"equals": True}, {"at_most": 1}, {"one_of": ["a"]}, {"has": {"name": 1}})]

    for fact in FACTS.values():
        fitting = {law for law in laws if fits(law, fact.kind) is None}
        assert fitting and fitting != set(laws)


@pytest.mark.parametrize(
    "mapping", [None, {}, "equals", {"equals": {"a": 1}}, {"one_of": []}, {"all_of": [{"equals": 1}]}]
)
def test_what_is_no_law_is_refused(mapping: Any) -> None:
    with pytest.raises(NoLaw):
        law_of(mapping)
