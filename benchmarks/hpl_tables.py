"""Tables 1, 2 and 5 of the paper on the HPL model, recomputed from their own columns: `python -m benchmarks.hpl_tables 5`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from aiperf.hpl.model import PMAPS, READINGS, HplLayer, Prediction, Reading, System, difference, grids, predict

NUMBERS = (1, 2, 5)
"""Tables with figures that can be recomputed."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    row: str
    figure: str
    printed: float
    recomputed: float
    decimals: int = 1

    @property
    def is_equal(self) -> bool:
        """True if the recomputed figure, rounded to the printed decimals, equals the printed one."""
        return round(self.recomputed, self.decimals) == self.printed


def published() -> dict[str, Any]:
    """Return the figures that the paper prints: the JSON object in hpl_published.json, by table."""
    content: dict[str, Any] = json.loads(Path(__file__).with_name("hpl_published.json").read_text("utf-8"))
    return content


def recomputed(number: int) -> list[Recomputed]:
    printed = published()
    averages = printed["averages"]
    if number == 1:
        rows = printed["table_1"]
        found = [each for row in rows for each in _of_system(row, "", "model", row["rpeak"])]
        return [*found, Recomputed("average", "Diff", averages["table_1"], _mean_diff(rows, "model"))]
    if number == 2:
        rows = printed["table_2"]
        found = [each for row in rows for name in ("single", "layered") for each in _of_system(row, f"{name} ", name)]
        gpus = [row for row in rows if row["system"] not in ("Fugaku", "Marconi100")]
        for name, model, key, of in (
            ("average", "single", "single", rows),
            ("average", "layered", "layered", rows),
            ("average without Fugaku and Marconi100", "layered", "layered_without_fugaku_and_marconi100", gpus),
        ):
            found.append(Recomputed(name, f"{model} Diff", averages[key], _mean_diff(of, model)))
        return found
    rows = printed["table_5"]["rows"]
    diffs = [Recomputed(row_name(row), "Diff", row["diff"], _diff(row, "model", "measured"), 2) for row in rows]
    one = [abs(each.recomputed) for each, row in zip(diffs, rows, strict=True) if row["nodes"] == 1]
    several = [abs(each.recomputed) for each, row in zip(diffs, rows, strict=True) if row["nodes"] > 1]
    return [
        *diffs,
        Recomputed("average of 1 node", "Diff", averages["one_node"], fmean(one), 2),
        Recomputed("average of 2 to 4 nodes", "Diff", averages["several_nodes"], fmean(several), 2),
    ]


def _of_system(row: dict[str, Any], prefix: str, model: str, peak: float | None = None) -> Iterable[Recomputed]:
    name = row["system"]
    if peak is not None:
        yield Recomputed(name, "efficiency", row["efficiency"], 100 * row["rmax"] / peak)
    yield Recomputed(
        name, f"{prefix}model efficiency", row[f"{model}_efficiency"], 100 * row[model] / row["model_peak"]
    )
    diff = row["diff" if model == "model" else f"{model}_diff"]
    yield Recomputed(name, f"{prefix}Diff", diff, abs(_diff(row, model, "rmax")))


def _diff(row: dict[str, Any], model: str, measured: str) -> float:
    return 100 * difference(row[model], row[measured])


def _mean_diff(rows: Sequence[dict[str, Any]], model: str) -> float:
    return fmean(abs(_diff(row, model, "rmax")) for row in rows)


def row_name(row: dict[str, Any]) -> str:
    """The paper's name of a row of Table 5: `2N4G` for 2 nodes with 4 accelerators in total."""
    return f"{row['nodes']}N{row['accelerators']}G"


def system_of(row: dict[str, Any]) -> System:
    """Machine of a row of Table 5, from the one set of figures in hpl_published.json."""
    figures = published()["table_5"]
    accelerators, per_node = row["accelerators"], row["accelerators"] // row["nodes"]
    layers = [HplLayer("memory", 1, **figures["memory"])]
    if per_node > 1:
        layers.append(HplLayer("PCIe", per_node, **figures["node"]))
    if row["nodes"] > 1:
        layers.append(HplLayer("InfiniBand", accelerators, **figures["network"]))
    return System(row_name(row), accelerators, figures["gemm_flops"], tuple(layers))


def best_of_row(row: dict[str, Any], reading: Reading) -> Prediction:
    """Return the fastest prediction for a row of Table 5. `reading`: 'placed', 'panels' or 'printed' sums over layers."""
    system, nb = system_of(row), published()["table_5"]["nb"]
    tried = (predict(system, row["n"], nb, p, q, pmap, reading) for p, q in grids(system.ranks) for pmap in PMAPS)
    return max((each for each in tried if each is not None), key=lambda each: each.flops)


def one_layer_of_row(row: dict[str, Any]) -> Prediction:
    """Return the fastest prediction for a row of Table 5 if all its ranks are joined by its outermost layer alone."""
    system, figures = system_of(row), published()["table_5"]
    single = replace(system, layers=(replace(system.layers[-1], ranks=system.ranks),))
    tried = (predict(single, row["n"], figures["nb"], p, q) for p, q in grids(system.ranks))
    return max((each for each in tried if each is not None), key=lambda each: each.flops)


def mean_difference(reading: Reading | None, without: Sequence[str] = ()) -> float:
    """Return the mean absolute difference of predicted from measured GFLOPS over rows of Table 5, as a share."""
    rows = [row for row in published()["table_5"]["rows"] if row_name(row) not in without]
    made = ((row, one_layer_of_row(row) if reading is None else best_of_row(row, reading)) for row in rows)
    return fmean(abs(difference(each.flops / 1e9, row["measured"])) for row, each in made)


def _lines(number: int) -> Iterable[str]:
    yield f"{'':<38}{'figure':<26}{'printed':>10}{'recomputed':>12}"
    for each in recomputed(number):
        mark = "" if each.is_equal else "   differs"
        yield f"{each.row:<38}{each.figure:<26}{each.printed:>10g}{each.recomputed:>12.{each.decimals}f}{mark}"
    if number != 5:  # the figures behind the predictions of the other tables are not printed
        return
    yield f"{'GFLOPS, one set of figures':<28}{'N':>8}{'measured':>10}{'paper':>10}" + "".join(
        f"{each:>10}" for each in (*READINGS, "one layer")
    )
    for row in published()["table_5"]["rows"]:
        made = "".join(f"{best_of_row(row, each).flops / 1e9:>10,.0f}" for each in READINGS)
        made += f"{one_layer_of_row(row).flops / 1e9:>10,.0f}"
        yield f"{row_name(row):<28}{row['n']:>8}{row['measured']:>10}{row['model']:>10}{made}"
    for title, without in (("mean |Diff| to measured", ()), ("without 2N2G and 3N3G", ("2N2G", "3N3G"))):
        means = (100 * mean_difference(each, without) for each in (*READINGS, None))
        yield f"{title:<56}" + "".join(f"{each:>9.1f}%" for each in means)


if __name__ == "__main__":
    print(*_lines(int(sys.argv[1])), sep="\n")
