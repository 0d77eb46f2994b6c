"""The rules of a ranked run, each with a run that breaks it and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aiperf.ranking.breaches as module
from aiperf.config import RunConf, configure
from aiperf.data.description import IMAGENET_MEAN, IMAGENET_STD, DataSet
from aiperf.journal.events import WorkerShape
from aiperf.planning.plan import first_event, make_plan
from aiperf.ranking.breaches import IMAGES, SIMULATED, Candidate, breaches
from aiperf.ranking.required import CHOSEN, FREE, JUDGED, REQUIRED, AtMost, Equals, Required, options
from tools.ranking_doc import inserted

RANKING = ("schedule=ranking", "dataset=imagenet")
SHAPE = WorkerShape(
    source="a test", device="NVIDIA A100-SXM4-80GB", accelerators=8, ranks=8, cores=64, memory_bytes=80 << 30
)


def recorded(conf: RunConf) -> dict[str, Any]:
    """The configuration as a run of it writes it into its first line."""
    images = DataSet("imagenet", 1_281_167, 50_000, 1000, 224, 3, IMAGENET_MEAN, IMAGENET_STD)
    return first_event(make_plan(conf, SHAPE, images), "test", 0.0).config


CONFIG = recorded(configure(RANKING))
RANKED = Candidate(
    is_simulated=False,
    config=CONFIG,
    images=IMAGES,
    start_fingerprint="r50",
    ranked_fingerprint="r50",
    searchers=frozenset({"morphism"}),
    is_tuned=True,
    duration_seconds=43_200.0,
    warmup_seconds=3600.0,
    window_seconds=39_600.0,
    rolled_back_lines=0,
    end=43_200.0,
    end_reason="duration",
    precisions=frozenset({"bf16"}),
    devices=frozenset({"NVIDIA A100-SXM4-80GB"}),
    error=0.25,
    largest_mfu=0.4,
    nodes_checked=64,
    nodes_excluded=6,
    beside_master=(),
)


def without(plain: Mapping[str, Any], option: str) -> dict[str, Any]:
    """A configuration that does not say one of its options."""
    name, _, rest = option.partition(".")
    left = {key: value for key, value in plain.items() if key != name}
    return left | {name: without(plain[name], rest)} if rest else left


def having(plain: Mapping[str, Any], option: str, value: Any) -> dict[str, Any]:
    """A configuration with another value of one option."""
    name, _, rest = option.partition(".")
    return {**plain, name: having(plain[name], rest, value) if rest else value}


def another(required: Required) -> Any:
    """A value that lies as near to the law as can be, and outside."""
    match required.law:
        case AtMost(bound):
            return bound + 1
        case Equals(bool() as value):
            return not value
        case Equals(int() | float() as value):
            return value * 1.001 if isinstance(value, float) else value + 1
        case Equals(list() as value):
            return [*value[:-1], value[-1] + 1]
        case Equals(value):
            return 64 if value is None else f"{value}-2"


def test_the_defaults_of_the_ranking_schedule_break_none() -> None:
    assert breaches(RANKED) == ()


CHANGES: list[dict[str, Any]] = [
    {"is_simulated": True},
    *({"images": {**IMAGES, name: 10}} for name in IMAGES),
    {"start_fingerprint": "other"},
    {"start_fingerprint": None},
    {"searchers": frozenset({"random"})},
    {"is_tuned": False},
    {"warmup_seconds": 3599.0},
    {"duration_seconds": 7000.0, "end": 7000.0, "window_seconds": 3400.0},
    {"duration_seconds": 3640.0, "end": 9000.0, "window_seconds": 40.0},
    {"end_reason": "interrupted"},
    {"end_reason": None},
    {"precisions": frozenset({"fp8"})},
    {"error": 0.31},
    {"error": None},
    {"largest_mfu": 1.01},
    {"rolled_back_lines": 7},
    {"largest_mfu": None},
    {"precisions": frozenset()},
    {"nodes_excluded": 7},
    {"beside_master": ("n0",)},
    {"beside_master": None},
    {"images": {}},
]
"""Each breaks one rule and no other."""


@pytest.mark.parametrize(
    "change",
    CHANGES,
    ids=lambda change: str(change)[:60],
)
def test_each_rule_is_broken_alone_and_says_what_was_found_and_what_fixes_it(change: dict[str, Any]) -> None:
    found = breaches(replace(RANKED, **change))

    assert len(found) == 1
    assert found[0].rule and found[0].found and found[0].remedy


def test_every_rule_that_is_written_is_listed_and_broken_by_a_run_above() -> None:
    written = {each for each in vars(module).values() if returns(each) == "Breach | None"}

    assert written == {*module.OF_THE_CONFIGURATION, *module.OF_THE_RESULT}
    for rule in written:
        assert any(rule(replace(RANKED, **change)) for change in CHANGES), rule.__name__


def returns(each: Any) -> str | None:
    """What a function says that it gives."""
    return inspect.get_annotations(each).get("return") if inspect.isfunction(each) else None


@pytest.mark.parametrize("required", REQUIRED, ids=lambda required: required.option)
def test_each_option_of_the_table_is_broken_alone_by_the_nearest_other_value(required: Required) -> None:
    (found,) = breaches(replace(RANKED, config=having(CONFIG, required.option, another(required))))

    assert found.option == required.option and not found.is_unknown
    assert found.found.startswith(f"{required.option}=")


@pytest.mark.parametrize("required", REQUIRED, ids=lambda required: required.option)
def test_an_option_that_a_journal_does_not_say_is_unknown_and_no_pass(required: Required) -> None:
    (found,) = breaches(replace(RANKED, config=without(CONFIG, required.option)))

    assert found.option == required.option and found.is_unknown


def test_a_run_whose_every_name_is_right_and_whose_values_are_not_breaks_each_rule_on_them() -> None:
    """The run that an audit found to break none."""
    conf = configure(
        [
            *RANKING,
            "schedule.epochs=[1,1,1,1]",
            "schedule.warmup_rounds=0",
            "hpo.startup_trials=1000000",
            "searcher.candidates=1",
            "searcher.beta=0",
            "budget.factor=1.01",
            "batch.default=64",
            "batch.smallest=64",
            "batch.largest=64",
        ]
    )

    found = breaches(replace(RANKED, config=recorded(conf)))

    assert {each.option for each in found} == {
        "schedule.epochs",
        "schedule.warmup_rounds",
        "space.tuning_from_round",
        "hpo.startup_trials",
        "searcher.candidates",
        "searcher.beta",
        "budget.factor",
        "batch.default",
        "batch.smallest",
        "batch.largest",
    }


def test_every_option_of_a_run_is_required_or_judged_or_free_with_a_reason_and_in_one_of_these_alone() -> None:
    tables = [[each.option for each in REQUIRED], list(JUDGED), list(FREE)]

    listed = [option for table in tables for option in table]

    assert sorted(listed) == sorted(options(CONFIG))
    assert all(JUDGED.values()) and all(FREE.values())


@pytest.mark.parametrize(
    ("part", "chosen", "outcome"),
    [("searcher", "random", {"searchers": frozenset({"random"})}), ("hpo", "off", {"is_tuned": False})],
)
def test_another_choice_is_one_breach_and_not_one_for_each_option_that_it_does_not_have(
    part: str, chosen: str, outcome: dict[str, Any]
) -> None:
    assert part in CHOSEN
    config = recorded(configure([*RANKING, f"{part}={chosen}"]))

    (found,) = breaches(replace(RANKED, config=config, **outcome))

    assert not found.is_unknown and found.option is None


@pytest.mark.parametrize("change", [{"largest_mfu": None}, {"precisions": frozenset()}, {"images": {}}], ids=str)
def test_what_cannot_be_told_is_no_pass_and_is_called_unknown(change: dict[str, Any]) -> None:
    (found,) = breaches(replace(RANKED, **change))

    assert found.is_unknown
    assert found.found.startswith("unknown: ")


def test_a_peak_that_is_unknown_names_what_it_is_missing_for() -> None:
    (found,) = breaches(replace(RANKED, largest_mfu=None, devices=frozenset({"Tesla T4", "Abacus 9"})))

    assert "device Abacus 9, Tesla T4; precision bf16" in found.found
    assert "peaks.json" in found.remedy


def test_all_breaches_are_listed_at_once() -> None:
    config = having(CONFIG, "batch.default", 1)

    assert len(breaches(replace(RANKED, images={}, error=None, end_reason="interrupted", config=config))) == 4


def test_a_simulated_run_is_held_to_nothing_that_was_invented() -> None:
    invented = replace(
        RANKED,
        is_simulated=True,
        precisions=frozenset({"simulated"}),
        error=0.9,
        largest_mfu=7.0,
        end_reason=None,
        end=9.0,
        window_seconds=5.0,
        beside_master=None,
    )

    assert breaches(invented) == (SIMULATED,)


def test_a_simulated_run_is_told_what_a_real_run_of_its_configuration_would_break_as_well() -> None:
    changed = replace(RANKED, searchers=frozenset({"random"}), warmup_seconds=60.0, duration_seconds=120.0, end=120.0)
    changed = replace(changed, window_seconds=60.0, config=having(CONFIG, "schedule.patience", 1))

    assert len(breaches(changed)) == 4
    assert breaches(replace(changed, is_simulated=True)) == (SIMULATED, *breaches(changed))


def test_the_page_prints_the_tables_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs/benchmark.md").read_text()

    assert inserted(page) == page, "run: python -m tools.ranking_doc"
