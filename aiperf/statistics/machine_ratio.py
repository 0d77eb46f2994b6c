"""Ratio of the speeds of two machines, from the trials of one list that both trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from aiperf.statistics.estimate import deviation, quantile

BLOCKS = 4
"""Largest number of blocks. Disturbances last longer than a trial, so neighbouring trials are no independent sample. With 8 the
interval covered 78 % under disturbances of a minute, with 4 90 % (`python -m benchmarks.reference_pairs --modelled 1000`)."""


@dataclass(frozen=True, slots=True)
class MachineRatio:
    trials: int
    """Trials of the list that both runs finished, begun after the warm-up."""
    blocks: int
    """Blocks of successive trials. They are the sample."""
    ratio: float
    """Speed of the second machine ÷ that of the first: geometric mean."""
    interval: tuple[float, float] | None
    """95 % interval, by Student's t over the blocks. None below two blocks of two trials."""


def machine_ratio(first: Mapping[int, float], second: Mapping[int, float]) -> MachineRatio | None:
    """Compare the seconds that two machines took for each trial, by its place in the list. None without a common trial."""
    logs = [math.log(first[place] / second[place]) for place in sorted(first.keys() & second.keys())]
    if not logs:
        return None
    blocks = max(1, min(BLOCKS, len(logs) // 2))
    ends = [index * len(logs) // blocks for index in range(blocks + 1)]
    means = [fmean(logs[start:end]) for start, end in pairwise(ends)]
    middle = fmean(means)
    if blocks < 2:
        return MachineRatio(len(logs), blocks, math.exp(middle), None)
    half = quantile(blocks - 1) * deviation(means) / math.sqrt(blocks)
    return MachineRatio(len(logs), blocks, math.exp(middle), (math.exp(middle - half), math.exp(middle + half)))
