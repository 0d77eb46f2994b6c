"""What a table is; and the report's tables of the run, its score and its trials. How they look is the page's matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from aiperf import units
from aiperf.report import changes, words
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.front import operations
from aiperf.report.peaks_again import in_words

MOST_TRIALS = 200
"""Trials in the page's table, the best first; all of them are in report.json."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry: its text, and the number it is sorted by where that is not the text."""

    text: str
    key: float | None = None
    bar: float | None = None
    """A part of one to draw behind the text."""
    beside: str = ""
    """A smaller line under it; sorted by neither."""
    unfolds: tuple[str, ...] = ()
    """Lines that are shown when they are asked for; not on paper."""
    link: str = ""
    """A name on the same page that the text leads to."""
    kind: str = ""
    """A class of the style sheet."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; numbers stand to the right."""

    name: str
    is_number: bool = False
    explained: str = ""
    is_less_first: bool = False
    """The first click sorts upwards: less is better here."""
    sorted: Literal["", "ascending", "descending"] = ""
    """How the rows already lie by it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A captioned table."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_sortable: bool = False
    footnote: str = ""
    heads_rows: int = 0
    """Which column heads the rows."""


def row_of(*cells: Cell | str) -> tuple[Cell, ...]:
    """A row of these."""
    return tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells)


def pairs(name: str, caption: str, rows: Iterable[tuple[str, str]], heads: tuple[str, str]) -> Table:
    """A table of names and values. `heads`: of its two columns."""
    return Table(name, caption, (Column(heads[0]), Column(heads[1])), tuple(row_of(*row) for row in rows))


def result(report: Report) -> Table:
    """The figures in full."""
    score, used, proposals = report.score, report.utilisation, report.proposals
    gap = "of one worker, median"
    if used.gap_p95_seconds is not None:
        gap += f"; 95 % below {units.duration(used.gap_p95_seconds)}"
    made = f"{units.count(proposals.rejected)} rejected, {units.count(proposals.pruned)} points pruned"
    if proposals.median_seconds is not None and proposals.largest_seconds is not None:
        median, longest = units.duration(proposals.median_seconds), units.duration(proposals.largest_seconds)
        made = f"median {median}, longest {longest}; {made}"
    between = score.flops_per_second_interval
    interval = "none" if between is None else units.interval(*between, "FLOPS")
    rows = [
        (words.score_title(report.run), words.score(report), "work in the valid window ÷ its length"),
        ("95 % interval", interval, words.interval_meaning(report)),
        ("instantaneous score", words.instantaneous(report), _parts(report)),
        ("settled", words.settled(report), words.settled_meaning(report)),
        ("cumulative score", units.flops_per_second(score.cumulative_flops_per_second), "from the run's beginning"),
        ("error", words.error(report), f"1 − best {words.measured(report.run)} top-1 accuracy on the validation images"),
        ("regulated score", words.regulated(report), "−ln(error) × score"),
        ("valid window", units.duration(score.window_seconds), "from the end of the warm-up to the end"),
        ("trials finished", units.count(score.trials_finished), f"highest round {score.rounds}"),
        ("busy time", words.share(score.busy_share), "accelerator time in the window spent in steps"),
        ("MFU", words.share(used.mfu), _peak(report)),
        *_again(report),
        ("MFU while busy", words.share(used.mfu_busy), "the same ÷ (peak per rank × busy time of all ranks)"),
        ("communication", words.share(used.communication_share), "of the busy time; not hidden by the backward pass"),
        ("gap between trials", words.seconds(used.gap_median_seconds), gap),
        ("wasted work", units.operations(score.wasted_flops), "done again after a loss; in no score"),
        ("proposals", units.count(proposals.made), made),
        ("drawn at random", words.share(proposals.startup_share), _at_random(report)),
        *_per_image(report),
        ("out of memory", units.count(proposals.batch_reductions), "times a trial went on with a smaller batch"),
    ]  # fmt: skip
    columns = (Column("figure"), Column("value", is_number=True), Column("meaning"))
    return Table("result", "The run's figures", columns, tuple(row_of(*row) for row in rows))


def _again(report: Report) -> Iterable[tuple[str, str, str]]:
    """The worker whose measured peak changed most."""
    if report.peaks_again:
        worst = max(report.peaks_again, key=lambda one: abs(one.change))
        meaning = f"worker {worst.worker}: {in_words(worst)}; MFU is held against the first"
        yield "measured peak again", f"{'+' if worst.change > 0 else ''}{units.share(worst.change)}", meaning


def _at_random(report: Report) -> str:
    trials = units.count(report.proposals.startup_trials)
    return f"of the busy time; {trials} trials whose batch and kernel were drawn before tuning knew enough"


def _peak(report: Report) -> str:
    used = report.utilisation
    if used.peak_flops is None:
        return "no peak is known for these accelerators at this precision"
    return (
        f"convolutions and matrix products ÷ ({words.peak(report) or units.flops_per_second(used.peak_flops)}), "
        f"the {used.peak_source}"
    )


def _parts(report: Report) -> str:
    found = report.instantaneous
    if found is None:
        return "work in a part of the window ÷ the part's length"
    between = units.interval(found.low, found.high, "FLOPS")
    return f"median over parts of {units.duration(found.part_seconds)} of the window; nine of ten parts lie within {between}"


def _per_image(report: Report) -> list[tuple[str, str, str]]:
    """Operations of one training image, of the starting network and of the best trial's."""
    by_number = {trial.number: trial for trial in report.trials}
    shown = [
        ("starting network", next((each for each in report.trials if each.parent is None and not each.morphs), None))
    ]
    shown.append(("best network", None if report.best is None else by_number[report.best]))
    return [
        (
            f"operations per image, {name}",
            "no trial of it" if trial is None else units.operations(operations(trial)),
            "" if trial is None
            else f"{units.operations(trial.forward_flops)} forward, {units.operations(trial.backward_flops)} backward",
        )
        for name, trial in shown
    ]  # fmt: skip


def time_lost(report: Report) -> Table:
    """Where the accelerators' time went."""
    spent = report.time_breakdown
    rows = tuple(
        row_of(
            line.name,
            Cell(units.duration(line.seconds), line.seconds),
            Cell(units.share(line.share), line.share, bar=max(0.0, min(1.0, line.share))),
            line.meaning,
        )
        for line in spent.lines
    )
    total = row_of("all", units.duration(spent.whole_seconds), units.share(sum(line.share for line in spent.lines)), "")
    columns = (Column("spent on"), Column("accelerator time", True), Column("share", True), Column("what it is"))
    footnote = "Accelerator time of the valid window: the most accelerators ever present at once × its length."
    return Table("time", "Accelerator time, line by line", columns, (*rows, total), footnote=footnote)


def losses(report: Report) -> Table | None:
    """Every part between the top and the score; None where there is no waterfall."""
    fallen = report.losses
    if fallen is None:
        return None
    rows = tuple(
        row_of(
            loss.name,
            Cell(units.share(loss.share), loss.share, bar=max(0.0, min(1.0, loss.share))),
            Cell(_signed(loss.flops_per_second, units.flops_per_second), loss.flops_per_second),
            Cell(units.duration(loss.accelerator_seconds), loss.accelerator_seconds),
            Cell("—", -1.0) if loss.joules is None else Cell(units.si(loss.joules, "J"), loss.joules),
            loss.meaning if loss.why_negative is None else f"{loss.meaning}; below 0: {loss.why_negative}",
        )
        for loss in fallen.losses
    )
    score = row_of(
        words.score_title(report.run),
        units.share(
            fallen.score_flops_per_second / fallen.top_flops_per_second if fallen.top_flops_per_second else 0.0
        ),
        units.flops_per_second(fallen.score_flops_per_second),
        units.duration(fallen.score_accelerator_seconds),
        "—",
        "what is left",
    )
    columns = (
        Column("lost to"),
        Column("of the top", True),
        Column("FLOPS", True),
        Column("accelerator time", True, "at the top's rate"),
        Column("energy", True, "measured meanwhile; a dash: not measured, or not told apart"),
        Column("what it is"),
    )
    footnote = (
        f"The top: {words.waterfall_top(fallen)}. {words.energy_by_activity(fallen)} docs/losses.md has all of it."
    )
    return Table("losses", "What was lost, part by part", columns, (*rows, score), footnote=footnote)


def _signed(value: float, written: Callable[[float], str]) -> str:
    return f"−{written(-value)}" if value < 0 else written(value)


def trials(report: Report) -> Table:
    """The best trials."""
    ranked = sorted(
        report.trials, key=lambda trial: (-(-1.0 if trial.accuracy is None else trial.accuracy), trial.number)
    )
    shown = ranked[:MOST_TRIALS]
    columns = (
        Column("trial", True),
        Column("accuracy", True, f"best {words.measured(report.run)} top-1"),
        Column("told", True, "what the search was told; predicted in the first rounds"),
        Column("round", True),
        Column("parent", True, "the trial whose weights it inherited"),
        Column("change"),
        Column("FLOP per image", True, "forward and backward"),
        Column("parameters", True),
        Column("batch", True, "images per accelerator and step"),
        Column("epochs", True),
        Column("time", True),
        Column("outcome"),
    )
    left_out = len(report.trials) - len(shown)
    footnote = (
        f"The best {len(shown)} of {units.count(len(report.trials))}; the others are in report.json."
        if left_out
        else ""
    )
    caption = f"Trials, best first ({units.count(len(report.trials))})"
    by_number = {trial.number: trial for trial in report.trials}
    return Table("trials", caption, columns, tuple(_trial(trial, by_number) for trial in shown), True, footnote)


def front(report: Report) -> Table | None:
    """The trials that no trial with as few operations an image equals; None where none was evaluated."""
    if not report.front:
        return None
    by_number = {trial.number: trial for trial in report.trials}
    columns = (
        Column("trial", True),
        Column("operations per image", True, "forward and backward"),
        Column("of the start’s", True, "times the operations of the starting network"),
        Column("error", True, "1 − its best accuracy", is_less_first=True),
        Column("parameters", True),
        Column("change"),
    )
    start = next((operations(each) for each in report.trials if each.parent is None and not each.morphs), None)
    rows = tuple(
        row_of(
            Cell(str(trial.number), trial.number),
            Cell(units.operations(operations(trial)), operations(trial)),
            Cell("—", -1.0) if start is None else Cell(f"{operations(trial) / start:.2f} ×", operations(trial) / start),
            Cell(words.error_of(1 - (trial.accuracy or 0.0), report.run), 1 - (trial.accuracy or 0.0)),
            Cell(units.si(trial.parameters, ""), trial.parameters),
            changes.change(trial),
        )
        for trial in (by_number[number] for number in report.front)
    )
    caption = f"Pareto front: {units.count(len(rows))} of {units.count(len(report.trials))} trials"
    footnote = "No trial with as few operations an image, or fewer, has as small an error."
    return Table("front", caption, columns, rows, True, footnote)


def availability(report: Report) -> Table:
    """How much of the planned accelerator time was there, and what the score would be had it been all."""
    there = report.availability
    of = "by the configuration" if there.is_declared else "the most that were there at once: no number was declared"
    rows = [
        ("planned accelerators", units.count(there.planned), of),
        (
            "available",
            words.share(there.share),
            "of their time in the valid window; a driver that is down counts as gone",
        ),
        ("adjusted for it", words.adjusted(report), "score ÷ that share: no score, and never ranked"),
    ]
    columns = (Column("figure"), Column("value", is_number=True), Column("meaning"))
    return Table("availability", "Availability", columns, tuple(row_of(*row) for row in rows))


def _trial(trial: TrialFacts, trials: Mapping[int, TrialFacts]) -> tuple[Cell, ...]:
    outcome = words.outcome(trial.outcome)
    outcome += "" if trial.attempts < 2 else f", attempt {trial.attempts}"
    lineage = tuple(changes.lineage(trial, trials))
    change = changes.change(trial)
    is_all_told = len(lineage) == 1 and lineage[0].endswith(f": {change}")
    return row_of(
        Cell(str(trial.number), trial.number),
        Cell("—", -1.0) if trial.accuracy is None else Cell(units.share(trial.accuracy, 2), trial.accuracy),
        Cell("—", -1.0)
        if trial.told_accuracy is None
        else Cell(units.share(trial.told_accuracy, 2), trial.told_accuracy),
        Cell(str(trial.round), trial.round),
        Cell("start", -1.0) if trial.parent is None else Cell(str(trial.parent), trial.parent),
        Cell(change, unfolds=() if is_all_told else lineage),
        Cell(units.operations(operations(trial)), operations(trial)),
        Cell(units.si(trial.parameters, ""), trial.parameters),
        Cell(str(trial.batch_size), trial.batch_size),
        Cell(str(trial.epochs), trial.epochs),
        Cell(units.duration(trial.seconds), trial.seconds),
        outcome if trial.reason is None else f"{outcome}: {trial.reason}",
    )


def run(report: Report) -> Table:
    """What the run was."""
    facts = report.run
    dataset = facts.dataset
    lost = sum(worker.lost is not None for worker in report.workers)
    rows = [
        ("run", facts.name),
        ("began", words.when(facts)),
        ("end", words.end(facts)),
        ("declared length", units.duration(facts.duration_seconds)),
        ("warm-up", units.duration(facts.warmup_seconds)),
        ("data set", f"{dataset.get('name', 'unknown')}: {_images(dataset)}"),
        ("workers", f"{units.count(len(report.workers))}, {units.count(lost)} of them lost"),
        ("resumed", f"{facts.resumes} times, {units.duration(facts.down_seconds)} down" if facts.resumes else "never"),
        ("seed", str(facts.seed)),
        ("journal", f"{units.count(facts.events)} events, chain of hashes intact"),
        ("configuration's SHA-256", facts.config_hash),
    ]  # fmt: skip
    return pairs("run", "The run", rows, ("part", "value"))


def _images(dataset: dict[str, object]) -> str:
    counts = [(dataset.get("training_images"), "training"), (dataset.get("validation_images"), "validation")]
    parts = [f"{units.count(value)} {kind}" for value, kind in counts if isinstance(value, int)]
    if not parts:
        return "sizes unknown"
    noise = words.noise(dataset)
    return f"{' and '.join(parts)} images, {dataset.get('classes', '?')} classes" + (f", {noise}" if noise else "")


def configuration(report: Report) -> Table:
    """The whole configuration as it was composed."""
    rows = tuple(
        (Cell(name, kind="option"), Cell(words.option(name, value)))
        for name, value in words.flattened(report.run.config)
    )
    return Table("configuration", "Configuration", (Column("option"), Column("value")), rows)
