"""Predictions over all grids, the size of the matrix, HPL.dat and JSON."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from aiperf.errors import BadConfiguration
from aiperf.hpl.listing import as_json, half_width, hpl_dat, largest_order, predictions
from aiperf.hpl.model import HplLayer, System
from aiperf.hpl.system_file import figures

NODE = System(
    "node",
    8,
    1e12,
    (HplLayer("memory", 1, 1e-7, 1e11), HplLayer("bus", 4, 1e-6, 2e10), HplLayer("net", 8, 2e-6, 1e10)),
    peak_flops=1.2e12,
    memory_bytes=16e9,
)


def test_largest_order_fits_and_the_next_does_not() -> None:
    n = largest_order(NODE, 0.8, 192)

    assert n % 192 == 0
    assert 8 * n**2 <= 0.8 * 8 * 16e9 < 8 * (n + 192) ** 2


def test_fastest_grid_is_first() -> None:
    found = predictions(NODE, 40_000, 192)
    rates = [each.flops for each in found]

    assert rates == sorted(rates, reverse=True)
    assert {(each.p, each.q) for each in found} == {(1, 8), (2, 4), (4, 2), (8, 1)}


def test_json_has_the_documented_keys() -> None:
    found = as_json(predictions(NODE, 40_001, 192))

    assert list(found) == ["n", "n_padded", "nb", "reading", "predictions", "elasticities"]
    assert found["n_padded"] == 40_128
    first = found["predictions"][0]
    assert list(first) == ["p", "q", "pmap", "seconds", "gflops", "efficiency", "parts"]
    assert sum(part["seconds"] for part in first["parts"]) == pytest.approx(first["seconds"])
    assert set(first["parts"][0]) == {"part", "layer", "seconds"}


@pytest.mark.parametrize(
    ("system", "n", "grid", "words"),
    [
        (NODE, 10**6, None, r"N is at most \d+ in the memory of 8 ranks, but found 1000000"),
        (NODE, 100, None, r"N is at least NB .* = 320, but found 100"),
        (NODE, 10_000, (3, 4), "P x Q is at most 8, the ranks of 'node', but found 12"),
        (
            replace(NODE, layers=(HplLayer("bus", 3, 0, 1e9), HplLayer("net", 8, 0, 1e9))),
            10_000,
            (2, 4),
            "form blocks of P x Q, but found 3 of 'bus', 8 of 'net' for 2x4: choose another --grid",
        ),
    ],
)
def test_impossible_prediction_is_refused(system: System, n: int, grid: tuple[int, int] | None, words: str) -> None:
    with pytest.raises(BadConfiguration, match=words):
        predictions(system, n, 192, grid=grid)


def test_memory_is_needed_without_n() -> None:
    with pytest.raises(BadConfiguration, match="has no memory_bytes"):
        largest_order(replace(NODE, memory_bytes=None), 0.8, 192)


def test_band_of_a_pure_rate_is_its_interval() -> None:
    """One rank without exchange: FLOPS are proportional to the rate."""
    system = System("ideal", 1, 1e12, (HplLayer("memory", 1, 0.0, 1e300),))
    (found,) = predictions(system, 10_000, 192)

    assert half_width(found, figures(system), {"gemm_flops": (0.9e12, 1.1e12)}) == pytest.approx(0.1)


def test_hpl_dat_holds_orders_and_grids() -> None:
    lines = hpl_dat([4000, 8000], 192, [(1, 2), (2, 1)], "column").splitlines()

    assert len(lines) == 31
    assert [lines[at].split()[0] for at in (4, 7, 8, 9)] == ["2", "192", "1", "2"]
    assert lines[5].split()[:2] == ["4000", "8000"]
    assert (lines[10].split()[:2], lines[11].split()[:2]) == (["1", "2"], ["2", "1"])


def test_all_grids_of_a_large_machine_within_seconds() -> None:
    """Goal: 1 s. The limit here allows for a loaded machine."""
    system = System(
        "Fugaku", 152_064, 3.4e12, (HplLayer("HBM2", 1, 1e-7, 1e11), HplLayer("TofuD", 152_064, 1e-6, 6.8e9))
    )
    began = time.perf_counter()

    assert len(predictions(system, 20_459_520, 384)) >= 70
    assert time.perf_counter() - began < 5
