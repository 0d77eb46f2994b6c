"""The table of figures: names and titles are unique, and the command line knows them."""

from __future__ import annotations

import argparse

from aiperf.cli.verbs.results.compare import add_arguments
from aiperf.report.figures import FIGURES, by_name


def test_every_name_and_title_belongs_to_one_figure() -> None:
    names = [(name, figure) for figure in FIGURES for name in {figure.name, figure.title}]

    assert all(by_name(name) is figure for name, figure in names)
    assert len({name for name, _ in names}) == len(names)


def test_compare_takes_names_and_former_names_of_the_table() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    for name in ("score", "regulated", "error", "busy", "mfu", "flops-per-watt", "MFU", "FLOPS/W"):
        assert parser.parse_args(["RUN", "--metric", name]).metric == by_name(name).name
