"""Layers and levels of the division hpc_ai500: nothing is without a layer, and a wider level permits more."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aiperf.config import as_plain, configure, option_names
from aiperf.ranking.breaches import options
from aiperf.ranking.division import LEVELLED, BadDivision, division, parsed
from aiperf.ranking.levels import described_difference, judgement, layer_difference, option_differences
from aiperf.system.describe import PACKAGES, HostDescription
from tests.ranking.test_division import DOCUMENT, KNOWN, RULE, division_text

BY = division(LEVELLED[0])
PRESET = options(as_plain(configure(["benchmark=hpc_ai500_ic"])))
LEVELS = tuple(BY.levels)
OF_ONE_HOST = {"host", "boot_id", "scheduler", "accelerators", "versions"}
"""Parts of a description that are not compared, or have their own kind."""


def is_named(option: str) -> bool:
    return any(option == each or option.startswith(f"{each}.") for each in BY.options())


def test_every_option_has_a_layer_or_a_reason_for_none() -> None:
    parts = {option.partition(".")[0] for option in option_names() if "." in option}

    assert [option for option in (*option_names(), *PRESET) if option not in parts and not is_named(option)] == []
    assert all(rule.layer in BY.layers for rule in BY.rules)
    assert all(BY.free.values())


def test_no_rule_names_an_option_that_does_not_exist() -> None:
    known = {*option_names(), "space"}
    known |= {option.partition(".")[0] for option in known}

    assert [option for option in BY.options() if option not in known] == []


def test_every_part_of_a_description_has_a_layer() -> None:
    names = {*HostDescription.__struct_fields__} - OF_ONE_HOST
    names |= {
        *PACKAGES,
        "hosts",
        "accelerators",
        "device",
        "device_memory_bytes",
        "collective",
        "source",
        "source commit",
    }

    assert names <= set(BY.described)
    assert set(BY.described) - names == {"build"}


def test_layers_are_those_of_figure_2() -> None:
    assert list(BY.layers) == list(range(1, 10))
    assert LEVELS == ("hardware", "system", "free")
    assert [sorted(each for each in opened if isinstance(each, int)) for opened in BY.levels.values()] == [
        [1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7, 8]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "open_at"),
    [
        ("trainer.ranks=4", LEVELS),
        ("trainer.learning_rate=0.1", LEVELS),
        ("trainer.precision=fp32", LEVELS),
        ("trainer.fp16_compression=true", LEVELS),
        ("batch.default=128", LEVELS),
        ("+cluster=slurm", LEVELS),
        ("executor=inline", ("free",)),
        ("trainer.weight_decay=0", ("free",)),
        ("searcher=random", ("free",)),
        ("dataset.augment=false", ()),
        ("schedule.patience=3", ()),
        ("benchmark.target_quality=0.5", ()),
    ],
)
def test_a_changed_option_is_open_at_the_levels_of_the_paper(words: str, open_at: tuple[str, ...]) -> None:
    changed = options(as_plain(configure(["benchmark=hpc_ai500_ic", words])))

    found = list(option_differences(changed, PRESET, BY))

    assert {each.open_at for each in found} == {open_at}


@pytest.mark.parametrize(
    "word", ["seed=3", "name=other", "limits.attempts=9", "trainer.threads=2", "benchmark.exponent=10"]
)
def test_a_repeat_may_change_what_has_no_layer(word: str) -> None:
    changed = options(as_plain(configure(["benchmark=hpc_ai500_ic", word])))

    assert list(option_differences(changed, PRESET, BY)) == []


@given(st.lists(st.sampled_from([*BY.layers, 0]), max_size=5))
def test_a_wider_level_permits_more(layers: list[int]) -> None:
    """Layer 0 is unknown."""
    differences = [layer_difference("x", layer or None, "a", "b", BY) for layer in layers]
    differences += option_differences(PRESET | {"trainer.rate": "linear"}, PRESET, BY)

    judged = judgement(BY, "preset", differences, is_preset=True)

    assert judged.satisfied == LEVELS[len(LEVELS) - len(judged.satisfied) :]
    assert (judged.strictest is None) == any(layer in (0, 9) for layer in layers)


def test_an_option_that_no_release_knows_is_open_at_no_level() -> None:
    (found,) = option_differences(PRESET | {"trainer.novelty": 1}, PRESET, BY)

    assert (found.layer, found.open_at, found.reference) == (None, (), "—")


@pytest.mark.parametrize(
    ("name", "layer"),
    [("limits.memory_bytes", 2), ("torch", 5), ("build.torch", 4), ("network.ib0.bits_per_second", 1)],
)
def test_a_description_has_the_layer_of_its_beginning(name: str, layer: int) -> None:
    found = described_difference(name, "a", "b", BY)

    assert found is not None and found.layer == layer
    assert described_difference("ray", "1", "2", BY) is None
    unknown: Any = described_difference("abacus", "1", "2", BY)
    assert unknown.layer is None and unknown.open_at == ()


OPTION = {**RULE, "fact": None, "option": "trainer.momentum", "law": {"as_reference": True}, "layer": 1}
LAYERED = {"layers": {1: "one"}, "levels": {"all": [1]}, "rules": [OPTION], "judged": {}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": {}}, "as_reference needs levels"),
        ({"rules": [{**OPTION, "layer": 2}]}, "each rule and description has one of the layers"),
        ({"rules": [{**OPTION, "layer": None}]}, "each rule and description has one of the layers"),
        ({"described": {"os": 7}}, "each rule and description has one of the layers"),
        ({"levels": {"all": ["err"]}}, "a level opens layers and rules"),
        ({"rules": [{**RULE, "law": {"as_reference": True}, "layer": 1}]}, "it is about an option"),
        ({"rules": [{**OPTION, "law": {"all_of": [{"as_reference": True}, {"at_most": 1}]}}]}, "all_of takes"),
    ],
)
def test_a_division_with_wrong_layers_is_refused(changes: dict[str, Any], message: str) -> None:
    assert parsed(division_text(**LAYERED), "ours.yaml", KNOWN).levels == {"all": (1,)}

    with pytest.raises(BadDivision, match=message):
        parsed(yaml.safe_dump({**DOCUMENT, **LAYERED, **changes}), "ours.yaml", KNOWN)
