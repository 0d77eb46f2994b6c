"""Entries made by hand: the shortest way to a list in a stated condition."""

from __future__ import annotations

from typing import Any

from aiperf.leaderboard.benchmark import Benchmark, of_division
from aiperf.leaderboard.entry import Accelerators, Ends, Entry

RANKED = of_division("ranking")
QUICK = Benchmark("outside", None, "digits", (), "digits_small", "f" * 64, None, 180.0, 20.0, (("seed", "0"),))


def entry(run: str, score: float | None = 1e12, *, benchmark: Benchmark = RANKED, **others: Any) -> Entry:
    """A whole run of 64 accelerators with that score, in a folder and a journal of its own."""
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
        "journal": Ends(f"first of {run}", f"last of {run}"),
        "benchmark": benchmark,
        "is_simulated": benchmark.standing == "simulated",
        "lacks": "",
        "flops_per_second": score,
        "flops_per_second_interval": None,
        "interval_freedom": None,
        "regulated_flops_per_second": score,
        "error": 0.25,
        "valid_flops": score,
        "mfu": 0.4,
        "peak_source": "dense peak of NVIDIA A100 in bf16",
        "accelerators": (Accelerators("NVIDIA A100-SXM4-80GB", 64),),
        "power": None,
        "seconds": 43200.0,
        "window_seconds": 39600.0,
        "availability": 1.0,
        "breaches": (),
        "rules_heading": "",
        "rules_not_met": (),
        "warnings": (),
        "torn": None,
        "announcement": None,
        "announced": None,
    }
    return Entry(**{**fields, **others})
