"""`python -m aiperf rehearse`: simulate clusters of 1 to 4096 workers."""

from __future__ import annotations

import argparse

DESCRIPTION = """Simulates clusters of 1, 4, 16, … workers up to cluster.workers=4096. Default: 3 virtual hours each. Prints
the score of each cluster against perfect scaling, the load of its driver, and the time breakdown of its
accelerators. A simulation uses only this machine and is never ranked. Writes rehearsal.json, rehearsal.png
and rehearsal.svg to runs/rehearsal (runs=…, name=…).

Options are those of a simulated run (python -m aiperf --help). Default: random search without tuning."""
EXAMPLES = (
    "",
    "cluster.workers=64 schedule=ranking searcher=morphism hpo=tpe",
    """cluster.workers=256 'cluster.faults=[{kind: crash, rate: 0.2}, {kind: straggler}]'""",
)
OPTIONS = "[OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: all arguments are options of a run."""


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.simulate.study.sweep import main as rehearse

    return rehearse(options)
