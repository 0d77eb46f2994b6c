"""95 % interval of a score, from the slowest variations of the cluster's rate ÷ expected rate, with Student's t.

Trials and disturbances make consecutive rates similar. The variance is therefore estimated at the lowest frequencies of the
window (equal-weighted cosine estimator of the long-run variance: Lazarus, Lewis, Stock and Watson, Journal of Business &
Economic Statistics 36, 2018). Measured coverage: `python -m benchmarks.interval_coverage`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from aiperf.accounting.expected_rate import COMPONENTS, Work, relative_expected_rates
from aiperf.accounting.intervals import Real, Window, share_inside
from aiperf.accounting.work_log import WorkLog
from aiperf.units import change as relative_change
from aiperf.units import duration

METHOD = 4
"""Version of this statistic. 1 was a bootstrap over 40 blocks. 2 used batch means or the workers as a sample. It missed
disturbances shared by all workers. 3 contained the growth of the networks."""
STUDENTS_T = 0.95 * math.sqrt(2 / (1 - 0.95**2))
"""97.5 % quantile for two degrees of freedom, 4.303."""
WIDENING = 1.1
"""Factor on the standard error: a disturbance is weaker in these components than in the mean."""
WIDENING_OF_RATIO = 1.2
"""The same for rate ÷ expected rate, which the luck of the networks no longer widens."""
LEAST_SECONDS = 36_000.0
"""Minimum length of the window in seconds: five times the longest assumed correlation time of a machine, 2 h."""
FEWEST_UNITS = 8
"""Minimum number of consecutive trials, or of consecutive epochs in a run of one trial."""
BLOCKS = 66
"""Equal parts of the window in which a lasting step is searched."""
STEP_LIMIT = 4.5
"""Robust standard deviations of the change from two blocks to the next two."""
SMALLEST_STEP = 0.01
"""Minimum size of a step as a share of the score."""
_NORMAL_QUARTILE = 0.6744897501960817


@dataclass(frozen=True, slots=True)
class Evenness:
    interval: tuple[float, float] | None
    basis: str
    """Source of the error estimate. Without an interval: the reason."""
    freedom: int | None = None


def evenness(work_log: WorkLog, inside: Window) -> Evenness:
    assert work_log.started is not None
    rows = work_log.intervals
    is_one_trial = work_log.started.config.get("limits", {}).get("trials") == 1
    unit, name = (rows.epoch, "epochs") if is_one_trial else (rows.trial, "trials")
    work = Work(rows.worker, unit, rows.start, rows.end, rows.flops, None if is_one_trial else _networks(work_log))
    return evenness_of(work, inside, work_log.down_seconds, name)


def _networks(work_log: WorkLog) -> Real:
    table = np.ones((max(work_log.trials, default=0) + 1, 3))
    for number, record in work_log.trials.items():
        table[number] = record.operations.training, record.parameters, record.batch_size
    return np.log(np.maximum(table, 1.0))


def evenness_of(work: Work, inside: Window, down_seconds: float, units: str = "trials") -> Evenness:
    """Return the score of `work` × (1 ± the 95 % half width of rate ÷ expected rate), or a reason for none."""
    if inside.seconds <= 0:
        return Evenness(None, "no valid window")
    score = float(np.sum(work.flops * share_inside(work.start, work.end, inside))) / inside.seconds
    if not score > 0:
        return Evenness(None, "no work was counted in the window")
    if down_seconds > 0:
        return Evenness(None, "the driver was down. One case does not show how often this happens")
    if inside.seconds < LEAST_SECONDS:
        return Evenness(
            None,
            f"the valid window lasts {duration(inside.seconds)}. It must last {duration(LEAST_SECONDS)} to show disturbances "
            "of hours that all workers share",
        )
    row = units_in_a_row(work, inside)
    if row < FEWEST_UNITS:
        return Evenness(None, f"{row:.1f} {units} in a row, and {FEWEST_UNITS} are needed")
    expected = relative_expected_rates(work, inside)
    even = work if expected is None else replace(work, flops=work.flops / expected)
    level = float(np.sum(even.flops * share_inside(work.start, work.end, inside))) / inside.seconds
    step = single_step(rates(even, inside, BLOCKS))
    if step is not None:
        block, change = step
        at = duration(inside.start + block * inside.seconds / BLOCKS)
        return Evenness(
            None,
            f"the rate changed once and for good, by {relative_change(change / level)} at about {at}. One change does not "
            "show how often this happens",
        )
    widening, ratio = (WIDENING, "the rate") if expected is None else (WIDENING_OF_RATIO, "rate ÷ expected rate")
    half = score * widening * _standard_width(even, inside) / level
    interval = (max(0.0, score - half), score + half)
    return Evenness(interval, f"the {COMPONENTS} slowest cosine components of {ratio}", COMPONENTS)


def units_in_a_row(work: Work, inside: Window) -> float:
    """Return how many units of typical length (Σ length² ÷ Σ length) fit into the window, one after the other."""
    reaches = (work.end > inside.start) & (work.start < inside.end)
    if not reaches.any():
        return 0.0
    # A trial continued on another worker counts as a separate unit, because lengths are times of one worker.
    order = np.lexsort((work.unit[reaches], work.worker[reaches]))
    worker, unit = work.worker[reaches][order], work.unit[reaches][order]
    firsts = np.flatnonzero(np.append(True, (worker[1:] != worker[:-1]) | (unit[1:] != unit[:-1])))
    begun = np.minimum.reduceat(work.start[reaches][order], firsts)
    done = np.maximum.reduceat(work.end[reaches][order], firsts)
    lengths = done - begun
    squares = math.fsum((lengths * lengths).tolist())
    return inside.seconds * math.fsum(lengths.tolist()) / squares if squares > 0 else 0.0


def rates(work: Work, inside: Window, blocks: int) -> Real:
    """Return the cluster's FLOPS in each of `blocks` equal parts of the window, shape (blocks,)."""
    length = inside.seconds / blocks
    edges = inside.start + length * np.arange(blocks + 1)
    share = share_inside(work.start, work.end, inside)
    middle = (np.maximum(work.start, inside.start) + np.minimum(work.end, inside.end)) / 2
    of_middle = np.clip(np.searchsorted(edges, middle, side="left") - 1, 0, blocks - 1)
    is_whole = (work.start >= edges[of_middle]) & (work.end <= edges[of_middle + 1])
    sums = np.bincount(of_middle[is_whole], (work.flops * share)[is_whole], minlength=blocks)
    start, end, flops = work.start[~is_whole], work.end[~is_whole], work.flops[~is_whole]
    for block in range(blocks):
        part = share_inside(start, end, Window(float(edges[block]), float(edges[block + 1])))
        sums[block] += float(np.sum(flops * part))
    return np.asarray(sums / length, dtype=np.float64)


def single_step(rate: Real) -> tuple[int, float] | None:
    """Return (index of the first part after the only lasting step, change of the mean rate). None for none or several."""
    block = _step(rate)
    if block is None:
        return None
    change = float(rate[block:].mean() - rate[:block].mean())
    level = rate.copy()
    level[block:] -= change
    level = np.delete(level, [block - 1, block])  # the step may be inside one of them
    return (block, change) if _step(level) is None else None


def _step(rate: Real) -> int | None:
    pairs = (rate[1:] + rate[:-1]) / 2
    sizes = np.abs(pairs[2:] - pairs[:-2])
    largest = int(np.argmax(sizes))
    usual = float(np.median(sizes)) / _NORMAL_QUARTILE
    return largest + 2 if sizes[largest] > max(STEP_LIMIT * usual, SMALLEST_STEP * float(rate.mean())) else None


def _standard_width(work: Work, inside: Window) -> float:
    """Return t · root mean square of the slowest cosine components of the rate."""
    amount = work.flops * share_inside(work.start, work.end, inside)
    start = (np.maximum(work.start, inside.start) - inside.start) / inside.seconds
    end = (np.minimum(work.end, inside.end) - inside.start) / inside.seconds
    middle, half = (start + end) / 2, np.maximum(0.0, end - start) / 2
    squares = 0.0
    for number in range(1, COMPONENTS + 1):
        # Mean of cos(pi · number · x) over an interval. np.sinc(x) is sin(pi · x) ÷ (pi · x).
        cosine = np.cos(math.pi * number * middle) * np.sinc(number * half)
        squares += 2 * (float(np.sum(amount * cosine)) / inside.seconds) ** 2
    return STUDENTS_T * math.sqrt(squares / COMPONENTS)
