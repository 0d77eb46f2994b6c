"""The table of peaks is dense, sane and answers nothing that it does not know."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.system.form import SystemForm
from aiperf.system.peaks import (
    MEASURED_PEAK,
    DataType,
    Peak,
    Units,
    board_variant,
    declared_peak,
    peak,
    table,
    worker_peak,
)

TERA = 1e12

# Published values with 2:4 structured sparsity, in TFLOPS, for the models of the table.
PRINTED_SPARSE: dict[str, dict[DataType, float]] = {
    "NVIDIA A10": {"tf32": 125, "bf16": 250, "fp16": 250},
    "NVIDIA A40": {"tf32": 149.6, "bf16": 299.4, "fp16": 299.4},
    "NVIDIA A100-SXM4-40GB": {"tf32": 312, "bf16": 624, "fp16": 624},
    "NVIDIA A100-SXM4-80GB": {"tf32": 312, "bf16": 624, "fp16": 624},
    "NVIDIA A100-PCIE-40GB": {"tf32": 312, "bf16": 624, "fp16": 624},
    "NVIDIA A100 80GB PCIe": {"tf32": 312, "bf16": 624, "fp16": 624},
    "NVIDIA L4": {"tf32": 120, "bf16": 242, "fp16": 242},
    "NVIDIA L40": {"tf32": 181, "bf16": 362.1, "fp16": 362.1},
    "NVIDIA L40S": {"tf32": 366, "bf16": 733, "fp16": 733},
    "NVIDIA H100 80GB HBM3": {"tf32": 989, "bf16": 1979, "fp16": 1979},
    "NVIDIA H100 PCIe": {"tf32": 756, "bf16": 1513, "fp16": 1513},
    "NVIDIA H100 NVL": {"tf32": 835, "bf16": 1671, "fp16": 1671},
    "NVIDIA H200 NVL": {"tf32": 835, "bf16": 1671, "fp16": 1671},
    "NVIDIA H200": {"tf32": 989, "bf16": 1979, "fp16": 1979},
    "NVIDIA GH200 480GB": {"tf32": 989, "bf16": 1979, "fp16": 1979},
    "NVIDIA GH200 144G HBM3e": {"tf32": 989, "bf16": 1979, "fp16": 1979},
    "NVIDIA B200": {"tf32": 2250, "bf16": 4500, "fp16": 4500},
    "NVIDIA GB200": {"tf32": 2500, "bf16": 5000, "fp16": 5000},
    "NVIDIA B300 SXM6 AC": {"tf32": 2250, "bf16": 4500, "fp16": 4500},
    "NVIDIA GeForce RTX 3090": {"tf32": 71, "bf16": 142, "fp16": 142},
    "NVIDIA GeForce RTX 4090": {"tf32": 165.2, "bf16": 330.4, "fp16": 330.4},
    "AMD Instinct MI300X": {"tf32": 1307.4, "bf16": 2614.9, "fp16": 2614.9},
    "AMD Instinct MI325X": {"tf32": 1307.4, "bf16": 2614.9, "fp16": 2614.9},
    "AMD Instinct MI355X": {"bf16": 5033, "fp16": 5033},
    "AMD Instinct MI300A": {"tf32": 980.6, "bf16": 1961.2, "fp16": 1961.2},
    "AMD Instinct MI350X": {"bf16": 4614, "fp16": 4614},
    "NVIDIA A30": {"tf32": 165, "bf16": 330, "fp16": 330},
    "NVIDIA A800-SXM4-80GB": {"tf32": 312, "bf16": 624, "fp16": 624},
    "NVIDIA A800 80GB PCIe": {"tf32": 312, "bf16": 624, "fp16": 624},
    "NVIDIA RTX A6000": {"bf16": 309.7, "fp16": 309.7},
    "NVIDIA H800": {"tf32": 989, "bf16": 1979, "fp16": 1979},
    "NVIDIA H20": {"tf32": 148, "bf16": 296, "fp16": 296},
    "NVIDIA GB300": {"bf16": 5000, "fp16": 5000},
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": {"tf32": 503.8, "bf16": 1010, "fp16": 1010},
    "NVIDIA GeForce RTX 5090": {"tf32": 209.5, "bf16": 419, "fp16": 419},
}
WITHOUT_SPARSITY = ("V100", "T4", "MI100", "MI210", "MI250", "MI250X")
WITHOUT_CLOCK = ("NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA B300 SXM6 AC", "NVIDIA H20", "NVIDIA GB300")
"""Their maker names no clock for its figures."""


@pytest.mark.parametrize("model", PRINTED_SPARSE)
def test_no_entry_is_a_sparse_figure(model: str) -> None:
    for dtype, printed in PRINTED_SPARSE[model].items():
        # The sheets round the two columns apart: L40S prints 362.05 and 733.
        assert peak(model, None, dtype) == pytest.approx(printed * TERA / 2, rel=0.015), dtype


def test_every_sparse_model_is_compared_with_its_sparse_peak() -> None:
    for row in table():
        assert row.example in PRINTED_SPARSE or re.search(rf"\b({'|'.join(WITHOUT_SPARSITY)})", row.example), (
            row.example
        )


@pytest.mark.parametrize("row", table(), ids=lambda row: row.example)
def test_a_peak_is_units_by_clock_by_operations(row: Peak) -> None:
    """Within the rounding of data sheets. A figure with sparsity is wrong by a factor of 2."""
    assert row.dense_flops and all(1e12 <= flops <= 1e16 for flops in row.dense_flops.values())
    assert (row.units is None) == (row.example in WITHOUT_CLOCK)
    for dtype, flops in row.dense_flops.items():
        assert row.units is None or flops == pytest.approx(row.units.flops(dtype), rel=0.02)


def test_each_memory_moves_what_a_device_of_its_kind_moves() -> None:
    """Operations to bytes: what a roofline's ridge is, and a slip by a power of ten would show."""
    for row in table():
        ridge = row.dense_flops["fp16"] / row.memory_bytes_per_second
        assert 35 <= ridge <= 450, row.example  # the H20 has a seventh of the H100's operations, and more memory
        assert 1e11 <= row.memory_bytes_per_second <= 2e13
        assert row.memory_source


def test_units_add_up() -> None:
    units = Units(count=132, clock_mhz=1830, per_clock={"fp32": 256, "bf16": 4096}, fp32_clock_mhz=1980)

    assert units.flops("bf16") == pytest.approx(989.4e12, rel=1e-3)
    assert units.flops("fp32") == pytest.approx(66.9e12, rel=1e-3)


def test_types_stand_in_the_ratios_that_tensor_units_have() -> None:
    for row in table():
        flops = row.dense_flops
        half = flops["fp16"]
        assert flops.get("bf16", half) in (half, pytest.approx(half / 2))  # MI100: half
        if "tf32" in flops:
            assert half / flops["tf32"] == pytest.approx(2, rel=0.03), row.example
        if "fp32" in flops:
            # 2 on GeForce and L40, 16 on A100, 31.25 on GB200. A sparse value would give 29.5 on Hopper, 60 on Blackwell.
            assert 2 - 0.01 <= half / flops["fp32"] <= 31.3, row.example
            is_blackwell = re.search(r"B[23]00", row.example) is not None
            assert is_blackwell or half / flops["fp32"] < 17, row.example


def test_every_row_answers_to_its_own_example_and_only_it() -> None:
    for row in table():
        fitting = [other for other in table() if re.fullmatch(other.accelerator, row.example, re.IGNORECASE)]
        assert fitting == [row]
        assert board_variant(row.example) == (row.variant or None)
        assert row.source and row.held_against
        for dtype, flops in row.dense_flops.items():
            assert peak(row.example, row.variant or None, dtype) == flops


def test_worked_figures() -> None:
    assert peak("NVIDIA A100-SXM4-40GB", None, "bf16") == 312e12
    assert peak("A100-SXM4-40GB", "SXM", "tf32") == 156e12  # as drivers before 470 call it
    assert peak("Tesla V100-SXM2-16GB", None, "fp16") == 125e12
    assert peak("AMD Instinct MI250X", None, "bf16") == 191.5e12  # one die


@pytest.mark.parametrize(
    "model",
    [
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA A100-SXM-64GB",  # a custom part without a public sheet
        "NVIDIA GB10",
        "NVIDIA A10G",
        "NVIDIA A100X",
        "NVIDIA RTX A4000",
        "NVIDIA L40G",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",  # no source for its dense figure could be checked
        "NVIDIA H20-3e",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA GeForce RTX 5090 Laptop GPU",
        "NVIDIA H100 SXM5 64GB",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "Ascend 910",  # no backend here runs on it
        "Ascend 910B",
        "AMD EPYC 9654 96-Core Processor",
        "",
    ],
)
def test_an_unknown_accelerator_has_no_peak(model: str) -> None:
    assert peak(model, None, "fp16") is None


@pytest.mark.parametrize("name", ["AMD Instinct MI250X / MI250", "AMD Instinct MI250X/MI250"])
def test_mi250x_and_mi250_differ_by_their_compute_units(name: str) -> None:
    assert peak(name, "OAM", "bf16", compute_units=110) == 191.5e12
    assert peak(name, None, "bf16", compute_units=104) == 181.05e12
    assert peak(name, None, "bf16") is None
    assert peak(name, None, "bf16", compute_units=60) is None


def test_a_partition_of_an_accelerator_has_no_peak() -> None:
    assert peak("AMD Instinct MI300X", None, "bf16", compute_units=304) == 1307.4e12
    assert peak("AMD Instinct MI300X", None, "bf16", compute_units=38) is None


def test_a_type_without_units_has_no_peak() -> None:
    assert peak("Tesla V100-SXM2-16GB", None, "bf16") is None
    assert peak("Tesla T4", None, "tf32") is None


def test_a_board_that_contradicts_the_name_has_no_peak() -> None:
    assert peak("NVIDIA H100 PCIe", "SXM", "bf16") is None


DECLARED = {"bf16": 2.5e14, "source": "a sheet"}


@given(
    st.sampled_from(get_args(DataType)), st.sampled_from(["NVIDIA H200", "NVIDIA GB10", "AMD EPYC 9654"]), st.booleans()
)
def test_a_published_peak_precedes_a_declared_one(precision: DataType, device: str, is_measured: bool) -> None:
    """And a declared peak precedes a measured one, for its own precision only."""
    machine = {MEASURED_PEAK: {precision: 1e12}} if is_measured else {}

    found, without = (worker_peak(device, machine, precision, declared) for declared in (DECLARED, {}))

    published = peak(device, None, precision)
    if published is not None:
        assert found is not None and found.flops == published and not found.is_declared
        assert ("do not count" in found.source) == (precision == "bf16")
    elif precision == "bf16":
        assert found is not None and (found.flops, found.is_declared, found.is_measured) == (2.5e14, True, False)
        assert found.source.startswith("declared peak of ") and "a sheet" in found.source
    else:
        assert found == without


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"source": "a sheet"},
        {"bf16": 1e14},
        {"bf16": 1e14, "source": " "},
        {"bf16": 1e14, "source": 3},
        {"int8": 1e14, "source": "a sheet"},
        {"bf16": 0.0, "source": "a sheet"},
        {"bf16": -1e14, "source": "a sheet"},
        {"bf16": float("nan"), "source": "a sheet"},
        {"bf16": float("inf"), "source": "a sheet"},
        {"bf16": 250, "source": "TFLOPS are no FLOPS"},
        {"bf16": True, "source": "a sheet"},
        {"bf16": "2.5e14", "source": "a sheet"},
    ],
    ids=str,
)
def test_a_declared_peak_has_figures_and_a_source(wrong: dict[str, object]) -> None:
    with pytest.raises(BadConfiguration, match=r"system\.peak"):
        SystemForm(peak=wrong)
    assert declared_peak({"system": {"peak": wrong}}) == {}, "neither does a journal's"
    assert SystemForm(peak=DECLARED).peak == declared_peak({"system": {"peak": DECLARED}}) == DECLARED
