"""Section "Level" of a run of HPC AI500."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiperf.config import as_plain, configure
from aiperf.journal.first_line import config_hash
from aiperf.page.section import Section, Table
from aiperf.ranking.levels import levels_of
from aiperf.report.facts import Report
from aiperf.report.gather import gather
from aiperf.report.sections.configuration import differences_from_preset, level
from aiperf.rules.limits import WORKLOADS
from morphism import encode, start
from tests.builders.journal import ended, evaluated, finished, one_trial, prepared, started

IC_IMAGES = {"name": "imagenet", **WORKLOADS["hpc_ai500_ic"].images}


def report_of(*words: str, dataset: dict[str, Any] | None = None) -> Report:
    config = as_plain(configure(list(words)))
    events = one_trial(prepared(0, 2.0), evaluated(0, 20.0, 0.5), finished(0, 20.0, 0.5), ended())
    changes: dict[str, Any] = {"config": config, "config_hash": config_hash(config)}
    if dataset is not None:
        graph = json.loads(encode(start("resnet50_v1_5")))
        changes |= {"dataset": started().dataset | {"classes": 1000} | dataset, "start_graph": graph}
    return gather([started(**changes), *events[1:]])


def table_of(section: Section | None) -> Table:
    assert section is not None
    (table,) = [part for part in section.parts if isinstance(part, Table)]
    return table


def test_an_automl_run_has_no_level() -> None:
    assert level(report_of()) is None


def test_nine_rows_show_differences_and_levels() -> None:
    words = ("benchmark=hpc_ai500_ic", "trainer.momentum=0.5", "trainer.rate=linear")
    table = table_of(level(report_of(*words, dataset=IC_IMAGES)))

    rows = [tuple(cell.text for cell in row) for row in table.rows]
    assert [name.partition(" ")[0] for name, *_ in rows] == [str(number) for number in range(1, 10)]
    assert rows[0] == ("1 hardware", "none (the machine is not compared)", "hardware, system, free")
    assert rows[7] == ("8 hyperparameters", "2 differences", "free")
    assert table.rows[7][1].unfolds == (
        "trainer.rate: linear, reference cosine (hardware, system, free)",
        "trainer.momentum: 0.5, reference 0.875 (free)",
    )
    assert table.footnote.startswith("Reference: values of hpc_ai500_ic. Strictest level: free.")


@pytest.mark.parametrize(("images", "strictest"), [({}, "hardware"), ({"is_full_imagenet": False}, None)])
def test_a_part_of_imagenet_is_at_no_level(images: dict[str, Any], strictest: str | None) -> None:
    """Its data set has the same name and options."""
    report = report_of("benchmark=hpc_ai500_ic", dataset=IC_IMAGES | images)

    assert next(iter(levels_of(differences_from_preset(report, "hpc_ai500_ic"))), None) == strictest
