"""Runs of HPL and their predictions, grouped by matrix order, block size and grid: differences and a fitted bandwidth."""

from __future__ import annotations

import json
import math
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from aiperf.atomic_files import replace_file
from aiperf.errors import BadConfiguration
from aiperf.hpl.listing import half_width, hpl_dat, prediction_as_json, predictions
from aiperf.hpl.model import PARTS, Prediction, Reading, difference, predict
from aiperf.hpl.mpi import launch
from aiperf.hpl.output import SHORTEST, TIMER_SECONDS, Measured, parsed
from aiperf.hpl.system_file import SystemFile, changed, figures
from aiperf.progress import steps
from aiperf.statistics.estimate import Estimate, of_repeats
from aiperf.system.warnings import OTHERS_SHARE
from aiperf.units import change, duration, share

BINARIES = ("xhpl", "hpcc")
"""Programs to look for, the first choice first."""
_HPCC_INPUT = "##### separator #####\n0\n0\n0\n0\n"
"""Lines that hpcc reads after those of HPL: no further sizes of its other tests."""
FITTED = (1e5, 1e13)
"""Bytes per second between which --fit searches."""
STARTUP_SECONDS = 120.0
SLOWEST = 50.0
"""A run may take this many times its predicted time before it is ended."""


@dataclass(frozen=True, slots=True)
class Case:
    """Measured runs of one matrix order N, block size NB, process grid and placement of ranks (PMAP), and their prediction."""

    prediction: Prediction
    half_width: float
    """Half-width of the predicted FLOPS as a share, from the intervals of the calibration."""
    runs: tuple[Measured, ...]

    @property
    def gflops(self) -> float:
        """Mean of the measured rates in GFLOPS."""
        return fmean(run.gflops for run in self.runs)

    @property
    def estimate(self) -> Estimate | None:
        """Mean of the measured GFLOPS with its standard error. None for one run."""
        return of_repeats([run.gflops for run in self.runs])

    @property
    def diff(self) -> float:
        """Difference of predicted from measured GFLOPS as a signed share, predicted / measured − 1 (Diff of the paper)."""
        return difference(self.prediction.flops / 1e9, self.gflops)

    @property
    def measured_parts(self) -> dict[str, float] | None:
        """Mean measured seconds of each part (panel, update, …). None if HPL was built without its detailed timers."""
        parts = [run.parts for run in self.runs]
        known = [each for each in parts if each is not None]
        return {part: fmean(each[part] for each in known) for part in PARTS} if len(known) == len(self.runs) else None

    @property
    def largest_gap(self) -> tuple[str, float, float] | None:
        """Part with the largest difference, its predicted and its measured seconds.

        None if the parts were not measured, or no difference reaches the last place of HPL's timers.
        """
        measured = self.measured_parts
        if measured is None:
            return None
        both = [(part, self.prediction.seconds_of(part), measured[part]) for part in PARTS]
        largest = max(both, key=lambda each: abs(each[1] - each[2]))
        return largest if abs(largest[1] - largest[2]) >= TIMER_SECONDS else None

    @property
    def no_gap(self) -> str:
        """Reason for a missing largest gap."""
        if self.measured_parts is None:
            return "no detailed timers"
        return f"no part differs by {TIMER_SECONDS} s, the last place of HPL's timers"

    @property
    def others_share(self) -> float | None:
        """Largest share of the processor time that other programs used beside a run, if it spoils the figure."""
        largest = max(run.others_share for run in self.runs)
        return largest if largest > OTHERS_SHARE else None

    def in_words(self) -> str:
        """Return the name of the case as text, matrix order and process grid: `N 8000, 1 x 2`."""
        made = self.prediction
        return f"N {made.n}, {made.p} x {made.q}{' column-major' if made.pmap == 'column' else ''}"

    def gap_in_words(self) -> str:
        """Return text for the user: predicted and measured GFLOPS, and the part of HPL with the largest difference."""
        made, gap = self.prediction, self.largest_gap
        head = f"{self.in_words()}: predicted {made.flops / 1e9:.4g} GFLOPS, measured {self.gflops:.4g} ({change(self.diff)})."
        if self.others_share is not None:
            head += f" Warning: other programs used up to {share(self.others_share, 0)} of the processors beside these runs."
        if self.measured_parts is None:
            return f"{head} This HPL has no detailed timers, which name the part (tools/build_hpl.sh)."
        if gap is None:
            return f"{head} {self.no_gap[:1].upper()}{self.no_gap[1:]}."
        part, predicted, measured = gap
        return f"{head} Largest gap: {part}, predicted {predicted:.3g} s, measured {measured:.3g} s."


def cases(of: SystemFile, runs: Iterable[Measured], reading: Reading) -> list[Case]:
    """Return measured runs grouped by matrix order, block size, grid and placement of ranks, each group with its prediction.

    `of`: rates and layers of the machine. `runs`: measured runs. `reading`: interpretation of the paper's sums over layers:
    'placed', 'panels' or 'printed' (docs/hpl.md). Raise BadConfiguration if a grid has more ranks than the machine, or the
    groups of a layer are no rectangles of the grid.
    """
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for run in runs:
        groups.setdefault((run.n, run.nb, run.p, run.q, run.pmap), []).append(run)
    compared = []
    for (n, nb, p, q, pmap), group in sorted(groups.items()):
        if p * q > of.system.ranks:
            raise BadConfiguration(
                f"'{of.system.name}' has {of.system.ranks} ranks, but an output has {p} x {q}: give the right --system"
            )
        made = predict(of.system, n, nb, p, q, pmap, reading)
        if made is None:
            raise BadConfiguration(
                f"the ranks of a layer must divide P or Q of the grid, but no layer of '{of.system.name}' fits {p} x {q}: "
                "correct `ranks` of its layers"
            )
        compared.append(Case(made, half_width(made, figures(of.system), of.intervals), tuple(group)))
    return compared


def fit_bandwidth(of: SystemFile, layer: str, runs: Sequence[Measured], reading: Reading) -> SystemFile:
    """Return the machine with the bandwidth of one communication layer fitted to measured runs. Its calibration is left out.

    The fit minimizes the squares of logarithms of predicted ÷ measured GFLOPS. `of`: rates and layers of the machine. `layer`:
    name of the layer, such as `memory` or `network`. `reading`: interpretation of the paper's sums over layers: 'placed',
    'panels' or 'printed'. Raise BadConfiguration if there is no such layer, no run uses it, or a run has no prediction.
    """
    from scipy.optimize import minimize_scalar

    figure = f"{layer}.bytes_per_second"
    start = figures(of.system).get(figure)
    if start is None:
        changed(of.system, figure, 1.0)  # raises, with the nearest name
        raise AssertionError(figure)

    def error(logarithm: float) -> float:
        tried = SystemFile(changed(of.system, figure, math.exp(logarithm)))
        return math.fsum(math.log1p(case.diff) ** 2 * len(case.runs) for case in cases(tried, runs, reading))

    if not any(figure in case.prediction.elasticities() for case in cases(of, runs, reading)):
        raise BadConfiguration(
            f"a bandwidth is fitted to runs that use the layer, but no run crosses '{layer}': add larger grids"
        )
    ends = [math.log(each) for each in FITTED]
    best = minimize_scalar(error, bounds=ends, method="bounded")
    at_edge = min(abs(best.x - end) for end in ends) < 0.01 * (ends[1] - ends[0])
    if at_edge or min(map(error, ends)) <= best.fun:
        raise BadConfiguration(
            f"{figure} is fitted between {FITTED[0]:g} and {FITTED[1]:g}, but no value explains the outputs: the best is "
            f"{math.exp(best.x):.3g}, at the edge. Another figure is wrong: leave --fit out to see the largest gap"
        )
    return SystemFile(changed(of.system, figure, math.exp(best.x)))


def as_json(compared: Sequence[Case]) -> list[dict[str, Any]]:
    """Return predicted and measured values of all cases as JSON objects, in the order of the cases."""
    return [
        {
            "n": case.prediction.n,
            "nb": case.prediction.nb,
            "predicted": prediction_as_json(case.prediction),
            "predicted_half_width": case.half_width,
            "measured_gflops": [run.gflops for run in case.runs],
            "measured_seconds": [run.seconds for run in case.runs],
            "measured_parts": case.measured_parts,
            "diff": case.diff,
        }
        for case in compared
    ]


@dataclass(frozen=True, slots=True)
class HplMeasurement:
    cases: tuple[Case, ...]
    binary: str
    loads: tuple[float, ...]
    """Share of the processor time that other programs used, by launch."""


def find_binary(given: str | None) -> tuple[str, ...]:
    """Return the words that start HPL: `given` (a path, or a name with arguments), or else xhpl or hpcc from PATH."""
    for name in BINARIES if given is None else (given,):
        try:
            words = [name] if shutil.which(name) else shlex.split(name)
        except ValueError:  # a quotation without its end
            words = [name]
        if words and (program := shutil.which(words[0])) is not None:
            return (str(Path(program).resolve()), *words[1:])
    raise BadConfiguration(
        f"{given or ' or '.join(BINARIES)!r} is not installed. Give HPL by --binary, use tools/build_hpl.sh, or install hpcc "
        "(Debian: apt-get install hpcc)"
    )


def measure(
    of: SystemFile,
    template: str | None,
    threads: int,
    binary: Sequence[str],
    orders: Sequence[int],
    nb: int,
    grids: Sequence[tuple[int, int]],
    repeats: int,
    reading: Reading,
    folder: Path,
    tell: Callable[[str], None],
) -> HplMeasurement:
    """Write predictions.json, run HPL, and return predicted and measured runs. Return after the last run.

    Each repeat runs all grids, and each grid all sizes. The outputs of HPL are kept in the folder. `of`: rates and layers of
    the machine. `template`: launch command with `{ranks}` and `{threads}`. `threads`: threads of a rank. `binary`: words that
    start HPL. `orders`: values of N. `nb`: block size. `grids`: process grids (P, Q). `repeats`: number of repeats. `reading`:
    interpretation of the paper's sums over layers: 'placed', 'panels' or 'printed' (docs/hpl.md). `folder`: target folder,
    created if it does not exist. `tell`: called with a line of progress after each launch. Raise
    BadConfiguration if HPL fails, a result is not valid, or a size or grid has no prediction.
    """
    made = {(n, grid): predictions(of.system, n, nb, reading, grid)[0] for grid in grids for n in orders}
    text = json.dumps([{"n": n, **prediction_as_json(each)} for (n, _), each in made.items()], indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "predictions.json", text.encode())
    runs: list[Measured] = []
    loads = []
    seconds = repeats * sum(each.seconds for each in made.values())
    turns = [(repeat, place) for repeat in range(repeats) for place in range(len(grids))]
    for repeat, place in steps(f"launches (HPL takes {duration(seconds)} as predicted)", turns):
        p, q = grids[(place + repeat) % len(grids)]
        turned = [*orders[repeat % len(orders) :], *orders[: repeat % len(orders)]]
        input_text = hpl_dat(turned, nb, [(p, q)], made[orders[0], (p, q)].pmap)
        inputs = {"HPL.dat": input_text, "hpccinf.txt": input_text + _HPCC_INPUT}
        limit = STARTUP_SECONDS + SLOWEST * sum(made[n, (p, q)].seconds for n in orders)
        run = launch(template, p * q, threads, binary, limit, inputs, result="hpccoutf.txt")
        loads.append(run.others_share)
        name = f"HPL-{repeat + 1}-{p}x{q}.out"
        replace_file(folder / name, run.output.encode())
        output = parsed(run.output, name)
        if output.mixed is not None:
            raise BadConfiguration(
                f"HPL in double precision is measured, but {binary[0]!r} printed results of {output.mixed}: give its "
                "output to `hpl explain` with figures of its precision"
            )
        if output.too_short:
            raise BadConfiguration(
                f"--n is an order that takes {SHORTEST} s or more, but HPL printed 0.00 s for {output.too_short[0]}: "
                "choose a larger one"
            )
        runs += [replace(each, others_share=run.others_share) for each in output.runs]
        rates = ", ".join(
            f"N {each.n} {each.gflops:.4g} GFLOPS" for each in sorted(output.runs, key=lambda each: each.n)
        )
        tell(f"  {len(loads)} of {len(turns)}: {p} x {q}: {rates}")
    return HplMeasurement(tuple(cases(of, runs, reading)), shlex.join(binary), tuple(loads))
