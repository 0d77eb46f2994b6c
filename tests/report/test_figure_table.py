"""The table of figures: names and former names are unique, and the command line knows the same ones."""

from __future__ import annotations

import argparse

from aiperf.cli.verbs.results.compare import FORMER, add_arguments
from aiperf.report.figures import AVAILABILITY, FIGURES, FIXED_NETWORK, by_name

ALL = (*FIGURES, *FIXED_NETWORK, AVAILABILITY)


def test_every_name_and_former_name_belongs_to_one_figure() -> None:
    names = [name for figure in ALL for name in {figure.name, figure.former} - {""}]

    assert len(names) == len(set(names))
    assert all(by_name(name).name == figure.name for figure in ALL for name in {figure.name, figure.former} - {""})


def test_compare_takes_names_and_former_names_of_the_table() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    for name in ("score", "regulated", "error", "busy", "mfu", "flops-per-watt", *FORMER):
        assert parser.parse_args(["RUN", "--metric", name]).metric == by_name(name).name
