"""`python -m aiperf rehearse`: simulated clusters from 1 to 4096 workers."""

from __future__ import annotations

import argparse

DESCRIPTION = """Simulates clusters of 1, 4, 16, … workers up to cluster.workers=4096, 3 virtual hours each unless a
schedule is named. Says what each scores beside perfect scaling, what its driver costs, and where the
accelerators' time went. No machine is asked, and no such score is ever ranked. Writes rehearsal.json,
rehearsal.png and rehearsal.svg into runs/rehearsal (runs=…, name=…).

Options are those of a simulated run (python -m aiperf --help); random search without tuning unless a
searcher is named."""
EXAMPLES = (
    "",
    "cluster.workers=64 schedule=ranking searcher=morphism hpo=tpe",
    """cluster.workers=256 'cluster.faults=[{kind: crash, rate: 0.2}, {kind: late}]'""",
)
OPTIONS = "[OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None but options of a run."""


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints the table and draws the picture; gives the exit status."""
    from aiperf.simulate.study.sweep import main as rehearse

    return rehearse(options)
