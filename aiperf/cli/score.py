"""`python -m aiperf score`: a run's figures, from its journal alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiperf.accounting.score import Score
from aiperf.journal.journal import read
from aiperf.planning.plan import run_folder

if TYPE_CHECKING:
    from aiperf.ranking.breaches import Breach


def main(words: Sequence[str]) -> int:
    """Carries the verb out; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m aiperf score", description="Scores a run from its journal alone; every line's seal is checked."
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(words)
    folder = run_folder(arguments.run)
    if arguments.json:
        from aiperf.report.gather import gather

        report = gather(read(folder))
        print(json.dumps(as_json(report.score) | {"ranking": ranking(report.breaches)}, indent=2))
        return 0
    from aiperf.report.text import closing_lines
    from aiperf.report.write import report_of

    for line in closing_lines(report_of(folder)):
        print(line)
    return 0


def as_json(found: Score) -> dict[str, Any]:
    """The figures of --json. null is what is not defined, never zero."""
    return {name: getattr(found, name) for name in Score.__dataclass_fields__}


def ranking(breaches: Sequence[Breach]) -> list[dict[str, Any]]:
    """What keeps the run out of the ranking: rules that are broken, and rules of which it cannot be told (`is_unknown`)."""
    return [asdict(breach) for breach in breaches]
