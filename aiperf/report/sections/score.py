"""Sections of the report on the score, the error and the quality over time, with the table of all results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aiperf import units
from aiperf.page.figure import drawing, legend_above
from aiperf.page.palette import AMBER, accent
from aiperf.page.section import FIGURE, DrawnFigure, Paragraph, Section, Table, numbers, rows, table, texts
from aiperf.report import phrases
from aiperf.report.facts import PredictionFacts, Report
from aiperf.report.figures import (
    BESIDE_REGULATED,
    BEST_QUALITY,
    BUSY,
    ERROR,
    REGULATED,
    SCORE,
    TRIALS_FINISHED,
    by_name,
    half_width,
)
from aiperf.report.plots import error_over_time, quality_over_epochs, score_over_time
from aiperf.report.trial_facts import operations
from aiperf.rules.limits import NOT_PUBLISHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW_INCHES = 0.34
BAR = 0.38
"""Height of a bar, as a share of its row."""


def score(report: Report) -> Section:
    """Return the section with the score over time and the table of all results of the run."""
    return Section("score", "Score over time", (score_over_time(report), result(report)), "Score")


def error(report: Report) -> Section:
    return Section("error", "Error over time", (error_over_time(report),), "Error")


def fixed_network(report: Report) -> Section | None:
    """Return the section with the quality, and FLOPS weighted by it (valid FLOPS). None for a run without a target quality."""
    result = report.fixed_network
    if result is None:
        return None
    between = result.valid_flops_interval
    chosen = f"chosen on the validation {phrases.noun(report).many}, so it is in no other figure"
    interval = "none" if between is None else units.interval(*between, "FLOPS")
    other = {result.valid_flops_exponent: result.valid_flops_per_second} | result.valid_flops_other
    cells = [
        by_name("quality").row(report, f"{phrases.metric(report.run)} at the end of the last epoch"),
        BEST_QUALITY.row(report, chosen),
        ("target quality", units.quality(result.target_quality), "" if result.is_published_workload else NOT_PUBLISHED),
        *(
            by_name(name).row(report)
            for name in ("time-to-target", "epochs-to-target", "flops-to-end", "training-flops", "peak-share")
        ),
        *(
            (f"valid FLOPS, n = {exponent}", units.flops_per_second(value), "FLOPS · (quality ÷ target)^n")
            for exponent, value in other.items()
        ),
        (f"95 % interval, n = {result.valid_flops_exponent}", interval, result.valid_flops_interval_basis),
    ]  # fmt: skip
    shown = rows("fixed-network", "Fixed network to a target quality", FIGURE, cells)
    parts = (quality_over_epochs(report, result), shown)
    return Section("fixed-network", "Quality and valid FLOPS", parts, "Valid FLOPS")


def key_figures(report: Report) -> list[tuple[str, str, str]]:
    """Return the figures in the head of the page as (title, value, meaning)."""
    peak = phrases.peak(report)
    top = "peak not known" if peak is None else f"of {peak}: {report.utilisation.peak_source}"
    best = f"best {phrases.measured(report.run)} {phrases.metric(report.run)} on the validation {phrases.noun(report).many}"
    return [
        *(
            (ERROR.row(report, f"1 − {best}", phrases.error(report)), _regulated(report))
            if report.run.metric in units.ACCURACIES
            else (BEST_QUALITY.row(report, best),)
        ),
        BUSY.row(report),
        by_name("mfu").row(report, top, phrases.mfu(report)),
        TRIALS_FINISHED.row(report, f"up to {report.score.rounds} on one worker"),
        by_name("window").row(report),
    ]


def _regulated(report: Report) -> tuple[str, str, str]:
    value, between = report.score.regulated_flops_per_second, report.score.regulated_flops_per_second_interval
    if value is None or between is None:
        return REGULATED.row(report)
    meaning = f"{half_width(value, between)} by sampling; {REGULATED.meaning}"
    return REGULATED.row(report, meaning, units.flops_per_second(value))


def result(report: Report) -> Table:
    """Return the table of all results of the run: name, value with unit, and meaning."""
    used, proposals = report.utilisation, report.proposals
    pauses = by_name("pause").meaning
    if used.gap_p95_seconds is not None:
        pauses += f"; 95 % are below {units.duration(used.gap_p95_seconds)}"
    made = f"{units.count(proposals.rejected)} rejected, {units.count(proposals.pruned)} points pruned"
    if proposals.median_seconds is not None and proposals.largest_seconds is not None:
        median, longest = units.duration(proposals.median_seconds), units.duration(proposals.largest_seconds)
        made = f"median {median}, longest {longest}; {made}"
    between = report.score.flops_per_second_interval
    interval = "none" if between is None else units.interval(*between, "FLOPS")
    cells = [
        (phrases.score_title(report.run), *SCORE.row(report)[1:]),
        ("95 % interval", interval, phrases.interval_meaning(report)),
        by_name("instantaneous").row(report, _parts(report)),
        ("time to a stable score", *phrases.settled(report)),
        by_name("average").row(report),
        *key_figures(report),
        *_beside_regulated(report),
        *(by_name(name).row(report) for name in ("mfu-busy", "communication")),
        by_name("pause").row(report, pauses),
        by_name("wasted").row(report),
        ("proposals", units.count(proposals.made), made),
        by_name("tuned-at-random").row(report, _at_random(report)),
        *(by_name(name).row(report) for name in ("budget-reached", "budget-reached-after", "padding")),
        *_per_sample(report),
        *_of_tokens(report),
        ("out of memory", units.count(proposals.batch_reductions), "times a trial continued with a smaller batch"),
    ]
    return rows("result", "The run's figures", FIGURE, cells)


def _beside_regulated(report: Report) -> list[tuple[str, str, str]]:
    if report.score.error is None:
        return []
    held_out, time, area = map(by_name, BESIDE_REGULATED)
    shown = [held_out.row(report)] if held_out.of(report) is not None else []
    title, value, meaning = time.row(report)
    return [*shown, (f"{title}, {units.error(report.error_figures.stated)}", value, meaning), area.row(report)]


def _at_random(report: Report) -> str:
    trials = units.count(report.proposals.startup_trials)
    return f"share of the busy time; {trials} trials with random batch and kernel size before TPE starts"


def _parts(report: Report) -> str:
    rates = report.instantaneous
    if rates is None:
        return "work in a part of the window ÷ its length"
    between = units.interval(rates.low, rates.high, "FLOPS")
    return f"median over parts of {units.duration(rates.part_seconds)} of the window; 90 % of the parts are within {between}"


def _per_sample(report: Report) -> list[tuple[str, str, str]]:
    start = next((each for each in report.trials if each.parent is None and not each.morphs), None)
    best = next((each for each in report.trials if each.number == report.best), None)
    return [
        (
            f"operations per {phrases.noun(report).one}, {name}",
            "not trained" if trial is None else units.operations(operations(trial)),
            "" if trial is None
            else f"{units.operations(trial.forward_flops)} forward, {units.operations(trial.backward_flops)} backward",
        )
        for name, trial in (("starting network", start), ("best network", best))
    ]  # fmt: skip


def _of_tokens(report: Report) -> list[tuple[str, str, str]]:
    """Return speed and loss of a run of language models. Empty for other runs."""
    dataset, window = report.run.dataset, report.score.window_seconds
    if dataset.get("targets") != "tokens":
        return []
    best = next((each for each in report.trials if each.number == report.best), None)
    loss = None if best is None else best.validation_loss
    rate = sum(each.in_window.trained_images for each in report.trials) / window if window else None
    speed = loss_text = units.NOT_MEASURED
    if rate is not None:
        speed = f"{units.si(rate, 'sequences/s')}, {units.si(rate * int(dataset['image']), 'tokens/s')}"
    if loss is not None:
        loss_text = f"{loss:.3f} nats, {loss / math.log(2):.3f} bits a token, perplexity {math.exp(min(loss, 700)):.2f}"
    bits = ". A token is a byte" if dataset.get("name") == "text" else ""
    return [
        ("training speed", speed, "trained in the valid window ÷ its length"),
        ("validation loss", loss_text, f"of the best network at the end of its last epoch{bits}"),
    ]


def prediction(report: Report) -> Section | None:
    """Return the section with predicted and measured score and accelerator time. None if the run was not predicted."""
    predicted = report.prediction
    if predicted is None:
        return None
    parts = (
        Paragraph(_scores(predicted, report)),
        Paragraph(_gap(predicted)),
        _lines(predicted),
        _bars(predicted, report),
    )
    return Section("prediction", "Predicted and measured", parts, "Prediction")


def _scores(prediction: PredictionFacts, report: Report) -> str:
    label = ", extrapolated from another number of workers" if prediction.is_extrapolated else ""
    measured = report.score.flops_per_second
    change = "" if measured is None else f", Diff {units.change(prediction.flops_per_second / measured - 1)}"
    return (
        f"Predicted from the profile of {prediction.source}{label}: {units.flops_per_second(prediction.flops_per_second)}, "
        f"95 % interval {units.interval(*prediction.interval, 'FLOPS')}{change}. Measured: {SCORE.text(report)}, "
        f"{phrases.score_interval(report)}."
    )


def _gap(prediction: PredictionFacts) -> str:
    line = next((line for line in prediction.lines if line.name == prediction.largest_gap), None)
    if line is None:
        return "The run has no valid window, so that no line can be compared."
    return (
        f"Largest gap: {line.name}, predicted {units.share(line.predicted)} of the accelerator time. For the same operations "
        f"it took {units.share(line.same_work)} of the predicted time."
    )


def _lines(prediction: PredictionFacts) -> Table | None:
    if not prediction.lines:
        return None
    columns = (
        texts("line", [line.name for line in prediction.lines]),
        numbers("predicted", [line.predicted for line in prediction.lines], units.share),
        numbers("measured", [line.measured for line in prediction.lines], units.share),
        numbers("for the same operations", [line.same_work for line in prediction.lines], units.share),
        numbers(
            "gap", [line.gap for line in prediction.lines], lambda gap: f"{100 * gap:+.1f} points".replace("-", "−")
        ),
    )
    return table("prediction", "Accelerator time, predicted and measured", columns)


def _bars(prediction: PredictionFacts, report: Report) -> DrawnFigure:
    name, title = "prediction", "Accelerator time, predicted and measured"
    if not prediction.lines:
        return DrawnFigure(name, title, empty="No valid window, so that nothing is compared.")
    colour = accent(is_simulated=report.run.is_simulated).strong

    def draw(figure: Figure) -> None:
        from matplotlib.patches import Patch

        axes = figure.subplots()
        for row, line in enumerate(prediction.lines):
            axes.barh(row - BAR / 2, 100 * line.predicted, height=BAR, color=AMBER.light)
            axes.barh(row + BAR / 2, 100 * line.measured, height=BAR, color=colour.light)
        axes.set_yticks(range(len(prediction.lines)), [line.name for line in prediction.lines])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("% of the accelerator time")
        legend_above(axes, [Patch(color=AMBER.light, label="predicted"), Patch(color=colour.light, label="measured")])

    caption = "Each line of the time breakdown: above as predicted, below as measured."
    height, described = 0.8 + ROW_INCHES * len(prediction.lines), f"{title}. {_gap(prediction)}"
    return drawing(name, title, caption, height, phrases.source(report), draw, described)
