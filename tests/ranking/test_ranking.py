"""The rules of the divisions, each with a run that breaks it and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from aiperf.config import RunConf, configure
from aiperf.data.description import IMAGENET_MEAN, IMAGENET_STD, DataSet
from aiperf.journal.events import WorkerShape
from aiperf.journal.options import flat_options
from aiperf.planning.plan import first_event, make_plan
from aiperf.ranking.breaches import REAL_MACHINE, breaches, judgements
from aiperf.ranking.candidate import FACTS, NO_END, Candidate
from aiperf.ranking.division import BUILT_IN, Rule, division
from aiperf.ranking.law import AtLeast, AtMost, Equals
from aiperf.rules.followed import packaged
from searchers.propose import RULES

SHAPE = WorkerShape(
    source="a test", device="NVIDIA A100-SXM4-80GB", accelerators=8, ranks=8, cores=64, memory_bytes=80 << 30
)
WORDS: dict[str, tuple[str, ...]] = {
    "ranking": ("schedule=ranking", "dataset=imagenet", "system.site=Lab", "system.name=Alpha"),
    "quick": (),
    "reference": ("follow=reference",),
}
"""Command words that begin a run of each division."""


def recorded(conf: RunConf) -> dict[str, Any]:
    """The configuration as a run of it writes it into its first line."""
    images = DataSet("imagenet", 1_281_167, 50_000, 1000, 224, 3, IMAGENET_MEAN, IMAGENET_STD)
    return first_event(make_plan(conf, SHAPE, images if conf.dataset.name == "imagenet" else None), "test", 0.0).config


IMAGES: dict[str, dict[str, Any]] = {
    "ranking": {
        "name": "imagenet",
        "training_images": 1_281_167,
        "validation_images": 50_000,
        "classes": 1000,
        "image": 224,
        "channels": 3,
        "noise": 0.0,
    },
    "quick": {
        "name": "digits",
        "training_images": 1437,
        "validation_images": 360,
        "classes": 10,
        "image": 8,
        "channels": 1,
        "noise": 0.3,
    },
}
"""Written out here: taken from the law, they would follow it wherever it went."""
ANNOUNCEMENT = "0000002a" + 56 * "f"
"""Seed 1775509038 follows from it."""
CONFIG = {name: recorded(configure(words)) for name, words in WORDS.items()}
RANKED = Candidate(
    is_simulated=False,
    config=CONFIG["ranking"],
    images=IMAGES["ranking"],
    start_network="resnet50_v1",
    searchers=frozenset({"morphism"}),
    is_tuned=True,
    duration_seconds=43_200.0,
    warmup_seconds=3600.0,
    window_seconds=39_600.0,
    rolled_back_lines=0,
    resumes=0,
    workers_lost=0,
    end=43_200.0,
    end_reason="duration",
    precisions=frozenset({"bf16"}),
    devices=frozenset({"NVIDIA A100-SXM4-80GB"}),
    error=0.25,
    largest_mfu=0.4,
    nodes_checked=64,
    nodes_excluded=6,
    beside_master=frozenset(),
    space_differences=frozenset(),
    proposal_rules=RULES,
    seed=1775509038,
    announcement=ANNOUNCEMENT,
    nonce="nonce",
    contents="shown",
    attempts=2000,
    attempts_lost=60,
    trials_settled=1000,
    trials_given_up=50,
    proposals_requested=475,
    proposals_ended=9,
    worker_class="node",
    sequence=None,
    changed_trials=0,
    ended_early=100,
)
QUICK = replace(
    RANKED,
    config=CONFIG["quick"],
    images=IMAGES["quick"],
    start_network="digits_small",
    duration_seconds=180.0,
    warmup_seconds=20.0,
    window_seconds=160.0,
    end=180.0,
    largest_mfu=None,
    beside_master=frozenset({"desk"}),
)
REFERENCE = replace(
    QUICK,
    config=CONFIG["reference"],
    images={},
    start_network="resnet20",
    searchers=frozenset({"follow"}),
    duration_seconds=600.0,
    warmup_seconds=60.0,
    window_seconds=540.0,
    end=600.0,
    error=0.9,
    sequence=packaged("reference").sha256,
    ended_early=0,
)
VALID = {"ranking": RANKED, "quick": QUICK, "reference": REFERENCE}
ON_OPTIONS = [(name, rule) for name in BUILT_IN for rule in division(name).rules if rule.option is not None]
ON_FACTS = [(name, rule) for name in BUILT_IN for rule in division(name).rules if rule.fact is not None]


def named(value: object) -> str:
    """Return a text that is equal in every process, so that parallel processes collect the same tests."""
    match value:
        case Rule():
            return value.id
        case dict():
            return ", ".join(f"{name} {named(one)}" for name, one in value.items())
        case frozenset():
            return "+".join(sorted(map(str, value))) or "none"
        case _:
            return str(value)[:60]


def without(plain: Mapping[str, Any], option: str) -> dict[str, Any]:
    """Return the configuration without one of its options."""
    name, _, rest = option.partition(".")
    left = {key: value for key, value in plain.items() if key != name}
    return left | {name: without(plain[name], rest)} if rest else left


def having(plain: Mapping[str, Any], option: str, value: Any) -> dict[str, Any]:
    """A configuration with another value of one option."""
    name, _, rest = option.partition(".")
    return {**plain, name: having(plain[name], rest, value) if rest else value}


def another(rule: Rule) -> Any:
    """Return the nearest value that breaks the law."""
    match rule.law:
        case AtMost(bound):
            return bound + 1
        case AtLeast(bound):
            return bound - 1
        case Equals(bool() as value):
            return not value
        case Equals(int() | float() as value):
            return value * 1.001 or 0.001 if isinstance(value, float) else value + 1
        case Equals(list() as value):
            return [*value[:-1], value[-1] + 1]
        case Equals(value):
            return 64 if value is None else f"{value}-2"
        case law:
            raise AssertionError(f"no option has a law like {law}")


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_defaults_of_a_divisions_schedule_break_none(name: str) -> None:
    assert breaches(VALID[name], division(name)) == ()


CHANGES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "ranking": [
        ("real-machine", {"is_simulated": True}),
        *(("data-set", {"images": {**IMAGES["ranking"], name: 7}}) for name in IMAGES["ranking"]),
        ("data-set", {"images": {}}),
        ("start", {"start_network": "another"}),
        ("start", {"start_network": "resnet50_v1_5"}),
        ("start", {"start_network": None}),
        ("search", {"searchers": frozenset({"random", "morphism"})}),
        ("tuning", {"is_tuned": False}),
        ("inheritance", {"config": having(CONFIG["ranking"], "trainer.inherit", False)}),
        ("contents", {"contents": None}),
        ("contents", {"contents": "changed"}),
        ("warmup", {"warmup_seconds": 3599.0}),
        ("warmup", {"warmup_seconds": 39_600.0}),
        ("length-class", {"duration_seconds": 43_201.0}),
        ("length-class", {"duration_seconds": 172_800.0}),
        ("workers", {"worker_class": "another"}),
        ("window", {"window_seconds": 40.0}),
        ("rules", {"proposal_rules": RULES - 1}),
        ("announced", {"announcement": None}),
        ("announced", {"seed": 43}),
        ("announced", {"seed": 42, "nonce": None}),
        ("named", {"config": having(CONFIG["ranking"], "system.name", None)}),
        ("named", {"config": having(CONFIG["ranking"], "system.site", " ")}),
        ("proposals", {"proposals_ended": 10}),
        ("proposals", {"proposals_requested": 100, "proposals_ended": 4}),
        ("ended-early", {"ended_early": 101}),
        ("space", {"space_differences": frozenset({"space.largest_batch_size is 9, and 8 follows"})}),
        ("space", {"space_differences": None}),
        ("length", {"end_reason": "interrupted"}),
        ("length", {"end_reason": NO_END}),
        ("rollback", {"rolled_back_lines": 7}),
        ("precision", {"precisions": frozenset({"fp8", "bf16"})}),
        ("precision", {"precisions": frozenset()}),
        ("error", {"error": 0.31}),
        ("error", {"error": None}),
        ("error", {"error": float("nan")}),
        ("peak", {"largest_mfu": 1.01}),
        ("peak", {"largest_mfu": None}),
        ("master", {"beside_master": frozenset({"n0"})}),
        ("master", {"beside_master": None}),
        ("excluded", {"nodes_excluded": 7}),
        ("excluded", {"nodes_excluded": None}),
    ],
    "quick": [
        ("real-machine", {"is_simulated": True}),
        *(("data-set", {"images": {**IMAGES["quick"], name: 7}}) for name in IMAGES["quick"]),
        ("start", {"start_network": "resnet20"}),
        ("search", {"searchers": frozenset({"random"})}),
        ("tuning", {"is_tuned": False}),
        ("inheritance", {"config": having(CONFIG["quick"], "trainer.inherit", False)}),
        ("duration", {"duration_seconds": 179.0}),
        ("warmup", {"warmup_seconds": 21.0}),
        ("space", {"space_differences": frozenset({"space.largest_batch_size is 9, and 8 follows"})}),
        ("length", {"end_reason": "interrupted"}),
        ("undisturbed", {"workers_lost": 1}),
        ("one-go", {"resumes": 1}),
        ("precision", {"precisions": frozenset({"fp8"})}),
        ("error", {"error": 0.31}),
        ("proposals", {"proposals_ended": 10}),
        ("proposals", {"proposals_requested": 100, "proposals_ended": 4}),
        ("ended-early", {"ended_early": 101}),
    ],
    "reference": [
        ("real-machine", {"is_simulated": True}),
        ("sequence", {"sequence": "another"}),
        ("sequence", {"sequence": None}),
        ("trials", {"changed_trials": 1}),
        ("duration", {"duration_seconds": 599.0}),
        ("warmup", {"warmup_seconds": 61.0}),
        ("rules", {"proposal_rules": RULES - 1}),
        ("length", {"end_reason": "interrupted"}),
        ("undisturbed", {"workers_lost": 1}),
        ("one-go", {"resumes": 1}),
        ("precision", {"precisions": frozenset({"fp8"})}),
        ("ended-early", {"ended_early": 1}),
    ],
}
"""Each breaks one rule and no other."""
BREAKING = [(name, id, change) for name, changes in CHANGES.items() for id, change in changes]


@pytest.mark.parametrize(("name", "id", "change"), BREAKING, ids=named)
def test_each_rule_is_broken_alone_with_value_and_remedy(name: str, id: str, change: dict[str, Any]) -> None:
    (found,) = breaches(replace(VALID[name], **change), division(name))

    assert found.id == id
    assert found.rule and found.found and found.remedy and found.source


def test_every_rule_on_a_fact_is_broken_by_a_run_above() -> None:
    assert {(name, rule.id) for name, rule in ON_FACTS} == {(name, id) for name, id, _ in BREAKING}


def test_every_fact_is_a_value_of_a_candidate_and_has_a_text() -> None:
    properties = {name for name, value in vars(Candidate).items() if isinstance(value, property)}
    there = {field.name for field in fields(Candidate)} | properties

    assert there >= FACTS.keys()
    assert all(fact.found(RANKED) for name, fact in FACTS.items() if name not in ("beside_master", "space_differences"))


def test_a_run_from_before_the_option_inherited() -> None:
    assert breaches(replace(RANKED, config=without(CONFIG["ranking"], "trainer.inherit"))) == ()


def test_three_ended_proposals_are_no_choice() -> None:
    assert breaches(replace(RANKED, proposals_requested=10, proposals_ended=3)) == ()


def test_excluded_nodes_are_judged_by_the_runs_own_limit() -> None:
    strict = replace(RANKED, nodes_excluded=5, config=having(CONFIG["ranking"], "preflight.most_excluded", 0.05))

    assert [each.id for each in breaches(strict)] == ["excluded"]
    assert breaches(replace(strict, nodes_excluded=3)) == ()


@pytest.mark.parametrize(("name", "rule"), ON_OPTIONS, ids=named)
def test_each_option_is_broken_alone_by_the_nearest_value(name: str, rule: Rule) -> None:
    assert rule.option is not None
    changed = replace(VALID[name], config=having(CONFIG[name], rule.option, another(rule)))

    (found,) = breaches(changed, division(name))

    assert (found.id, found.option, found.is_unknown, found.line) == (rule.id, rule.option, False, 1)
    assert found.found.startswith(f"{rule.option}=")


@pytest.mark.parametrize(("name", "rule"), ON_OPTIONS, ids=named)
def test_a_missing_option_is_unknown_and_no_pass(name: str, rule: Rule) -> None:
    assert rule.option is not None

    (found,) = breaches(replace(VALID[name], config=without(CONFIG[name], rule.option)), division(name))

    assert found.option == rule.option and found.is_unknown


def test_right_names_with_wrong_values_break_each_rule() -> None:
    """The run that an audit found to break none."""
    conf = configure(
        [
            *WORDS["ranking"],
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


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_option_is_required_judged_or_free_exactly_once(
    name: str,
) -> None:
    held_to = division(name)

    parts = {word for word in (*held_to.free, *held_to.judged) if word not in flat_options(CONFIG[name])}
    there = {
        option.partition(".")[0] if option.partition(".")[0] in parts else option
        for option in flat_options(CONFIG[name])
    }

    assert sorted(held_to.options()) == sorted(there)
    searched = {"searcher", "hpo", "budget", "batch", "space"} if name == "reference" else set()
    assert parts == {"storage", "system", *searched}
    assert all(held_to.free.values())


@pytest.mark.parametrize("name", BUILT_IN)
def test_remedies_are_options_of_a_run_that_keeps_the_rules(name: str) -> None:
    remedies = {rule.option: rule.remedy for rule in division(name).rules if rule.option is not None}
    left_out = {option for option, remedy in remedies.items() if remedy == f"leave {option} out"}
    words = {remedy for option, remedy in remedies.items() if option not in left_out}

    config = recorded(configure([*WORDS[name], *sorted(words)]))

    assert breaches(replace(VALID[name], config=config), division(name)) == ()
    assert all(flat_options(CONFIG[name])[option] is None for option in left_out)
    assert {word.partition("=")[0] for word in words} == remedies.keys() - left_out - {"space.tuning_from_round"}


@pytest.mark.parametrize(
    ("part", "chosen", "outcome"),
    [("searcher", "random", {"searchers": frozenset({"random"})}), ("hpo", "off", {"is_tuned": False})],
)
@pytest.mark.parametrize("name", ["ranking", "quick"])
def test_another_choice_is_a_single_breach(name: str, part: str, chosen: str, outcome: dict[str, Any]) -> None:
    assert part in division(name).chosen
    config = recorded(configure([*WORDS[name], f"{part}={chosen}"]))

    (found,) = breaches(replace(VALID[name], config=config, **outcome), division(name))

    assert not found.is_unknown and found.option is None


@pytest.mark.parametrize("change", [{"largest_mfu": None}, {"precisions": frozenset()}, {"images": {}}], ids=str)
def test_an_undecidable_rule_is_unknown_and_no_pass(change: dict[str, Any]) -> None:
    (found,) = breaches(replace(RANKED, **change))

    assert found.is_unknown
    assert found.found.startswith("unknown: ")


def test_a_peak_that_is_unknown_names_what_it_is_missing_for() -> None:
    (found,) = breaches(replace(RANKED, largest_mfu=None, devices=frozenset({"Tesla T4", "Abacus 9"})))

    assert "device Abacus 9, Tesla T4, precision bf16" in found.found
    assert "peaks.json" in found.remedy


@pytest.mark.parametrize(("hashed", "words"), [({}, "no hash"), ({"contents": "f" * 64}, "not all copies")])
def test_contents_that_are_not_shown_are_unknown_and_no_pass(hashed: dict[str, str], words: str) -> None:
    (found,) = breaches(replace(RANKED, contents=None, images={**IMAGES["ranking"], **hashed}))

    assert found.is_unknown and words in found.found


def test_a_seed_that_does_not_follow_is_named_with_the_right_one() -> None:
    (found,) = breaches(replace(RANKED, seed=7))

    assert found.found == "seed 7. Seed 1775509038 follows from the announcement"


def test_all_breaches_are_listed_at_once() -> None:
    config = having(CONFIG["ranking"], "batch.default", 1)

    assert len(breaches(replace(RANKED, images={}, error=None, end_reason="interrupted", config=config))) == 4


def test_a_breach_names_the_first_line_of_a_bad_value() -> None:
    lines = {("precisions", "bf16"): 9, ("precisions", "fp8"): 40, ("precisions", "int8"): 31}
    run = replace(RANKED, precisions=frozenset({"bf16", "fp8", "int8"}), lines=lines)

    assert [each.line for each in breaches(run)] == [31]


def test_a_simulated_run_is_held_to_nothing_that_was_invented() -> None:
    invented = replace(
        RANKED,
        is_simulated=True,
        precisions=frozenset({"simulated"}),
        error=0.9,
        largest_mfu=7.0,
        end_reason=NO_END,
        end=9.0,
        window_seconds=5.0,
        beside_master=None,
    )

    assert [each.id for each in breaches(invented)] == [REAL_MACHINE]
    outcomes = {each.rule.id: each.outcome for each in judgements(invented, division("ranking"))}
    assert outcomes["error"] == outcomes["peak"] == outcomes["length"] == "not looked at"


def test_a_simulated_run_is_also_judged_as_a_real_run() -> None:
    changed = replace(RANKED, searchers=frozenset({"random"}), warmup_seconds=60.0, duration_seconds=120.0, end=120.0)
    changed = replace(
        changed, announcement=None, window_seconds=60.0, config=having(CONFIG["ranking"], "schedule.patience", 1)
    )

    assert len(breaches(changed)) == 6
    (first, *others) = breaches(replace(changed, is_simulated=True))
    assert first.id == REAL_MACHINE
    assert tuple(others) == breaches(changed)
