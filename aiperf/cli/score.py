"""`python -m aiperf score`: a run's figures, from its journal alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from aiperf.books import books
from aiperf.journal import read
from aiperf.plan import run_folder
from aiperf.score import Score, score
from aiperf.units import error, flops_per_second, interval, operations, share


def main(words: Sequence[str]) -> int:
    """Carries the verb out; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m aiperf score", description="Scores a run from its journal alone; every line's seal is checked."
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(words)
    found = score(books(read(run_folder(arguments.run))))
    print(json.dumps(as_json(found), indent=2) if arguments.json else as_text(found))
    return 0


def as_json(found: Score) -> dict[str, Any]:
    """The contract of --json. null is what is not defined, never zero."""
    return {name: getattr(found, name) for name in Score.__dataclass_fields__}


def as_text(found: Score) -> str:
    """For a person."""
    undefined = "not defined yet"
    lines = [
        ("score", undefined if found.flops_per_second is None else flops_per_second(found.flops_per_second)),
        (
            "95 % interval",
            undefined
            if found.flops_per_second_interval is None
            else interval(*found.flops_per_second_interval, "FLOPS"),
        ),
        ("cumulative", flops_per_second(found.cumulative_flops_per_second)),
        ("error", "no evaluation yet" if found.error is None else error(found.error)),
        (
            "regulated score",
            undefined
            if found.regulated_flops_per_second is None
            else flops_per_second(found.regulated_flops_per_second),
        ),
        ("valid window", f"{found.window_seconds:.1f} s"),
        ("trials finished", f"{found.trials_finished} (round {found.rounds})"),
        ("busy share", undefined if found.busy_share is None else share(found.busy_share)),
        ("wasted work", operations(found.wasted_flops)),
        ("valid", "yes" if found.valid else "no"),
    ]
    text = [f"{name:<16} {value}" for name, value in lines]
    return "\n".join([*text, *(f"doubt: {doubt}" for doubt in found.doubts)])
