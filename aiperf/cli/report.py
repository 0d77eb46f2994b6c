"""`python -m aiperf report`: a run's report, from its journal alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from aiperf.planning.plan import run_folder


def main(words: Sequence[str]) -> int:
    """Carries the verb out; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m aiperf report",
        description="Writes a run's report beside its journal: report.html, report.json, plots as PNG and SVG.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    arguments = parser.parse_args(words)
    folder = run_folder(arguments.run)
    from aiperf.report.text import closing_lines
    from aiperf.report.write import report_of, write

    report = report_of(folder)
    for line in closing_lines(report, write(report, folder).page):
        print(line)
    return 0
