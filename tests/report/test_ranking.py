"""The rules of a ranked run, each with a run that breaks it and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiperf.report.ranking import SIMULATED, Candidate, breaches

RANKED = Candidate(
    is_simulated=False,
    is_full_imagenet=True,
    dataset="imagenet",
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
)


def test_a_run_by_the_rules_breaks_none() -> None:
    assert breaches(RANKED) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"is_simulated": True},
        {"is_full_imagenet": False},
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
    ],
    ids=str,
)
def test_each_rule_is_broken_alone_and_says_what_was_found_and_what_mends_it(change: dict[str, Any]) -> None:
    found = breaches(replace(RANKED, **change))

    assert len(found) == 1
    assert found[0].rule and found[0].found and found[0].remedy


@pytest.mark.parametrize("change", [{"largest_mfu": None}, {"precisions": frozenset()}], ids=str)
def test_what_cannot_be_told_is_no_pass_and_is_called_unknown(change: dict[str, Any]) -> None:
    (found,) = breaches(replace(RANKED, **change))

    assert found.is_unknown
    assert found.found.startswith("unknown: ")


def test_a_peak_that_is_unknown_names_what_it_is_missing_for() -> None:
    (found,) = breaches(replace(RANKED, largest_mfu=None, devices=frozenset({"Tesla T4", "Abacus 9"})))

    assert "device Abacus 9, Tesla T4; precision bf16" in found.found
    assert "peaks.json" in found.remedy


def test_all_breaches_are_listed_at_once() -> None:
    assert len(breaches(replace(RANKED, is_full_imagenet=False, error=None, end_reason="interrupted"))) == 3


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
    )

    assert breaches(invented) == (SIMULATED,)


def test_a_simulated_run_is_told_what_a_real_run_of_its_configuration_would_break_as_well() -> None:
    changed = replace(RANKED, searchers=frozenset({"random"}), warmup_seconds=60.0, duration_seconds=120.0, end=120.0)
    changed = replace(changed, window_seconds=60.0)

    assert breaches(replace(changed, is_simulated=True)) == (SIMULATED, *breaches(changed))
