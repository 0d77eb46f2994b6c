"""Facts put into words: the phrases that page, terminal and tables share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aiperf import units
from aiperf.accounting.losses import Waterfall
from aiperf.plain import plain
from aiperf.ranking.breaches import REAL_MACHINE, Breach
from aiperf.report.facts import Report, RunFacts
from aiperf.system.energy import EnergyFacts
from aiperf.train.kept import KeptCheckpoints


def score_title(run: RunFacts) -> str:
    """What the score may be called."""
    return ("simulated " if run.is_simulated else "") + ("following score" if run.follows is not None else "score")


def followed(run: RunFacts) -> str | None:
    """`It searched for nothing: it trained 72 trials of '20261121-digits' in their order.`; None of a run that searched."""
    if run.follows is None:
        return None
    return (
        f"It searched for nothing: it trained the trials of '{plain(run.follows.run)}', {units.count(run.follows.trials)} in "
        f"all, in their order (hash {run.follows.last_hash[:12]}…)."
    )


def score(report: Report) -> str:
    """`41.2 TFLOPS`, or why there is none."""
    value = report.score.flops_per_second
    return "no valid window" if value is None else units.flops_per_second(value)


def score_interval(report: Report) -> str:
    """`95 %: 40.1 to 42.0 TFLOPS by how evenly this run went`, or why there is none."""
    between = report.score.flops_per_second_interval
    if between is None:
        return f"no 95 % interval: {report.score.interval_basis.removeprefix('none: ')}"
    return f"95 %: {units.interval(*between, 'FLOPS')} by how evenly this run went"


def settled(report: Report) -> str:
    """`1 %: 1 h 10 min (21 %)`, of the narrowest share; or that there was no window."""
    told = _settled(report)
    return told[-1] if told else "no valid window"


def settled_meaning(report: Report) -> str:
    """What that is, and the wider shares."""
    wider = "; ".join(_settled(report)[:-1])
    meaning = "when the running score came to stay so near to where it ended, and what part of the window had passed"
    return f"{meaning}; {wider}" if wider else meaning


def _settled(report: Report) -> list[str]:
    """Of each share, the widest first."""
    return [
        f"{units.share(each.share, 0)}: {units.duration(each.at)} ({units.share(each.part_of_window, 0)})"
        for each in report.settled
    ]


def interval_meaning(report: Report) -> str:
    """What the interval says, and what its sample was."""
    meaning = "how evenly this run went, not what another seed would give"
    if report.score.flops_per_second_interval is None:
        return f"{meaning}; {report.score.interval_basis}"
    return f"{meaning}; Student's t over {report.score.interval_basis}"


def regulated(report: Report) -> str:
    """The regulated score, or why there is none."""
    value = report.score.regulated_flops_per_second
    if value is not None:
        return units.flops_per_second(value)
    return "no evaluation" if report.score.error is None else "no valid window"


def error(report: Report) -> str:
    """The error, or why there is none."""
    return "no evaluation" if report.score.error is None else error_of(report.score.error, report.run)


def error_of(value: float, run: RunFacts) -> str:
    """`2.41 %`; where nothing was classified wrongly `≤ 0.14 % (no error in 360 images)`: fewer images cannot tell less."""
    images = run.dataset.get("validation_images")
    if isinstance(images, int) and images > 0 and value <= 1 / (2 * images):
        return f"≤ {units.error(value)} (no error in {units.count(images)} images)"
    return units.error(value)


def measured(run: RunFacts) -> str:
    """What an accuracy of this run is: nothing of a simulated one was measured."""
    return "simulated" if run.is_simulated else "measured"


OUTCOMES = {"epochs": "all its epochs", "early stop": "stopped early", "followed": "epochs as followed"}
"""Those of a trial that read better in other words."""


def outcome(told: str) -> str:
    """What became of a trial."""
    return OUTCOMES.get(told, told)


def instantaneous(report: Report) -> str:
    """The median of the parts of the window, or that there is none."""
    found = report.instantaneous
    if found is None:
        return "no valid window"
    return units.flops_per_second(found.median)


def ranks(report: Report) -> int:
    """Accelerators that MFU is of; without accelerators, processes."""
    inside = report.score.window_seconds
    return round(report.utilisation.accelerator_seconds / inside) if inside > 0 else 0


def trials_finished(number: int) -> str:
    """`1 trial finished`, `72 trials finished`."""
    return f"{units.count(number)} trial{'' if number == 1 else 's'} finished"


def peak(report: Report) -> str | None:
    """`144 GFLOPS per rank × 2`: what MFU is a share of; None where no peak is known."""
    used = report.utilisation
    if used.mfu is None or used.peak_flops is None:
        return None
    return f"{units.flops_per_second(used.peak_flops)} per rank × {units.count(ranks(report))}"


def noise(dataset: Mapping[str, object]) -> str | None:
    """`with added noise of 30 % of the pixel range`; None where nothing was added."""
    value = dataset.get("noise")
    return units.noise(value) if isinstance(value, float) and value > 0 else None


def share(value: float | None) -> str:
    """A part of one, or that it was not measured."""
    return units.NOT_MEASURED if value is None else units.share(value)


def busy(report: Report) -> str:
    """`98.3 %, of it communication 15.5 %`: what ranks wait for each other is busy time, but does not train."""
    text, communication = share(report.score.busy_share), report.utilisation.communication_share
    return f"{text}, of it communication {share(communication)}" if communication else text


def adjusted(report: Report) -> str:
    """The score had all planned accelerators been there all the time, or why it is not reported."""
    value = report.availability.adjusted_flops_per_second
    return "no valid window" if value is None else units.flops_per_second(value)


def availability_meaning(report: Report) -> str:
    """`83 % of the time of 16 planned accelerators was there; adjusted for it 12.3 GFLOPS, which is no score`."""
    there = report.availability
    if there.share is None:
        return "There is no valid window, or no accelerator in it."
    planned = f"{units.count(there.planned)} {'planned ' if there.is_declared else ''}accelerators"
    text = f"{share(there.share)} of the time of {planned} was there"
    if there.adjusted_flops_per_second is None:
        return f"{text}."
    return f"{text}; adjusted for it {adjusted(report)}, which is no score."


MOST_LOSSES = 3


def largest_losses(report: Report) -> str | None:
    """`clocks and kernels 61.0 %, search 3.2 % and input 1.1 % of 12.3 TFLOPS (dense peak of … in bf16 × 8)`; None where
    there is no waterfall, or nothing was lost."""
    fallen = report.losses
    if fallen is None or not fallen.largest:
        return None
    parts = [f"{loss.name} {units.share(loss.share)}" for loss in fallen.largest[:MOST_LOSSES]]
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"{listed} of {waterfall_top(fallen)}"


def waterfall_top(fallen: Waterfall) -> str:
    """`2.50 PFLOPS (8 × dense peak of NVIDIA A100-SXM4-80GB in bf16)`."""
    top = units.flops_per_second(fallen.top_flops_per_second)
    return f"{top} ({units.count(fallen.accelerators)} × {fallen.top_source})"


def energy_by_activity(fallen: Waterfall) -> str:
    """`Energy of the accelerators, 12.3 MJ: epochs 11.9 MJ, start-up 0.3 MJ.`, or that it was not measured."""
    if fallen.joules is None:
        return "Energy of these parts: not measured."
    parts = ", ".join(f"{part.activity} {units.si(part.joules, 'J')}" for part in fallen.energy)
    return f"Energy of the {fallen.energy_of}, {units.si(fallen.joules, 'J')}: {parts}; within epochs it cannot be told apart."


def power(report: Report) -> str | None:
    """`power 2.41 kW of 8 accelerators, 99.8 % of the window measured · 17.2 GFLOPS/W of these alone · below EEHPC Level 1: …`;
    None where none was measured."""
    energy = report.energy
    if energy is None:
        return None
    best = energy.best
    watts = units.NOT_MEASURED if best.watts is None else units.si(best.watts, "W")
    whose = f"{units.count(best.devices)} {best.scope if best.devices != 1 else best.scope.removesuffix('s')}"
    text = f"power {watts} of {whose}, {units.share(best.measured_share)} of the window measured"
    if best.flops_per_watt is not None:
        alone = "" if best.scope == "meters" else " of these alone"
        text += f" · {units.si(best.flops_per_watt, 'FLOPS/W')}{alone}"
    return f"{text} · {energy_level(energy)}"


def energy_level(energy: EnergyFacts) -> str:
    """`EEHPC Level 1`, or `below EEHPC Level 1, which the Green500 asks for`."""
    if energy.level.level:
        return f"EEHPC Level {energy.level.level}"
    return "below EEHPC Level 1, which the Green500 asks for"


def seconds(value: float | None) -> str:
    """A duration, or that it was not measured."""
    return units.NOT_MEASURED if value is None else units.duration(value)


def when(run: RunFacts) -> str:
    """The moment of the run's beginning, in UTC; a simulated run has none."""
    if run.is_simulated:
        return "virtual clock"
    return datetime.fromtimestamp(run.started_unix, UTC).strftime("%-d %B %Y, %H:%M UTC")


def end(run: RunFacts) -> str:
    """How the run came to its end."""
    match run.end_reason:
        case "duration":
            return f"ran its declared {units.duration(run.duration_seconds)}"
        case None:
            return (
                f"not ended; the journal reaches to {units.duration(run.end)} of {units.duration(run.duration_seconds)}"
            )
        case reason:
            return f"ended after {units.duration(run.end)} of {units.duration(run.duration_seconds)}: {reason}"


def standing(report: Report) -> str:
    """One line on whether the run may be ranked."""
    told = followed(report.run)
    follows = "" if told is None else f" {told}"
    if report.run.is_simulated:
        return f"Simulated: virtual clock, invented learning curves. No work was done, and no such run is ever ranked.{follows}"
    if report.breaches:
        return f"Outside the ranking: {_not_met(report.breaches)}.{follows}"
    return "No rule of a ranked run is broken, as far as this journal tells."


def broken_rules(report: Report) -> tuple[str, list[str]]:
    """The rules that keep the run out of the ranking, each with its remedy, and what heads them below `standing`.

    A simulated run is out by what it is; its list, if there is one, is that of a real run of its configuration, and has a
    heading that says so. Elsewhere `standing` is heading enough. Options of one part of the configuration share a line.
    """
    broken = [breach for breach in report.breaches if breach.id != REAL_MACHINE]
    listed = list(map(_in_one_line, _together(broken)))
    if not report.run.is_simulated or not broken:
        return "", listed
    return f"A real run of this configuration could not be ranked either: {_not_met(broken)}.", listed


def _together(broken: Sequence[Breach]) -> list[list[Breach]]:
    """Breaches by their lines: rules on options of one part of the configuration, broken or unknown, in one."""
    lines: dict[tuple[object, ...], list[Breach]] = {}
    for index, breach in enumerate(broken):
        key = (index,) if breach.option is None else (breach.option.partition(".")[0], breach.is_unknown)
        lines.setdefault(key, []).append(breach)
    return list(lines.values())


def _in_one_line(breaches: Sequence[Breach]) -> str:
    first = breaches[0]
    found = first.found if first.is_unknown else ", ".join(breach.found for breach in breaches)
    remedies = ", ".join(dict.fromkeys(breach.remedy for breach in breaches))
    return f"{', '.join(breach.rule for breach in breaches)}; found: {found}; to fix it: {remedies}"


def _not_met(breaches: Sequence[Breach]) -> str:
    unknown = sum(breach.is_unknown for breach in breaches)
    broken = len(breaches) - unknown
    parts = []
    if broken:
        parts.append(f"{broken} rule{' of a ranked run is' if broken == 1 else 's of a ranked run are'} not met")
    if unknown:
        of_what = "" if broken else " of a ranked run"
        parts.append(f"of {unknown} rule{'' if unknown == 1 else 's'}{of_what} it cannot be determined")
    return ", ".join(parts)


def flattened(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """A nested configuration or description as dotted names and plain texts; sizes in bytes for people."""
    rows: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            rows += flattened(value, f"{prefix}{name}.")
        elif _are_named(value):
            for each in value:  # things with names: what a host's folders lie on, its links
                parts = {part: told for part, told in each.items() if part != "name"}
                rows += flattened(parts, f"{prefix}{name}.{each['name']}.")
        else:
            rows.append((f"{prefix}{name}", _plain(f"{prefix}{name}", value)))
    return rows


def _are_named(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(each, Mapping) and each.get("name") for each in value)
    )


UNKNOWN = frozenset({"bits_per_second", "state", "file_system", "source", "size_bytes"})
"""What a thing of the machine always has: where there is no word of it, it is not known."""


UNITS = ("_bits_per_second", "_bytes", "_seconds", "_flops", "_celsius", "_watts", "_mhz", "_unix")
"""How names end that say a unit: where the figure stands with its unit the name need not."""


def part(name: str) -> str:
    """A dotted name of a description as words: `storage.run.size_bytes` is `storage · run · size`."""
    parts = []
    for each in name.split("."):
        unit = next((unit for unit in UNITS if each.endswith(unit)), "")
        parts.append(each.removesuffix(unit).replace("_", " "))
    return " · ".join(parts)


def option(name: str, value: str) -> str:
    """An option's value as it is given; a long time in hours and minutes beside it."""
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
        case int() | float() if "matmul_flops" in path:
            return units.flops_per_second(value)
        case int() | float() if name.endswith("bits_per_second"):
            return units.si(value, "bit/s")
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
    """`kept the best, 1.0 MB (checkpoints/trial-7.epoch-12.safetensors, accuracy 92.50 % …); removed 36, 337 MB`."""
    if kept.best is None:
        text = "kept none"
    else:
        what = "the best" if kept.keep == "best" else f"all {units.count(kept.files)}"
        best = f"{kept.best}, accuracy {units.share(kept.accuracy or 0.0, 2)} after epoch {kept.epoch} of trial {kept.trial}"
        graph = f", its graph in {kept.graph}" if kept.graph else ""
        text = f"kept {what}, {units.size(kept.bytes)} ({'' if kept.keep == 'best' else 'the best: '}{best}{graph})"
    text += (
        f"; removed {units.count(kept.removed_files)}, {units.size(kept.removed_bytes)}" if kept.removed_files else ""
    )
    return text + (f"; {kept.not_removed} could not be removed" if kept.not_removed else "")
