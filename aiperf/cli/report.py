"""`python -m aiperf report`: a run's report, from its journal alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from aiperf.plan import run_folder


def main(words: Sequence[str]) -> int:
    """Carries the verb out; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m aiperf report",
        description="Writes a run's report beside its journal: report.html (one self-contained file), report.json, plots as PNG and SVG.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    arguments = parser.parse_args(words)
    folder = run_folder(arguments.run)
    from aiperf.report.write import write_report

    print(write_report(folder).closing_lines)
    return 0
