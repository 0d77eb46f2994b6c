"""Entries made by hand: the shortest way to a list in a stated condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiperf.journal.sealed_log import JournalHashes
from aiperf.leaderboard.benchmark import Benchmark, of_division
from aiperf.leaderboard.entry import Entry, ModelCount

RANKED = of_division("ranking")
QUICK = Benchmark("outside", None, "digits", (), "digits_small", "f" * 64, None, 180.0, 20.0, (("seed", "0"),))
FIXED = replace(QUICK, duration_seconds=None, warmup_seconds=None, options=(("benchmark.exponent", "5"),))
"""Runs of a fixed network to a target quality."""


def entry(run: str, score: float | None = 1e12, *, benchmark: Benchmark = RANKED, **others: Any) -> Entry:
    """Return the entry of a complete run of 64 accelerators with this score."""
    fields: dict[str, Any] = {
        "run": run,
        "folder": f"runs/{run}",
        "system": None,
        "site": None,
        "started_unix": 1_795_262_400.0,
        "seed": 0,
        "config_hash": "c" * 64,
        "release": "0.2.0",
        "proposal_rules": 5,
        "events": 1000,
        "journal": JournalHashes(f"first of {run}", f"last of {run}"),
        "benchmark": benchmark,
        "contents": None,
        "archives": {},
        "is_simulated": benchmark.standing == "simulated",
        "lacks": "",
        "flops_per_second_interval": None,
        "interval_freedom": None,
        "regulated_flops_per_second_interval": None,
        "valid_flops_5": score,
        "valid_flops_10": score,
        "peak_source": "dense peak of NVIDIA A100 in bf16",
        "is_peak_declared": False,
        "accelerators": (ModelCount("NVIDIA A100-SXM4-80GB", 64),),
        "power": None,
        "seconds": 43200.0,
        "window_seconds": 39600.0,
        "breaches": (),
        "rules_heading": "",
        "rules_not_met": (),
        "warnings": (),
        "torn": None,
        "announcement": None,
        "announced": None,
        "announcement_fault": "",
        "witnessed": None,
        "hosts": (),
        "procedure": "p" * 64,
        "purpose": ("", "", "imagenet", "43200", "ranking"),
        "attempts_lost_share": 0.001,
        "trials_given_up_share": 0.0,
        "proposals_ended_share": 0.0,
        "weights": None,
    }
    values = {"score": score, "regulated": score, "error": 0.25, "valid-flops": score, "mfu": 0.4, "availability": 1.0}
    power = others.get("power")
    values["flops-per-watt"] = None if power is None else power.flops_per_watt
    figures = {name: others.pop(name.replace("-", "_"), value) for name, value in values.items()}
    return Entry(figures=figures, **{**fields, **others})
