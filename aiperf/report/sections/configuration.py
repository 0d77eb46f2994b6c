"""Section of the report on the run and its configuration."""

from __future__ import annotations

from aiperf import units
from aiperf.page.section import Cell, CollapsedTables, Column, Section, Table, pairs
from aiperf.report import phrases
from aiperf.report.facts import Report


def configuration(report: Report) -> Section:
    """Return the section with the properties of the run and all its options."""
    options = option_table(report)
    parts = (run(report), CollapsedTables(f"Configuration, {len(options.rows)} options", (options,)))
    return Section("configuration", "Run and configuration", parts, "Configuration")


def run(report: Report) -> Table:
    """Return the table of the run: name, start, end, length, data set, workers, seed and journal."""
    facts = report.run
    dataset = facts.dataset
    lost = sum(worker.lost is not None for worker in report.workers)
    rows = [
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
    return pairs("run", "The run", rows, ("item", "value"))


def _images(dataset: dict[str, object]) -> str:
    counts = [(dataset.get("training_images"), "training"), (dataset.get("validation_images"), "validation")]
    parts = [f"{units.count(value)} {kind}" for value, kind in counts if isinstance(value, int)]
    if not parts:
        return "sizes unknown"
    noise = phrases.noise(dataset)
    return f"{' and '.join(parts)} {units.noun(dataset).many}, {dataset.get('classes', '?')} classes" + (
        f", {noise}" if noise else ""
    )


def option_table(report: Report) -> Table:
    """Return the table of all options of a run and their values, including options with their default value."""
    rows = tuple(
        (Cell(name, kind="option"), Cell(phrases.option(name, value)))
        for name, value in phrases.flattened(report.run.config)
    )
    return Table("configuration", "Configuration", (Column("option"), Column("value")), rows)
