"""JSON and lines of the terminal for the scaling of runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aiperf.scaling.efficiency import ABOVE_LINEAR, Scaling, ScalingPair
from aiperf.units import share


def scale_json(found: Scaling) -> dict[str, Any]:
    """Return the content of --json. Rates and times are per image of the training set."""
    points = []
    for each in found.points:
        lines = each.seconds_per_image(found.evaluation)
        points.append(
            {
                **{name: getattr(each, name) for name in ("run", "network", "precision", "threads", "is_simulated")},
                **{name: getattr(each, name) for name in ("accelerators", "hosts", "batch", "global_batch", "quality")},
                "data": each.data,
                "images_per_second": float(each.accelerators / sum(lines.values())),
                "seconds_per_image": {line: float(seconds) for line, seconds in lines.items()},
            }
        )
    pairs = [{"from": each.base, "to": each.accelerators, **asdict(each)} for each in found.pairs]
    for pair in pairs:
        del pair["base"], pair["accelerators"]
    return {"scaling": found.form, "points": points, "pairs": pairs, "sentences": sentences(found)}


def scale_lines(found: Scaling) -> list[str]:
    """Return the lines of the terminal: one per pair and line of its time, and sentences."""
    lines = [
        f"{found.form} scaling of {len(found.points)} runs, evaluation counted to {share(float(found.evaluation), 0)}"
    ]
    for pair in found.pairs:
        lines.append(
            f"{pair.base} to {pair.accelerators} accelerators: {share(pair.efficiency)} of linear{_interval(pair)}, with "
            f"evaluation {share(pair.efficiency_with_evaluation)}, speed-up {pair.speed_up:.3f}, serial fraction "
            f"{pair.karp_flatt:.2e}"
        )
        lines += [f"  {line:<14} {points:+z7.2f} points lost" for line, points in pair.points_lost.items()]
    return [*lines, *sentences(found)]


def sentences(found: Scaling) -> list[str]:
    """Return the conclusions: what is left, what took the rest, and warnings."""
    last = found.pairs[-1]
    worst = max(last.points_lost, key=lambda line: last.points_lost[line])
    conclusions = [
        f"With {last.accelerators} accelerators {share(last.efficiency)} of linear is left{_interval(last)}.",
        f"Most was lost in {worst}: {last.points_lost[worst]:.1f} of {100 - 100 * last.efficiency:.1f} points."
        if last.points_lost[worst] > 0
        else "No line lost points.",
    ]
    if found.is_amdahl_refuted:
        conclusions.append("The serial fraction falls with more accelerators, which does not follow Amdahl's law.")
    above = [each.accelerators for each in found.pairs if each.efficiency > ABOVE_LINEAR]
    if above:
        conclusions.append(
            f"Warning: above 105 % of linear with {', '.join(map(str, above))} accelerators. Causes are a cache that holds "
            "more of the data, a faster clock (turbo), or other programs during the smaller runs."
        )
    return conclusions


def _interval(pair: ScalingPair) -> str:
    if pair.interval is None:
        return f" (no interval: {pair.rounds} of 6 rounds)"
    return f" ({share(pair.interval[0])} to {share(pair.interval[1])}, {pair.rounds} rounds)"
