"""Comparison of a run's score with that of tools/verify_standalone.py, which was written from docs/benchmark.md alone."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from aiperf.accounting.error_figures import error_figures
from aiperf.accounting.intervals import share_inside
from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkLog, window

EQUAL = (
    "flops_per_second",
    "cumulative_flops_per_second",
    "regulated_flops_per_second",
    "error",
    "window_seconds",
    "trials_finished",
    "rounds",
    "busy_share",
    "wasted_flops",
    "valid",
)


def differences(kept: WorkLog, again: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the pairs of figures that differ. All are compared to the last digit, and the interval to nine digits.

    `again`: figures of the second implementation.
    """
    errors = error_figures(kept, 0.3)
    scored = asdict(score(kept)) | {"held_out_error": errors.held_out, "mean_error": errors.area}
    scored |= {"operations_per_worker": per_worker(kept)}
    expected = {name: again[name] for name in (*EQUAL, "held_out_error", "mean_error", "operations_per_worker")}
    for name in ("flops_per_second_interval", "regulated_flops_per_second_interval"):
        expected[name] = None if again[name] is None else pytest.approx(again[name], rel=1e-9, abs=1e-9)
    return {name: (scored[name], value) for name, value in expected.items() if scored[name] != value}


def per_worker(kept: WorkLog) -> dict[int, float]:
    """Return each worker's counted operations inside the window."""
    rows, inside = kept.intervals, window(kept)
    counted = rows.flops * share_inside(rows.start, rows.end, inside)
    return {int(one): math.fsum(counted[rows.worker == one].tolist()) for one in np.unique(rows.worker)}
