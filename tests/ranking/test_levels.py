"""Layers and levels of HPC AI500: nothing is without a layer, and a wider level permits more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.config import as_plain, configure, option_names
from aiperf.journal.options import OF_ONE_RUN, flat_options
from aiperf.ranking.law import written
from aiperf.ranking.levels import layer_differences, layer_of, levels_of, rules
from aiperf.system.describe import PACKAGES, HostDescription

PRESET = {name: written(value) for name, value in flat_options(as_plain(configure(["benchmark=hpc_ai500_ic"]))).items()}
LEVELS = tuple(rules().levels)
OF_ONE_HOST = {"host", "boot_id", "scheduler", "versions"}
"""Parts of a description that are not compared, or have their own kind."""
OTHER_NAMES = {"hosts", "device", "device_memory_bytes", "collective", "source", "build of", "data set's", "simulated"}
"""Further names by which two runs are compared."""


def test_options_of_one_run_may_differ_at_every_level() -> None:
    assert rules().free.keys() >= OF_ONE_RUN


def named_options() -> list[str]:
    """Return every option, or part of the configuration, that the rules name."""
    of_rules = [option for rule in rules().rules.values() for option in rule.as_reference]
    return [*of_rules, *rules().free]


def is_named(option: str) -> bool:
    return any(option == each or option.startswith(f"{each}.") for each in named_options())


def test_every_option_has_a_layer_or_a_reason_for_none() -> None:
    parts = {option.partition(".")[0] for option in option_names() if "." in option}

    assert [option for option in (*option_names(), *PRESET) if option not in parts and not is_named(option)] == []
    assert all(rules().free.values())
    assert len(named_options()) == len(set(named_options()))


def test_every_layer_and_rule_that_is_named_exists() -> None:
    used = [*(rule.layer for rule in rules().rules.values()), *rules().described.values()]
    opened = [each for level in rules().levels.values() for each in level]

    assert set(used) <= set(rules().layers)
    assert set(opened) <= {*rules().layers, *rules().rules}


def test_no_rule_names_an_option_that_does_not_exist() -> None:
    known = {*option_names(), "space", "proposal rules", "declared length", "warm-up", "source commit", *PACKAGES}
    known |= {option.partition(".")[0] for option in known}

    assert [option for option in named_options() if option not in known] == []


def test_every_part_of_a_description_has_a_layer() -> None:
    names = {*HostDescription.__struct_fields__, *PACKAGES, *OTHER_NAMES} - OF_ONE_HOST

    assert names - set(rules().free) == set(rules().described)


def test_layers_are_those_of_figure_2() -> None:
    assert list(rules().layers) == list(range(1, 10))
    assert LEVELS == ("hardware", "system", "free")
    assert [sorted(each for each in opened if isinstance(each, int)) for opened in rules().levels.values()] == [
        [1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7, 8]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "open_at"),
    [
        ("trainer.ranks", LEVELS),
        ("trainer.learning_rate", LEVELS),
        ("trainer.precision", LEVELS),
        ("trainer.fp16_compression", LEVELS),
        ("batch.default", LEVELS),
        ("cluster.nodes", LEVELS),
        ("limits.memory_bytes", LEVELS),
        ("build of torch", LEVELS),
        ("torch", ("system", "free")),
        ("source", ("system", "free")),
        ("executor", ("free",)),
        ("trainer.weight_decay", ("free",)),
        ("searcher.name", ("free",)),
        ("limits.trials", ("free",)),
        ("dataset.augment", ()),
        ("data set's fingerprint", ()),
        ("schedule.patience", ()),
        ("benchmark.target_quality", ()),
        ("trainer.novelty", ()),
    ],
)
def test_a_difference_is_open_at_the_levels_of_the_paper(option: str, open_at: tuple[str, ...]) -> None:
    """An option that no release knows is open at no level."""
    (found,) = layer_differences(PRESET | {option: "x"}, PRESET)

    assert (found.open_at, found.run) == (open_at, "x")
    assert (found.layer is None) == (option == "trainer.novelty")


@pytest.mark.parametrize(
    "name", ["seed", "name", "limits.attempts", "trainer.threads", "benchmark.exponent", "ray", "source commit"]
)
def test_a_repeat_may_change_what_has_no_layer(name: str) -> None:
    assert layer_differences(PRESET | {name: "x"}, PRESET) == ()


@given(st.lists(st.sampled_from([*rules().layers, 0]), max_size=5))
def test_a_wider_level_permits_more(layers: list[int]) -> None:
    """Layer 0 is unknown."""
    names = [*(rule.as_reference[0] for rule in rules().rules.values()), *rules().described]
    of_layer = {layer_of(name) or 0: name for name in (*names, "unheard of")}
    found = layer_differences({of_layer[layer]: "a" for layer in layers}, {})

    permitted = levels_of(found)

    assert permitted == LEVELS[len(LEVELS) - len(permitted) :]
    assert (not permitted) == any(layer in (0, 9) for layer in layers)
    assert [each.layer or 10 for each in found] == sorted(layer or 10 for layer in set(layers))
