"""Sections of the report on the score, the error and the quality over time, with the table of all results."""

from __future__ import annotations

from aiperf import units
from aiperf.page.section import FIGURE, Section, Table, rows
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.plots.progress import error_over_time, quality_over_epochs, score_over_time
from aiperf.report.trial_facts import operations
from aiperf.rules.limits import NOT_PUBLISHED


def score(report: Report) -> Section:
    """Return the section with the score over time and the table of all results of the run."""
    return Section("score", "Score over time", (score_over_time(report), result(report)), "Score")


def error(report: Report) -> Section:
    return Section("error", "Error over time", (error_over_time(report),), "Error")


def fixed_network(report: Report) -> Section | None:
    """Return the section with the quality, and FLOPS weighted by it (valid FLOPS). None for a run without a target quality."""
    found = report.fixed_network
    if found is None:
        return None
    between = found.valid_flops_interval
    at = found.seconds_to_quality
    reached = "not reached" if at is None else units.duration(at)
    rate = found.training_flops_per_second
    chosen = f"chosen on the validation {phrases.noun(report).many}, so it is in no other figure"
    training = units.NOT_MEASURED if rate is None else units.flops_per_second(rate)
    interval = "none" if between is None else units.interval(*between, "FLOPS")
    cells = [
        ("quality", units.quality(found.quality), f"{phrases.metric(report.run)} at the end of the last epoch"),
        ("best quality", units.quality(found.best_quality), chosen),
        ("target quality", units.quality(found.target_quality), "" if found.is_published_workload else NOT_PUBLISHED),
        ("time to quality", reached, "end of the first epoch that reached the target"),
        ("epochs to quality", "not reached" if found.epochs_to_quality is None else units.count(found.epochs_to_quality), ""),
        ("FLOPS", units.flops_per_second(found.flops_per_second_to_last_epoch), "start of the run to the last epoch's end"),
        ("training FLOPS", training, "the paper's N·R·C: time in training steps alone"),
        ("share of the FP32 peak", phrases.share(found.peak_share_fp32), "the paper's ratio, for every precision"),
        *(
            (f"valid FLOPS, n = {exponent}", units.flops_per_second(value), "FLOPS · (quality ÷ target)^n")
            for exponent, value in (
                (found.valid_flops_exponent, found.valid_flops_per_second),
                *found.valid_flops_other.items(),
            )
        ),
        (f"95 % interval, n = {found.valid_flops_exponent}", interval, found.valid_flops_interval_basis),
    ]  # fmt: skip
    shown = rows("fixed-network", "Fixed network to a target quality", FIGURE, cells)
    parts = (quality_over_epochs(report, found), shown)
    return Section("fixed-network", "Quality and valid FLOPS", parts, "Valid FLOPS")


def result(report: Report) -> Table:
    """Return the table of all results of the run: name, value with unit, and meaning."""
    score, used, proposals = report.score, report.utilisation, report.proposals
    gap = "median over the workers' pauses"
    if used.gap_p95_seconds is not None:
        gap += f"; 95 % are below {units.duration(used.gap_p95_seconds)}"
    made = f"{units.count(proposals.rejected)} rejected, {units.count(proposals.pruned)} points pruned"
    if proposals.median_seconds is not None and proposals.largest_seconds is not None:
        median, longest = units.duration(proposals.median_seconds), units.duration(proposals.largest_seconds)
        made = f"median {median}, longest {longest}; {made}"
    between = score.flops_per_second_interval
    interval = "none" if between is None else units.interval(*between, "FLOPS")
    cells = [
        (phrases.score_title(report.run), phrases.score(report), "work in the valid window ÷ its length"),
        ("95 % interval", interval, phrases.interval_meaning(report)),
        ("instantaneous score", phrases.instantaneous(report), _parts(report)),
        ("time to a stable score", phrases.settled(report), phrases.settled_meaning(report)),
        ("average with the warm-up", units.flops_per_second(score.cumulative_flops_per_second), "from the start of the run"),
        *_quality(report),
        ("valid window", units.duration(score.window_seconds), "from the end of the warm-up to the end"),
        ("trials finished", units.count(score.trials_finished), f"up to {score.rounds} on one worker"),
        ("busy time", phrases.share(score.busy_share), "accelerator time in the window spent in steps"),
        ("MFU", phrases.mfu(report), _peak(report)),
        ("MFU while busy", phrases.share(used.mfu_busy), "as MFU, but ÷ (peak per rank × busy time of all ranks)"),
        ("communication", phrases.share(used.communication_share), "share of the busy time; not hidden by the backward pass"),
        ("pause between trials", phrases.seconds(used.gap_median_seconds), gap),
        ("wasted work", units.operations(score.wasted_flops), "repeated after a loss; not in the score"),
        ("proposals", units.count(proposals.made), made),
        ("tuned at random", phrases.share(proposals.startup_share), _at_random(report)),
        *_per_sample(report),
        ("out of memory", units.count(proposals.batch_reductions), "times a trial continued with a smaller batch"),
    ]  # fmt: skip
    return rows("result", "The run's figures", FIGURE, cells)


def _quality(report: Report) -> list[tuple[str, str, str]]:
    """Return the rows of the quality."""
    name = f"best {phrases.measured(report.run)} {phrases.metric(report.run)} on the validation {phrases.noun(report).many}"
    if report.run.metric != "top1":
        return [("quality", phrases.quality(report), name)]
    return [
        ("error", phrases.error(report), f"1 − {name}"),
        ("regulated score", phrases.regulated(report), "−ln(error) × score"),
    ]


def _at_random(report: Report) -> str:
    trials = units.count(report.proposals.startup_trials)
    return f"share of the busy time; {trials} trials with random batch and kernel size before TPE starts"


def _peak(report: Report) -> str:
    used = report.utilisation
    if used.peak_flops is None:
        return "the peak of these accelerators at this precision is not known"
    return (
        f"convolutions and matrix products ÷ ({phrases.peak(report) or units.flops_per_second(used.peak_flops)}), "
        f"the {used.peak_source}"
    )


def _parts(report: Report) -> str:
    found = report.instantaneous
    if found is None:
        return "work in a part of the window ÷ its length"
    between = units.interval(found.low, found.high, "FLOPS")
    return f"median over parts of {units.duration(found.part_seconds)} of the window; 90 % of the parts are within {between}"


def _per_sample(report: Report) -> list[tuple[str, str, str]]:
    """Return the operations of one training sample for the starting network and the best network."""
    by_number = {trial.number: trial for trial in report.trials}
    shown = [
        ("starting network", next((each for each in report.trials if each.parent is None and not each.morphs), None))
    ]
    shown.append(("best network", None if report.best is None else by_number[report.best]))
    return [
        (
            f"operations per {phrases.noun(report).one}, {name}",
            "not trained" if trial is None else units.operations(operations(trial)),
            "" if trial is None
            else f"{units.operations(trial.forward_flops)} forward, {units.operations(trial.backward_flops)} backward",
        )
        for name, trial in shown
    ]  # fmt: skip
