"""Limits of the numbers of verbs: shown in help, checked before the verb begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.cli.arguments import VERBS, allowed_signers, parser_of
from aiperf.errors import BadConfiguration
from aiperf.files import given_path
from aiperf.option_limits import WIDEST
from aiperf.verify.verification import DEFAULT

WRONG = ("nan", "inf", "-inf", "1e400", "many", "", str(WIDEST**2), "-1", "1:2")
"""Numbers that no verb accepts."""


NUMBERS = [
    (verb, action.option_strings[0])
    for verb in VERBS
    for action in parser_of(verb)._actions
    if action.type not in (None, Path, given_path, allowed_signers) and action.choices is None
]


def test_every_number_has_limits() -> None:
    assert ("morph", "--factor") in NUMBERS and ("join", "--patience") in NUMBERS
    assert [verb for verb in VERBS for action in parser_of(verb)._actions if action.type in (int, float)] == []


@pytest.mark.parametrize(("verb", "option"), NUMBERS)
def test_a_number_out_of_range_is_refused_as_help_shows(verb: str, option: str) -> None:
    (action,) = [each for each in parser_of(verb)._actions if option in each.option_strings]
    for word in WRONG:
        with pytest.raises(BadConfiguration) as refused:
            parser_of(verb).parse_known_args([f"{option}={word}", "a", "b"])
        assert str(refused.value).startswith(f"{option} is a ")
        assert str(refused.value).endswith(f", but found {word!r}: give such a value, or leave it out")
        condition = str(refused.value).partition(" and is ")[2].partition(", but found")[0]
        assert action.help is not None and condition in action.help


def test_the_help_of_verify_names_the_sample_that_it_takes() -> None:
    (action,) = [each for each in parser_of("verify")._actions if each.dest == "sample"]

    assert action.help is not None and f"default {DEFAULT}" in action.help
