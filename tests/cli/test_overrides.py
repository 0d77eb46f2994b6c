"""Refusal of words that name no option, and the choices of the classes and files."""

from __future__ import annotations

import pytest

from aiperf.config import GROUPS, RunConf, as_plain, choices, configure, from_plain, name_of_choice, schemas_of_parts
from aiperf.errors import BadConfiguration


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("+trainer.foo=2",), "there is no option 'trainer.foo'"),
        (("+cluster=simulated", "++cluster.wrkers=2"), "did you mean 'cluster.workers'?"),
        (("hydra.run.dir=elsewhere",), "there is no option 'hydra.run.dir'"),
        (("budget={factor: 3}",), "there is no option 'budget'"),
        (("~seed",), "an option cannot be removed: leave '~seed' out"),
        (("+seed=3",), "seed is written with no plus: write seed=3, not '+seed=3'"),
        (
            ("++cluster=simulated",),
            "cluster is written with one plus: write +cluster=simulated, not '++cluster=simulated'",
        ),
        (
            ("searcher.name=random",),
            "searcher.name is set by the choice: searcher is one of evolution, morphism, random",
        ),
        (("dataset.name=imagenet",), "dataset.name is set by the choice"),
        (("schedule=[1]",), "schedule is one of hour, quick, ranking"),
        (("dataset=null",), "dataset is one of cifar10, digits, imagenet, images, synthetic"),
        (("seed=1,2",), "an option has one value, but found 'seed=1,2'"),
        (("=1",), "there is no option ''"),
        (("seed='x",), "a value is written KEY=VALUE, or KEY="),
        (("seed=x",), "seed is a whole number, but found seed=x"),
        (("seed=null",), "seed is a whole number, but found seed=null"),
        (("trainer.ranks=1.5",), "trainer.ranks is a whole number or null, but found trainer.ranks=1.5"),
        (("trainer.precision=[1]",), "trainer.precision is one of auto, fp32, tf32, bf16, fp16, but found '[1]'"),
        (("schedule.epochs=[a]",), "schedule.epochs"),
        (("+cluster=simulated", "cluster.links=3"), "cluster.links is a list of records {width: …"),
        (
            ("+cluster=simulated", "cluster.links=[{wdth: 3}]"),
            "a record of cluster.links has no field 'wdth' (did you mean 'width'?)",
        ),
        (("name=${nothing}",), "name is part of a folder's name"),
        (("seed=${nothing}",), "seed is a whole number, but found seed=${nothing}"),
        (("searcher.parents=9", "searcher=random"), "searcher.parents goes with searcher=morphism"),
    ],
)
def test_a_word_that_fits_no_option_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        configure(words)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "words",
    [(), ("budget.factor=3",), ("+cluster=simulated", "cluster.links=[{width: 3}]")],
)
def test_the_journal_restores_the_configuration(words: tuple[str, ...]) -> None:
    conf = configure(words)

    assert from_plain(as_plain(conf)) == conf


@pytest.mark.parametrize("group", [group for group in GROUPS if name_of_choice(schemas_of_parts()[group][0])])
def test_choices_are_the_listed_classes_each_with_its_file(group: str) -> None:
    listed = [str(name_of_choice(schema)) for schema in schemas_of_parts()[group]]

    assert sorted(listed) == choices(group)
    plus = "+" if RunConf.__dataclass_fields__[group].default is None else ""
    built = {name: getattr(configure([f"{plus}{group}={name}"]), group) for name in listed}
    assert {name: name_of_choice(type(part)) for name, part in built.items()} == {name: name for name in listed}


@pytest.mark.parametrize("place", ["shared", "local:/scratch"])
def test_a_journal_with_a_removed_option_is_read(place: str) -> None:
    conf = configure(["dataset=synthetic"])
    plain = as_plain(conf)
    plain["storage"]["journal"] = place

    assert from_plain(plain) == conf


def test_a_journal_with_an_unknown_choice_is_refused() -> None:
    plain = as_plain(configure(["dataset=synthetic"]))
    plain["dataset"]["name"] = "flowers"

    with pytest.raises(BadConfiguration, match=r"dataset is one of digits, .*, but the journal holds 'flowers'"):
        from_plain(plain)


@pytest.mark.parametrize(
    ("words", "batch"),
    [((), 256), (("trainer.precision=fp32",), 128), (("trainer.precision=fp32", "batch.default=64"), 64)],
)
def test_the_batch_of_image_classification_follows_the_precision(words: tuple[str, ...], batch: int) -> None:
    assert configure(["benchmark=hpc_ai500_ic", *words]).batch.default == batch
