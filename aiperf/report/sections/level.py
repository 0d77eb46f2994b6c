"""Section on the level of HPC AI500: differences from the preset in each of the nine layers."""

from __future__ import annotations

from aiperf.ranking.division import LEVELLED, division
from aiperf.report.facts import Report
from aiperf.report.level import LayerRow, against_preset, in_words, preset_of, rows
from aiperf.report.section import Section
from aiperf.report.tables import Cell, Column, Table, row_of


def level(report: Report) -> Section | None:
    """Level against the preset's values. None for the AutoML benchmark."""
    preset = preset_of(report)
    if preset is None:
        return None
    judged = against_preset(report, preset, division(LEVELLED[0]))
    columns = (Column("layer"), Column("differences from the preset"), Column("permitted at"))
    footnote = (
        f"Strictest level against the values of {preset}: {judged.strictest or 'none'}. Another run as the reference: "
        f"python -m aiperf check {report.run.name} --level hardware --against RUN. Details: docs/hpc-ai500.md."
    )
    shown = Table("level", "Differences by layer", columns, tuple(map(_row, rows(judged))), footnote=footnote)
    return Section("level", "Level", (shown,))


def _row(found: LayerRow) -> tuple[Cell, ...]:
    count = len(found.differences)
    text = "none" if not count else in_words(found.differences[0]) if count == 1 else f"{count} options"
    if not found.is_compared:
        text = "the machine is not compared" if not count else f"{text}. The machine is not compared"
    unfolds = tuple(map(in_words, found.differences)) if count > 1 else ()
    return row_of(found.layer, Cell(text, unfolds=unfolds), ", ".join(found.open_at) or "no level")
