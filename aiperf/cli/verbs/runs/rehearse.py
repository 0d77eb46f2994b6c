"""`python -m aiperf rehearse`: simulate clusters of 1 to 4096 workers."""

from __future__ import annotations

import argparse

DESCRIPTION = """Simulates clusters of 1, 4, 16, … workers up to cluster.workers=4096. Default: 3 virtual hours each. Prints
the score of each cluster against perfect scaling, the load of its driver, and the time breakdown of its
accelerators. A simulation uses only this machine and is never ranked. Writes rehearsal.json, rehearsal.png
and rehearsal.svg to runs/rehearsal (runs=…, name=…).

--within-worker models one worker with 1, 2, 4, … cluster.accelerators, with a constant batch of each
accelerator and with a constant global batch. Writes within-worker.json to runs/within-worker, for
`scale --predicted`.

Options are those of a simulated run (python -m aiperf --help). Default: random search without tuning."""
EXAMPLES = (
    "",
    "cluster.workers=64 schedule=ranking searcher=morphism hpo=tpe",
    "--within-worker cluster.accelerators=1024 start=resnet50_v1_5",
    """cluster.workers=256 'cluster.faults=[{kind: crash, rate: 0.2}, {kind: straggler}]'""",
)
OPTIONS = "[OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--within-worker", action="store_true", help="model one worker with 1 to cluster.accelerators accelerators"
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    if arguments.within_worker:
        from aiperf.simulate.study.within_worker import main as rehearse_worker

        return rehearse_worker(options)
    from aiperf.simulate.study.rehearsal import main as rehearse

    return rehearse(options)
