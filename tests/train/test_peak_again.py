"""The matrix product that is measured after the end is the one of the beginning: as many processes, threads, the same type."""

from __future__ import annotations

from aiperf.train.peak_after_run import measured_again


def test_two_processes_measure_a_possible_rate_together() -> None:
    flops = measured_again(ranks=2, threads=1, precision="fp32", seconds=300.0)

    assert flops is not None
    assert 1e8 < flops < 1e14


def test_what_takes_too_long_is_not_measured() -> None:
    assert measured_again(ranks=1, threads=1, precision="fp32", seconds=0.0) is None
