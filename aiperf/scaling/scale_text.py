"""Text for the terminal and JSON of the results of `scale`, with its five conclusions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from fractions import Fraction
from statistics import fmean
from typing import Any

import msgspec

from aiperf.page.section import Cell, Items, Part, Table, numbers, rows, table, texts
from aiperf.scaling.batch import BatchCurve, BatchStudy
from aiperf.scaling.bound import BoundParts
from aiperf.scaling.efficiency import ABOVE_LINEAR, ScalingPair, images_per_second
from aiperf.scaling.elsewhere import PredictedPoint, ReportedPoint
from aiperf.scaling.option_ratios import OptionValue
from aiperf.scaling.point import Point
from aiperf.scaling.study import ScalingStudy
from aiperf.units import NOT_MEASURED, change, change_interval, duration, share


def scale_json(study: ScalingStudy) -> dict[str, Any]:
    """Return the results of `scale` as the JSON object of --json. `seconds_per_image` is in accelerator-seconds."""
    points = []
    for each in study.points:
        lines = each.seconds_per_image(study.evaluation)
        points.append(
            {
                **{name: getattr(each, name) for name in ("run", "network", "data", "precision", "threads")},
                **{name: getattr(each, name) for name in ("is_simulated", "accelerators", "hosts", "batch")},
                **{name: getattr(each, name) for name in ("global_batch", "quality", "steps_to_target")},
                **asdict(each.machine),
                "images_per_second": each.images_per_second(study.evaluation),
                "seconds_per_image": {line: float(seconds) for line, seconds in lines.items()},
                "mfu": each.mfu(study.evaluation),
                "images_per_joule": each.images_per_joule(study.evaluation),
                "warnings": each.warnings,
            }
        )
    pairs = [] if study.scaling is None else [asdict(each) for each in study.scaling.pairs]
    ratios = study.ratios
    return {
        "scaling": None if study.scaling is None else study.scaling.form,
        "evaluation": float(study.evaluation),
        "points": points,
        "pairs": [{"from": each.pop("base"), "to": each.pop("accelerators"), **each} for each in pairs],
        "by": None if ratios is None else {
            "option": ratios.option, "follows": ratios.follows, "values": [asdict(each) for each in ratios.values],
        },
        "batch": None if study.batch is None else asdict(study.batch),
        "bound": {
            "parts": {value: asdict(each) for value, each in study.parts.items()},
            "core_shares": [asdict(each) for each in study.core_shares],
        },
        "reported": [{**msgspec.structs.asdict(each), "step_seconds": each.step_seconds} for each in study.reported],
        "reported_curves": {label: asdict(curve) for label, curve in study.reported_curves.items()},
        "predicted": [asdict(each) for each in study.predicted],
        "sentences": sentences(study),
        "warnings": warnings(study),
    }  # fmt: skip


def parts(study: ScalingStudy) -> tuple[Part, ...]:
    """Return the results of `scale` without its conclusions and warnings, as tables and texts."""
    compared = "" if study.ratios is None else study.ratios.option
    if study.scaling is not None:
        compared = f"{study.scaling.form} scaling"
    counted = {Fraction(0): "out", Fraction(1): "in"}
    evaluation = counted.get(study.evaluation) or f"every {1 / study.evaluation} epochs"
    curves = [f"{label} (reported): {_curve(curve)}" for label, curve in study.reported_curves.items()]
    groups = _groups(study, f"{compared} of {len(study.points)} runs, evaluation {evaluation}")
    return (
        *([groups] if study.points else []),
        *(() if study.scaling is None else map(_pair, study.scaling.pairs)),
        *(
            ()
            if study.ratios is None
            else [_value(each, study.ratios.values[0].value, study.samples) for each in study.ratios.values[1:]]
        ),
        *(() if study.batch is None else [_batches(study.batch, study.samples)]),
        Items(
            (*map(_predicted, study.predicted), *(_reported(each, study.samples) for each in study.reported), *curves)
        ),
    )


def _predicted(each: PredictedPoint) -> str:
    gap = "" if each.gap is None else f", measured {each.gap:+.2f} points, which the model does not explain"
    return f"{each.accelerators} accelerators: predicted {share(each.efficiency)} of linear{gap}"


def _reported(each: ReportedPoint, samples: str) -> str:
    efficiency = "" if each.efficiency is None else f", {share(each.efficiency)} of linear"
    if each.serial_fraction is not None:
        efficiency += f", serial fraction {each.serial_fraction:.2e}"
    steps = each.steps_to_target
    seconds = "" if steps is None else f", {duration(steps * each.step_seconds)} to its target"
    return (
        f"{each.accelerators} accelerators ({each.label}, reported): {each.images_per_second / each.accelerators:.0f} {samples}"
        f"/s of each, a step {each.step_seconds * 1e3:.1f} ms{efficiency}{seconds}. Its lines are unknown"
    )


def sentences(study: ScalingStudy) -> list[str]:
    """Return the five conclusions of `scale` as sentences. Empty for reported points alone, whose lines are unknown."""
    if not study.points:
        return []
    return [*_left(study), _best_batch(study.batch, study.samples), _precision(study), _bound(study)]


def warnings(study: ScalingStudy) -> list[str]:
    """Return warnings about doubtful results of `scale`, one sentence each. Empty if there are none."""
    if study.ratios is not None and study.ratios.follows:
        return [
            f"Warning: {', '.join(study.ratios.follows)} changed together with {study.ratios.option}. Their effects are not "
            "separated."
        ]
    if study.scaling is None:
        return []
    lines = []
    if study.scaling.is_amdahl_refuted:
        lines.append("The serial fraction falls with more accelerators, which does not follow Amdahl's law.")
    above = [each.accelerators for each in study.scaling.pairs if each.efficiency > ABOVE_LINEAR]
    if above:
        lines.append(
            f"Warning: above 105 % of linear with {', '.join(map(str, above))} accelerators. Causes are a cache that holds "
            "more of the data, a faster clock (turbo), or other programs during the smaller runs."
        )
    return lines


def _pair(pair: ScalingPair) -> Table:
    caption = (
        f"{pair.base} to {pair.accelerators} accelerators: {share(pair.efficiency)} of linear{_of_rounds(pair)}, with "
        f"evaluation {share(pair.efficiency_with_evaluation)}, speed-up {pair.speed_up:.3f}, serial fraction "
        f"{pair.karp_flatt:.2e}"
    )
    lost = [(line, f"{points:+z.2f} points lost") for line, points in pair.points_lost.items()]
    return rows(f"lost-{pair.accelerators}", caption, ("", ">"), lost)


def _groups(study: ScalingStudy, caption: str) -> Table:
    groups, of = study.groups.values(), study.evaluation
    columns = (
        texts("runs", [Cell(value, unfolds=_warned(runs)) for value, runs in study.groups.items()]),
        numbers(f"{study.samples}/s", [images_per_second(runs, of) for runs in groups], "{:.1f}".format),
        texts("MFU", [_mfu(runs, of) for runs in groups]),
        texts(
            f"{study.samples}/J",
            [_mean([each.images_per_joule(of) for each in runs], "{:.3g}".format) for runs in groups],
        ),
        numbers("quality", [fmean(each.quality for each in runs) for runs in groups], "{:.4f}".format),
    )
    return table("groups", caption, columns)


def _warned(runs: Sequence[Point]) -> tuple[str, ...]:
    return tuple(f"Warning of {each.run}: {text}" for each in runs for text in each.warnings)


def _mfu(runs: Sequence[Point], evaluation: Fraction) -> str:
    declared = " (declared peak)" if any(each.machine.is_peak_declared for each in runs) else ""
    return f"{_mean([each.mfu(evaluation) for each in runs], share)}{declared}"


def _mean(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    known = [each for each in values if each is not None]
    return shown(fmean(known)) if len(known) == len(values) else NOT_MEASURED


def _value(value: OptionValue, first: str, samples: str) -> Table:
    quality = NOT_MEASURED if value.quality_change is None else _change(value)
    caption = f"{value.value}: {value.ratio:.3f} times the {samples}/s of {first}{_of_rounds(value)}, quality {quality}"
    blocks = value.block_ratios if len(value.block_ratios) > 1 else {}
    return rows(
        f"value-{value.value}", caption, ("", ">"), [(block, f"{ratio:.3f}") for block, ratio in blocks.items()]
    )


def _change(value: OptionValue) -> str:
    compared = value.quality_change
    assert compared is not None, "the caller has asked"
    if compared.interval is None or compared.p_value is None:
        return f"{change(compared.relative)}, not tested: it needs two runs of each"
    return (
        f"{change(compared.relative)}, 95 % interval {change_interval(*compared.interval)}, p = {compared.p_value:.2g}"
    )


def _batches(batches: BatchStudy, samples: str) -> Table:
    footnote = "" if batches.curve is None else _curve(batches.curve)
    points, ends = batches.points, [each.next_run_seconds for each in batches.points]
    columns = (
        numbers(samples, [each.global_batch for each in points], str),
        numbers(f"{samples}/s", [each.images_per_second for each in points], "{:.0f}".format),
        texts("steps", [", ".join(map(str, each.steps)) or "none" for each in points]),
        texts("not reached", [f"{each.not_reached} of {each.not_reached + len(each.steps)} runs" for each in points]),
        numbers("to the target", [each.seconds for each in points], duration),
        texts("another run", ["—" if each is None else " to ".join(map(duration, each)) for each in ends]),
        texts("region", [each.region or "—" for each in points]),
    )
    caption = f"batches to a quality of {batches.target:g}, learning rate {batches.learning_rates}"
    return table("batches", caption, columns, footnote)


def _curve(curve: BatchCurve) -> str:
    low, high = ("no end" if end is None else f"{end:.0f}" for end in curve.interval)
    return f"S = {curve.least_steps:.1f}·(1 + {curve.critical_batch:.0f}/B), 95 % interval of B_c from {low} to {high}"


def _left(study: ScalingStudy) -> list[str]:
    if study.scaling is None:
        return [
            "How much is left with more accelerators was not measured. Runs with several trainer.ranks show it.",
            "What takes the rest was not measured.",
        ]
    last = study.scaling.pairs[-1]
    worst = max(last.points_lost, key=lambda line: last.points_lost[line])
    return [
        f"With {last.accelerators} accelerators {share(last.efficiency)} of linear is left{_of_rounds(last)}.",
        f"Most was lost in {worst}: {last.points_lost[worst]:.1f} of {100 - 100 * last.efficiency:.1f} points."
        if last.efficiency < 1
        else "No points of linear were lost.",
    ]


def _best_batch(batches: BatchStudy | None, samples: str) -> str:
    if batches is None:
        return "The best batch was not measured. A sweep over batch.default with benchmark.target_quality shows it."
    if batches.best is None:
        return f"No batch reached a quality of {batches.target:g} in every run."
    best = next(each for each in batches.points if each.global_batch == batches.best)
    assert best.seconds is not None, "the best batch has seconds"
    between = (
        "no interval: one run"
        if best.next_run_seconds is None
        else "another run: " + " to ".join(map(duration, best.next_run_seconds))
    )
    equal = f" Not significantly slower: {', '.join(map(str, batches.equal_to_best))}." if batches.equal_to_best else ""
    gains = ", ".join(f"{factor:.2f} with {times} times the accelerators" for times, factor in batches.doublings)
    more = (
        f" From there a run would be faster by a factor of {gains}, if every step took the same time." if gains else ""
    )
    return (
        f"The best batch is {batches.best} {samples}, {duration(best.seconds)} to the target ({between}).{equal}{more}"
    )


def _precision(study: ScalingStudy) -> str:
    if study.ratios is None or study.ratios.option != "trainer.precision":
        precisions = ", ".join(sorted({each.precision for each in study.points}))
        return f"Precisions were not compared. All runs: {precisions}."
    first, *others = study.ratios.values
    compared = [
        f"{each.value} trains {each.ratio:.2f} times as fast as {first.value}{_of_rounds(each)}, quality "
        f"{_change(each) if each.quality_change else NOT_MEASURED}"
        for each in others
    ]
    return f"Precision: {'. '.join(compared)}."


def _bound(study: ScalingStudy) -> str:
    value, parts = list(study.parts.items())[-1]
    runs = f"{value} accelerators" if study.ratios is None else f"{study.ratios.option}={value}"
    one = f"Time with {runs}: {_parts(parts)}."
    texts = []
    for each in study.core_shares:
        speed = f"{study.samples}/s {each.speed_ratio:.2f}"
        ratios = f"memory {each.memory_ratio:.2f}, matrix product {each.product_ratio:.2f}, {speed}"
        if each.share is None:
            texts.append(f"From {each.first} to {each.other} no share of the cores is given: {each.lacks}.")
            continue
        between = "" if each.interval is None else f" ({share(each.interval[0])} to {share(each.interval[1])})"
        least = study.parts[each.first].least_arithmetic
        other = "" if least is None else f", {100 * (each.share - least):+.1f} points from its least arithmetic"
        texts.append(
            f"From {each.first} to {each.other} ({ratios}) {share(each.share)}{between} of the old time was bound by the "
            f"cores and not by the memory{other}."
        )
    return " ".join([*texts, one])


def _parts(parts: BoundParts) -> str:
    if parts.least_arithmetic is None or parts.least_memory is None:
        steps = {f"steps (roofline {NOT_MEASURED}: it needs a peak, a memory bandwidth and a graph)": parts.neither}
    else:
        steps = {
            "least arithmetic": parts.least_arithmetic,
            "least memory": parts.least_memory,
            "neither": parts.neither,
        }
    return ", ".join(f"{name} {share(part)}" for name, part in (steps | parts.others).items() if part)


def _of_rounds(pair: ScalingPair | OptionValue) -> str:
    if pair.interval is None:
        return f" (no interval: {pair.rounds} of 6 rounds)"
    low, high = (share(each) if isinstance(pair, ScalingPair) else f"{each:.3f}" for each in pair.interval)
    return f" ({low} to {high}, {pair.rounds} rounds)"
