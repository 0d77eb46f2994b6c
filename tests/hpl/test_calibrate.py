"""Fits of the calibration, on readings with known figures."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.hpl.calibrate import Series, fit_link, fitted, parsed, remarks, require_this_node
from aiperf.hpl.mpi import HYBRID, launch
from aiperf.hpl.system_file import SystemFile

FACTS = {
    "ranks": "2",
    "ranks_per_host": "2",
    "nb": "192",
    "hosts_are_equal": "1",
    "blas": "OpenBLAS 0.3.21",
    "blas_kernels": "Haswell",
}
SIZES = [2**power for power in range(3, 27)]


def readings(gemm: float = 5e10, panel: float = 2e10, alpha: float = 1e-6, bandwidth: float = 4e9) -> list[Series]:
    made = []
    for rank in (0, 1):
        speed = 1.0 + 0.1 * rank  # rank 0 is the slowest
        for size in (128, 192, 256, 384):
            work = 2.0 * 192 * size**2
            made.append(Series("gemm", "together", rank, size, work, (work / gemm / speed + 1e-7 * size, 1.0)))
        for rows in (1024, 1536, 2048, 3072):
            work = 192.0**2 * (rows - 64)
            made.append(Series("panel", "together", rank, rows, work, (work / panel / speed + 2e-5,)))
        made += [
            Series("swap", "together", rank, 256, 1e6, (1e6 / 2e9 / speed,)),
            Series("triad", "together", rank, 1 << 17, 3e6, (3e6 / 1e10 / speed,)),
            Series("fma", "together", rank, 20000, 1e7, (1e7 / 1e11 / speed,)),
            Series("chase", "together", rank, 4096, 4096.0, (4096e-7 / speed,)),
        ]
    return made + [Series("node", "message", 0, size, size, (alpha + size / bandwidth,)) for size in SIZES]


def test_fit_returns_the_known_figures() -> None:
    system = fitted("made", 192, 8e9, FACTS, readings(), 0.0).system

    assert system.gemm_flops == pytest.approx(5e10, rel=1e-6)
    assert system.panel_flops == pytest.approx(2e10, rel=1e-6)
    assert system.swap_bytes_per_second == pytest.approx(2e9)
    assert [each.name for each in system.layers] == ["memory", "node"]
    assert system.layers[0].bytes_per_second == pytest.approx(1e10)
    assert system.layers[0].latency_seconds == pytest.approx(1e-7)
    assert system.layers[1].latency_seconds == pytest.approx(1e-6, rel=1e-6)
    assert system.layers[1].bytes_per_second == pytest.approx(4e9, rel=1e-6)
    assert system.memory_bytes == 4e9


@given(st.floats(1e-7, 1e-4), st.floats(1e8, 1e11), st.integers(8, 18), st.floats(1.5, 20))
def test_bandwidth_is_fitted_beyond_the_bend(alpha: float, bandwidth: float, power: int, faster: float) -> None:
    """Messages below the bend pass at a higher rate, as in the bucket of a limited link."""
    bend = 2**power
    seconds = [alpha + size / (bandwidth * faster) + max(0, size - bend) / bandwidth for size in SIZES]
    found = fit_link(SIZES, seconds, "net")

    effective = 1 / (1 / (bandwidth * faster) + 1 / bandwidth)
    assert found.bytes_per_second == pytest.approx(effective, rel=0.02)
    assert found.bandwidth_interval[0] <= found.bytes_per_second <= found.bandwidth_interval[1]


def test_negative_slope_is_refused() -> None:
    with pytest.raises(
        BadConfiguration, match=r"net\.bytes_per_second follows from a positive slope, but the fit gave -"
    ):
        fit_link(SIZES, [1.0 - size / 2**28 for size in SIZES], "net")


def test_slow_dgemm_is_reported_with_the_fix() -> None:
    found = fitted("made", 192, 8e9, FACTS, readings(), 0.25)

    assert any("DGEMM reaches 50 %" in each and "OPENBLAS_CORETYPE=SkylakeX" in each for each in remarks(found))
    assert remarks(found)[-1] == "load: other programs used 25 % of the processors during the calibration"


def test_unequal_hosts_are_refused() -> None:
    with pytest.raises(BadConfiguration, match="each host holds equally many ranks"):
        fitted("made", 192, 8e9, FACTS | {"hosts_are_equal": "0"}, readings(), 0.0)


def test_output_of_the_probe_is_complete_or_refused() -> None:
    text = "fact ranks 2\nseries gemm together 0 128 6291456 0.1 0.2\nend\n"
    facts, series = parsed(text)

    assert facts == {"ranks": "2"}
    assert series == [Series("gemm", "together", 0, 128, 6291456.0, (0.1, 0.2))]
    with pytest.raises(BadConfiguration, match="cut short"):
        parsed(text.removesuffix("end\n"))


def test_calibration_of_another_node_is_refused() -> None:
    made = fitted("made", 192, 8e9, FACTS, readings(), 0.0)
    require_this_node(made, Path("here.yaml"))

    node = made.calibration["node"]
    other = replace(made, calibration={**made.calibration, "node": {**node, "processors.cores": "1000"}})
    shown = rf"'here\.yaml' is from one with other node\.processors\.cores \(1000, here {node['processors.cores']}\)"
    with pytest.raises(BadConfiguration, match=shown):
        require_this_node(other, Path("here.yaml"))
    earlier = replace(made, calibration={**made.calibration, "node": "0" * 64})  # a hash
    with pytest.raises(BadConfiguration, match=r"other node \(0000.*: run `hpl calibrate` here"):
        require_this_node(earlier, Path("here.yaml"))
    require_this_node(SystemFile(made.system), Path("by-hand.yaml"))


def test_all_pairs_at_once_are_a_second_figure() -> None:
    """Two pairs share a link of 4 GB/s, the second at a rate of 1.5 GB/s."""
    pairs = [
        Series("node", "pairs", rank, size, size, (1e-6 + size / rate,))
        for rank, rate in ((0, 2.5e9), (2, 1.5e9))
        for size in SIZES
    ]
    alone, together = (fitted("made", 192, 8e9, FACTS, readings() + more, 0.0) for more in ([], pairs))

    assert together.system == alone.system
    assert together.calibration["facts"]["node_all_pairs_bytes_per_second"] == pytest.approx(1.5e9, rel=1e-3)
    assert any(each.startswith("node.bytes_per_second with all pairs at once: 1.5e+09") for each in remarks(together))
    assert not any("all pairs" in each for each in remarks(alone))


def test_a_calibration_holds_for_its_threads() -> None:
    made = fitted("made", 192, 8e9, {**FACTS, "threads": "4"}, readings(), 0.0)

    require_this_node(made, Path("here.yaml"), 4)
    with pytest.raises(BadConfiguration, match="was made with 4, and found --threads 2: give --threads 4"):
        require_this_node(made, Path("here.yaml"), 2)


def test_a_launch_has_its_ranks_and_threads() -> None:
    code = "import os, sys; print(os.environ['OMP_NUM_THREADS'], os.environ['BLIS_NUM_THREADS'], sys.argv[1:])"
    run = launch(shlex.join([sys.executable, "-c", code, "{ranks}", "{threads}"]), 2, 3, ["xhpl"], 60.0, {})

    assert run.output == "3 3 ['2', '3', 'xhpl']\n"
    assert HYBRID.format(ranks=2, threads=3) == "mpirun -np 2 --map-by slot:PE=3 --bind-to core"
