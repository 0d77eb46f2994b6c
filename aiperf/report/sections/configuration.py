"""Sections of the report on the run, its configuration, and the differences from its preset by layer of HPC AI500."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiperf import units
from aiperf.config import as_plain, configure
from aiperf.page.section import Cell, Collapsed, Section, Table, rows
from aiperf.ranking.levels import MISSING, LayerDifference, layer_differences, levels_of, rules
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.phrases import flattened, noun
from aiperf.rules.limits import NOT_PUBLISHED, is_published_data


def configuration(report: Report) -> Section:
    options = option_table(report)
    parts = (run(report), Collapsed(f"Configuration, {len(options.rows)} options", (options,), is_printed=False))
    return Section("configuration", "Run and configuration", parts, "Configuration")


def run(report: Report) -> Table:
    """Return the table of the run: name, start, end, length, data set, workers, seed and journal."""
    facts = report.run
    dataset = facts.dataset
    lost = sum(worker.lost is not None for worker in report.workers)
    cells = [
        ("run", facts.name),
        ("start", phrases.when(facts)),
        ("end", phrases.end(facts)),
        ("declared length", units.duration(facts.duration_seconds)),
        ("warm-up", units.duration(facts.warmup_seconds)),
        ("data set", f"{dataset.get('name', 'unknown')}: {_images(dataset)}"),
        ("workers", f"{units.count(len(report.workers))}, {units.count(lost)} of them lost"),
        ("resumed", f"{facts.resumes} times, {units.duration(facts.down_seconds)} down" if facts.resumes else "never"),
        ("seed", str(facts.seed)),
        ("journal", f"{units.count(facts.events)} events, hash chain intact"),
        ("SHA-256 of the configuration", facts.config_hash),
    ]  # fmt: skip
    return rows("run", "The run", ("item", "value"), cells)


def _images(dataset: dict[str, object]) -> str:
    counts = [(dataset.get("training_images"), "training"), (dataset.get("validation_images"), "validation")]
    parts = [f"{units.count(value)} {kind}" for value, kind in counts if isinstance(value, int)]
    if not parts:
        return "sizes unknown"
    noise = phrases.noise(dataset)
    kind = "different tokens" if dataset.get("targets") == "tokens" else "classes"
    return f"{' and '.join(parts)} {units.noun(dataset).many}, {dataset.get('classes', '?')} {kind}" + (
        f", {noise}" if noise else ""
    )


def option_table(report: Report) -> Table:
    """Return the table of all options of a run and their values, including options with their default value."""
    options = phrases.flattened(report.run.config)
    cells = [(Cell(name, kind="option"), phrases.option(name, value)) for name, value in options]
    return rows("configuration", "Configuration", ("option", "value"), cells)


NOT_DESCRIBED = (1, 2, 3, 4, 5)
"""Layers of the machine and its software, which a preset does not describe."""


def level(report: Report) -> Section | None:
    """Section on the level of permitted changes that a run with a preset satisfies. None for an architecture search."""
    preset = preset_of(report)
    if preset is None:
        return None
    return Section("level", "Level", (level_table(preset, differences_from_preset(report, preset), is_preset=True),))


def standing(report: Report) -> tuple[str, str]:
    """Return (title, explanation): the strictest level of a real run with a preset, otherwise the validity in the ranking."""
    preset = preset_of(report)
    if preset is None or report.run.is_simulated:
        return phrases.standing_parts(report)
    differences = differences_from_preset(report, preset)
    counted = f"{len(differences) or 'no'} difference{'' if len(differences) == 1 else 's'} from the values of {preset}"
    return f"Strictest level of HPC AI500: {strictest(differences)}", counted


def preset_of(report: Report) -> str | None:
    """Return the name of the run's preset (value of the option `benchmark`). None for a neural architecture search."""
    benchmark: dict[str, Any] | None = report.run.config.get("benchmark")
    return None if benchmark is None else str(benchmark["name"])


def differences_from_preset(report: Report, preset: str) -> tuple[LayerDifference, ...]:
    """Return the options of a run that differ from the values of a preset, in order of the layers of HPC AI500."""
    values = dict(flattened(as_plain(configure([f"benchmark={preset}"]))))
    own = dict(flattened(report.run.config))
    if not is_published_data(preset, report.run.dataset):
        own[f"data set's {noun(report).many}"] = NOT_PUBLISHED
    return layer_differences(own, values)


def level_table(reference: str, differences: Sequence[LayerDifference], *, is_preset: bool) -> Table:
    """Return the table of differences by layer of HPC AI500 (1: hardware, …, 9: data), with the levels that allow a difference.

    `reference`: name of the preset or run that was compared. `differences`: differences from it. Those without a layer are in a
    last row. `is_preset`: the reference is a preset. It describes no machine, and then layers 1 to 5 (hardware to
    framework) have a remark in place of differences.
    """
    layers: list[tuple[int | None, str]] = [*rules().layers.items()]
    if any(each.layer is None for each in differences):
        layers.append((None, "unknown to this release"))
    cells: list[tuple[Cell | str, ...]] = []
    for number, name in layers:
        of_layer = [each for each in differences if each.layer == number]
        text = of_layer[0].name if len(of_layer) == 1 else f"{len(of_layer)} differences" if of_layer else "none"
        if is_preset and number in NOT_DESCRIBED:
            text += " (the machine is not compared)"
        cell = Cell(text, unfolds=tuple(map(_in_words, of_layer)))
        cells.append((f"{number or MISSING} {name}", cell, ", ".join(levels_of(of_layer)) or "no level"))
    footnote = f"Reference: {'values of ' if is_preset else ''}{reference}. Strictest level: {strictest(differences)}."
    if is_preset:
        footnote += " Another run as reference: python -m aiperf check RUN --level hardware --against RUN2."
    heads = ("layer", "different from the reference", "permitted at")
    return rows("level", "Differences by layer", heads, cells, footnote)


def strictest(differences: Sequence[LayerDifference]) -> str:
    return next(iter(levels_of(differences)), "none")


def _in_words(each: LayerDifference) -> str:
    return f"{each.name}: {each.run}, reference {each.reference} ({', '.join(each.open_at) or 'no level'})"
