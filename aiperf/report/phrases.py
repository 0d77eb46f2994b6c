"""Texts for the results of a report, shared by page, terminal and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aiperf import units
from aiperf.accounting.losses import Waterfall
from aiperf.accounting.valid_flops import FixedNetworkResult
from aiperf.ranking.breaches import REAL_MACHINE, RuleViolation
from aiperf.report.facts import Hardware, Report, RunFacts
from aiperf.report.figures import BESIDE_REGULATED, BUSY, ERROR, by_name
from aiperf.rules.limits import NOT_PUBLISHED
from aiperf.sanitize import sanitize
from aiperf.shell_command import command
from aiperf.system import of_run
from aiperf.system.energy import SENSORS, EnergyFacts
from aiperf.train.checkpoints.checkpoint_files import KeptCheckpoints

_OF_THE_SCHEDULE = ("data-set", "start", "warmup", "window")
"""Ids of rules that `schedule=ranking dataset=imagenet` satisfies."""


def score_title(run: RunFacts) -> str:
    """Return the name of the score as text: `score` or `following score`, after `simulated ` for a simulated run."""
    return ("simulated " if run.is_simulated else "") + ("following score" if run.follows is not None else "score")


def followed(run: RunFacts) -> str | None:
    """Return the sentence `It did not search: it trained the 72 trials of …` on the followed run. None if the run searched."""
    if run.follows is None:
        return None
    return (
        f"It did not search: it trained the list of '{sanitize(run.follows.run)}', {units.count(run.follows.trials)} trials "
        f"(hash {run.follows.identity}…)."
    )


def score_interval(report: Report) -> str:
    """Return the 95 % interval of the score as text, such as `× (1 ± 0.23 %) at 95 %, steadiness of the machine`."""
    value, between = report.score.flops_per_second, report.score.flops_per_second_interval
    if value is None or between is None:
        return f"no 95 % interval: {report.score.interval_basis}"
    return f"× (1 ± {units.share(between[1] / value - 1, 2)}) at 95 %, steadiness of the machine"


def fixed_network(result: FixedNetworkResult) -> tuple[str, str]:
    """Return two lines of text for a run with a target quality: quality and time to the target, and valid FLOPS."""
    if result.seconds_to_quality is None:
        reached = "target not reached"
    else:
        reached = f"target reached after {units.duration(result.seconds_to_quality)}, epoch {result.epochs_to_quality}"
    others = [f"{units.flops_per_second(value)} (n = {n})" for n, value in result.valid_flops_other.items()]
    values = [f"{units.flops_per_second(result.valid_flops_per_second)} (n = {result.valid_flops_exponent})", *others]
    workload = "" if result.is_published_workload else f" · {NOT_PUBLISHED}"
    return (
        f"quality {units.quality(result.quality)}, best {units.quality(result.best_quality)}, "
        f"target {units.quality(result.target_quality)} · {reached}",
        f"valid FLOPS {' · '.join(values)}{workload}",
    )


def settled(report: Report) -> tuple[str, str]:
    """Return the time from which the running score stays within ± 1 % of its final value, and its meaning, as texts."""
    meaning = (
        "time from which the score stayed so close to the final score, and the share of the valid window until then"
    )
    times = [
        f"within {units.share(each.share, 0)} after {units.duration(each.at)} ({units.share(each.part_of_window, 0)})"
        for each in report.settled
    ]
    *wider, closest = times or ["no valid window"]
    return closest, "; ".join((meaning, *wider))


def interval_meaning(report: Report) -> str:
    """Return the explanation of the score's 95 % interval as text, with its basis, or the reason for a missing interval."""
    meaning = "steadiness of the machine in this run; another run may differ by more, also by the luck of its networks"
    if report.score.flops_per_second_interval is None:
        return f"{meaning}; no interval: {report.score.interval_basis}"
    return f"{meaning}; Student's t over {report.score.interval_basis}"


def metric(run: RunFacts) -> str:
    """Return the readable name of the metric of a run's quality, such as `top-1 accuracy`."""
    return units.METRICS[run.metric]


def noun(report: Report) -> units.Noun:
    return units.noun(report.run.dataset)


def error(report: Report) -> str:
    """Return the error of a run (1 − best top-1 accuracy) as text in percent. The reason without one."""
    return ERROR.missing if report.score.error is None else error_of(report.score.error, report.run)


def error_of(value: float, run: RunFacts) -> str:
    """Return an error as text: `2.41 %`, or `≤ 0.14 % (no error in 360 images)` if every image was classified correctly."""
    images = run.dataset.get("validation_images")
    if isinstance(images, int) and images > 0 and value <= 1 / (2 * images):
        return f"≤ {units.error(value)} (no error in {units.count(images)} {units.noun(run.dataset).many})"
    return units.error(value)


def measured(run: RunFacts) -> str:
    """Return the adjective for the accuracies of a run: `measured`, or `simulated` for a simulated run."""
    return "simulated" if run.is_simulated else "measured"


OUTCOMES = {"epochs": "all epochs done", "early stop": "stopped early", "followed": "epochs of the list"}
"""Text for outcomes of a trial. Other outcomes are shown as they are."""


def peak(report: Report) -> str | None:
    """Return the peak that MFU refers to as text, `144 GFLOPS per rank × 2`. None if it is unknown."""
    used = report.utilisation
    if used.peak_flops is None:
        return None
    return f"{units.flops_per_second(used.peak_flops)} per rank × {units.count(report.hardware.accelerators)}"


def mfu(report: Report) -> str:
    """Return MFU as text, marked if the peak is declared, such as `31.2 % (declared peak)`."""
    used = report.utilisation
    return by_name("mfu").text(report) + (" (declared peak)" if used.mfu is not None and used.is_peak_declared else "")


def noise(dataset: Mapping[str, object]) -> str | None:
    """Noise added to the images as text: `with added noise of 30 % of the pixel range`. None without noise."""
    value = dataset.get("noise")
    return units.noise(value) if isinstance(value, float) and value > 0 else None


def share(value: float | None) -> str:
    """Return a share, 0..1, as text in percent, such as `12.3 %` for 0.123. `not measured` for None."""
    return units.NOT_MEASURED if value is None else units.share(value)


def busy(report: Report) -> str:
    """Return the busy share of the accelerators as text, with its communication: `98.3 %, of this communication 15.5 %`."""
    text, communication = BUSY.text(report), report.utilisation.communication_share
    return f"{text}, of this communication {share(communication)}" if communication else text


def search_reach(report: Report) -> str | None:
    """Return what the score depends on beside the machine, as text: the largest network, and the share of padding."""
    reached, after, padded = (by_name(name) for name in ("budget-reached", "budget-reached-after", "padding"))
    parts = []
    if reached.of(report) is not None:
        parts.append(f"search reached {reached.text(report)} of its budget after {after.text(report)}")
    if padded.of(report) is not None:
        parts.append(f"{padded.text(report)} of the operations multiply zero padding")
    return " · ".join(parts) or None


def error_figures(report: Report) -> str | None:
    """Return the figures of the error beside the regulated score as text. None without an error."""
    if report.score.error is None:
        return None
    held_out, time, area = map(by_name, BESIDE_REGULATED)
    shown = [f"{held_out.title} {held_out.text(report)}"] if held_out.of(report) is not None else []
    after = time.text(report) if time.of(report) is None else f"after {time.text(report)}"
    shown.append(f"error of {units.error(report.error_figures.stated)} {after}")
    shown += [f"{area.title} {area.text(report)}"] if area.of(report) is not None else []
    return " · ".join(shown)


def of_devices(report: Report) -> Callable[[str], str]:
    """Return a function on texts of a page: a machine without accelerators has processes in their place."""
    courses = () if report.telemetry is None else report.telemetry.courses
    has_accelerators = report.hardware.are_accelerators or any(each.kind == "accelerator" for each in courses)
    if has_accelerators or report.run.is_simulated:
        return str
    called = {"accelerator": "process", "accelerators": "processes", "an accelerator": "a process"}

    def words(text: str) -> str:
        def process(found: re.Match[str]) -> str:
            word = called.get(found[0].lower(), "processes")
            return word.capitalize() if found[0][0].isupper() else word

        return re.sub(r"\b(an )?accelerators?\b", process, text, flags=re.IGNORECASE)

    return words


def availability_meaning(report: Report) -> str:
    """Return text on the presence of the planned accelerators, with the score scaled to all of them."""
    available = report.availability
    if available.share is None:
        return "No valid window, or no accelerator in it"
    planned = f"{units.count(available.planned)} {'planned ' if available.is_declared else ''}accelerators"
    text = f"{planned} were present {share(available.share)} of the time"
    if available.adjusted_flops_per_second is None:
        return text
    return f"{text}; scaled to 100 %: {by_name('adjusted').text(report)} (not a score)"


MOST_LOSSES = 3


def largest_losses(report: Report) -> str | None:
    """Return at most three largest losses between the peak and the score as text. None if no loss is known."""
    fallen = report.losses
    if fallen is None or not fallen.largest:
        return None
    parts = [f"{loss.name} {units.share(loss.share)}" for loss in fallen.largest[:MOST_LOSSES]]
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"{listed} of {waterfall_top(fallen)}"


def waterfall_top(fallen: Waterfall) -> str:
    """Return the peak of all planned accelerators as text: `2.50 PFLOPS (8 × dense peak of NVIDIA A100-SXM4-80GB in bf16)`."""
    top = units.flops_per_second(fallen.top_flops_per_second)
    return f"{top} ({units.count(fallen.accelerators)} × {fallen.top_source})"


def by_minute(report: Report) -> str:
    """Return the sentence that marks figures of telemetry by minute, after a blank. Empty for figures of seconds."""
    is_by_minute = report.telemetry is not None and report.telemetry.is_by_minute
    return " By minute: the energy of a minute is divided by the activities' share of its time." if is_by_minute else ""


def energy_by_activity(report: Report, fallen: Waterfall) -> str:
    """Return the energy of the accelerators (without any: of the processors) by activity as a sentence."""
    if fallen.joules is None:
        return "Energy of these parts: not measured."
    parts = ", ".join(f"{part.activity} {units.si(part.joules, 'J')}" for part in fallen.energy)
    text = f"Energy of the {fallen.energy_of}, {units.si(fallen.joules, 'J')}: {parts}. Epochs are not split up."
    return text + by_minute(report)


SINGULAR = {"meters": "meter", "accelerators": "accelerator", "processors": "processor"}
"""Names of one device of each scope of energy."""


def power(report: Report) -> str | None:
    """Return the mean power in the valid window as text. None if no power was measured."""
    energy = report.energy
    if energy is None:
        return None
    best = energy.best
    whose = f"{units.count(best.devices)} {best.scope if best.devices != 1 else SINGULAR[best.scope]}"
    text = (
        f"power {by_name('power').text(report)} of {whose}, {units.share(best.measured_share)} of the window measured"
    )
    if best.flops_per_watt is not None:
        alone = "" if best.scope == "meters" else " of these only"
        text += f" · {by_name('flops-per-watt').text(report)}{alone}"
    return f"{text} · {energy_level(energy)}"


def energy_level(energy: EnergyFacts) -> str:
    """Return the EEHPC level of the power measurement as text: `EEHPC Level 1`, or `below EEHPC Level 1, …`."""
    if energy.level.level:
        return f"EEHPC Level {energy.level.level}"
    if any(aspect.name == SENSORS and not aspect.level for aspect in energy.level.aspects):
        return "meter alone: no EEHPC level, which the Green500 requires"
    return "below EEHPC Level 1, which the Green500 requires"


def when(run: RunFacts) -> str:
    """Return the start of a run as text in UTC: `21 November 2026, 12:00 UTC`. `virtual clock` for a simulated run."""
    if run.is_simulated:
        return "virtual clock"
    return datetime.fromtimestamp(run.started_unix, UTC).strftime("%-d %B %Y, %H:%M UTC")


def end(run: RunFacts) -> str:
    """Return text on the end of a run: its declared length, the time and reason of an early end, or that it has not ended."""
    match run.end_reason:
        case "duration":
            return f"ran its declared {units.duration(run.duration_seconds)}"
        case None:
            return (
                f"not ended; the journal reaches to {units.duration(run.end)} of {units.duration(run.duration_seconds)}"
            )
        case reason:
            return f"ended after {units.duration(run.end)} of {units.duration(run.duration_seconds)}: {reason}"


def standing_parts(report: Report) -> tuple[str, str]:
    """Return the validity of a run in the ranking as (title, explanation): simulated, outside, or no broken rule."""
    source_run = followed(report.run)
    follows = "" if source_run is None else f" {source_run}"
    if report.run.is_simulated:
        return (
            "Simulated",
            f"virtual clock, invented learning curves. No work was done, and no such run is ever ranked.{follows}",
        )
    if report.breaches:
        return "Outside the ranking", f"{_not_met(report.breaches)}.{follows}"
    return "No rule of a ranked run is broken, as far as this journal tells.", ""


def broken_rules(report: Report) -> tuple[str, list[str]]:
    """Return a heading and the ranking's rules that a run breaks or that could not be checked, as texts with the remedies."""
    broken = [breach for breach in report.breaches if breach.id != REAL_MACHINE]
    listed = rule_lines(broken)
    if not report.run.is_simulated or not broken:
        return "", listed
    return f"A real run of this configuration could not be ranked either: {_not_met(broken)}.", listed


def ranking_options(breaches: Sequence[RuleViolation]) -> str | None:
    """Return the command that starts a run for the ranking. None if it would fix at most one broken rule."""
    configured = [each for each in breaches if not each.is_unknown and (each.option or each.id in _OF_THE_SCHEDULE)]
    if len(configured) < 2:
        return None
    return f"{command()} schedule=ranking dataset=imagenet dataset.root=…"


def rule_lines(broken: Sequence[RuleViolation]) -> list[str]:
    """Return each broken rule as one line with the value and the fix. Options of one part share a line."""
    return list(map(_in_one_line, _together(broken)))


def _together(broken: Sequence[RuleViolation]) -> list[list[RuleViolation]]:
    """Group breaches by line: options of one part of the configuration share a line, separately for broken and unknown."""
    lines: dict[tuple[object, ...], list[RuleViolation]] = {}
    for index, breach in enumerate(broken):
        key = (index,) if breach.option is None else (breach.option.split(".")[0], breach.is_unknown)
        lines.setdefault(key, []).append(breach)
    return list(lines.values())


def _in_one_line(breaches: Sequence[RuleViolation]) -> str:
    first = breaches[0]
    found = first.found if first.is_unknown else ", ".join(breach.found for breach in breaches)
    remedies = ", ".join(dict.fromkeys(breach.remedy for breach in breaches))
    return f"{', '.join(breach.rule for breach in breaches)}; found: {found}; to fix it: {remedies}"


def _not_met(breaches: Sequence[RuleViolation]) -> str:
    unknown = sum(breach.is_unknown for breach in breaches)
    broken = len(breaches) - unknown
    parts = []
    if broken:
        parts.append(f"{broken} rule{' of a ranked run is' if broken == 1 else 's of a ranked run are'} not met")
    if unknown:
        of_what = "" if broken else " of a ranked run"
        parts.append(f"{unknown} rule{'' if unknown == 1 else 's'}{of_what} could not be checked")
    return ", ".join(parts)


def flattened(tree: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a nested configuration or description as (dotted name, readable value) pairs, in order."""
    return of_run.flattened(tree, written=_plain)


UNKNOWN = frozenset({"file_system", "source", "size_bytes"})
"""Properties that every object has. A missing value means unknown."""


UNITS = ("_bytes_per_second", "_bytes", "gibibytes", "_seconds", "_flops", "_celsius", "_watts", "_mhz", "_unix")
"""Suffixes of names with a unit. They are dropped if the value shows its unit."""


def part(name: str) -> str:
    """Return a dotted name as words, without its unit: `storage.run.size_bytes` becomes `storage · run · size`."""
    parts = []
    for each in name.split("."):
        unit = next((unit for unit in UNITS if each.endswith(unit)), "")
        parts.append("devices" if each == "accelerators" else each.removesuffix(unit).replace("_", " ").strip())
    return " · ".join(filter(None, parts))


def option(name: str, value: str) -> str:
    """Value of an option as text. Names that end with `_seconds` are times: `30 s`, from 60 s on `3600 (1 h 00 min)`."""
    if not name.endswith("_seconds"):
        return value
    try:
        seconds = float(value)
    except ValueError:
        return value
    return f"{value} ({units.duration(seconds)})" if seconds >= 60 else f"{value} s"


def _plain(path: str, value: Any) -> str:
    name = path.rpartition(".")[2]
    match value:
        case None:
            return "unknown" if name in UNKNOWN else "none"
        case bool():
            return "yes" if value else "no"
        case int() | float() if name.endswith("_bytes"):
            return units.size(value)
        case int() | float() if name.endswith("gibibytes"):
            return units.size(value * 2**30)
        case int() | float() if name.endswith("_bytes_per_second"):
            return units.si(value, "B/s")
        case int() | float() if "matmul_flops" in path:
            return units.flops_per_second(value)
        case float():
            return f"{value:g}"
        case {} | []:
            return "none"
        case list():
            return ", ".join(_plain("", each) for each in value)
        case dict():
            return json.dumps(value)
        case _:
            return str(value)


def checkpoints(kept: KeptCheckpoints) -> str:
    """Return text on the number and size of the run's checkpoint files, kept and removed, with the path of the best one."""
    if kept.best is None:
        text = f"kept {units.count(kept.files) if kept.files else 'none'}"
    else:
        description = "the best" if kept.keep == "best" else f"all {units.count(kept.files)}"
        best = f"{kept.best}, accuracy {units.share(kept.accuracy or 0.0, 2)} after epoch {kept.epoch} of trial {kept.trial}"
        graph = f", its graph in {kept.graph}" if kept.graph else ""
        text = (
            f"kept {description}, {units.size(kept.bytes)} ({'' if kept.keep == 'best' else 'the best: '}{best}{graph})"
        )
    text += (
        f"; removed {units.count(kept.removed_files)}, {units.size(kept.removed_bytes)}" if kept.removed_files else ""
    )
    return text + (f"; {kept.not_removed} could not be removed" if kept.not_removed else "")


SIMULATED = "simulated"
"""Device name of a simulated worker."""


def hardware(machines: Hardware) -> str:
    """Return text on the machine: `8 × NVIDIA A100-SXM4-80GB on 1 host · bf16 · horovod 0.28.1 (nccl)`."""
    if not machines.devices:
        return "no worker came up"
    devices = " and ".join(machines.devices)
    hosts = units.counted(machines.hosts, "host")
    if machines.devices == (SIMULATED,):
        return f"{units.count(machines.accelerators)} simulated accelerators on {hosts}"
    if machines.are_accelerators:
        first = f"{units.count(machines.accelerators)} × {devices} on {hosts}"
    else:
        first = f"{units.counted(machines.accelerators, 'process', 'processes')} on {devices}, {hosts}"
    precisions = " and ".join(machines.precisions) or "no precision known"
    return " · ".join((first, precisions, " and ".join(machines.collectives)))


def source(report: Report) -> str:
    """Return name and start of the run and its machine as text, for the line below a figure."""
    return sanitize(f"run {report.run.name}, {when(report.run)} · {hardware(report.hardware)}")
