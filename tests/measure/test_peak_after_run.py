"""Matrix product after a run: as many processes and threads as at its start, in the same data type."""

from __future__ import annotations

from aiperf.measure.peak_after_run import measured_again


def test_two_processes_measure_a_plausible_rate_together() -> None:
    flops = measured_again(ranks=2, threads=1, precision="fp32", seconds=300.0)

    assert flops is not None
    assert 1e8 < flops < 1e14


def test_no_rate_after_the_time_limit() -> None:
    assert measured_again(ranks=1, threads=1, precision="fp32", seconds=0.0) is None
