"""`python -m aiperf rehearse`: simulated clusters from 1 to 4096 workers."""

from __future__ import annotations

from collections.abc import Sequence

USAGE = """usage: python -m aiperf rehearse [OPTION=VALUE …]

Simulates clusters of 1, 4, 16, … workers up to cluster.workers=4096, 3 virtual hours each unless a schedule is named. Says what
each scores beside perfect scaling, what its driver costs, and where the accelerators' time went. No machine is asked, and no
such score is ever ranked. Writes rehearsal.json, rehearsal.png and rehearsal.svg into runs/rehearsal (runs=…, name=…).

Options are those of a simulated run (python -m aiperf --help); random search without tuning unless a searcher is named.

examples:
  python -m aiperf rehearse
  python -m aiperf rehearse cluster.workers=64 schedule=ranking searcher=morphism hpo=tpe
  python -m aiperf rehearse cluster.workers=256 'cluster.faults=["worker_lost(rate=0.1)",straggler]'"""


def main(words: Sequence[str]) -> int:
    """Carries the verb out; gives the exit status."""
    if "-h" in words or "--help" in words:
        print(USAGE)
        return 0
    from aiperf.simulate.study.sweep import main as rehearse

    return rehearse(list(words))
