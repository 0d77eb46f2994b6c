"""Tables and figures of HPC AI500 V2.0 that contradict themselves, in their order. docs/hpc-ai500.md lists them."""

from __future__ import annotations

import pytest

from morphism.detector import FASTER_RCNN_R50, Detector

IC_FP32 = 23 * 2624 / 1000
IC_MIXED = 23 * 5734 / 1000
EWA = 691 * 46 / 1000
"""TFLOPS of a node of 8 GPUs: operations of an image in GFLOP · images per second (Table 5)."""


def test_table_3_prints_another_width() -> None:
    image = 16 * 768 * 1152 * 4

    assert 1460 * image / 1e9 == pytest.approx(82.67, abs=0.005), "a file of a year, compressed 62 GB"
    assert 13_140 / 1460 == 9, "years"
    with pytest.raises(
        ValueError, match="width of a detector's image is a multiple of 32, at most 16384, but found 1052"
    ):
        Detector(FASTER_RCNN_R50, 768, 1052)


@pytest.mark.parametrize(
    ("gflop", "images", "product", "printed", "share_of_120"),
    [
        (23, 2624, 60.35, 58, 0.483),
        (23, 5734, 131.88, 126, 1.05),
        (691, 46, 31.79, 31, 0.258),
    ],
)
def test_table_5_prints_less_than_its_products(
    gflop: int, images: int, product: float, printed: int, share_of_120: float
) -> None:
    assert gflop * images / 1000 == pytest.approx(product, abs=0.005) and product > printed
    assert printed / 120 == pytest.approx(share_of_120, abs=5e-4)


def test_table_5_requires_less_than_23_gflop() -> None:
    """The two printed values of image classification, within their rounding, allow one common figure."""
    least = max((58 - 0.5) / 2624, (126 - 0.5) / 5734) * 1000
    most = min((58 + 0.5) / 2624, (126 + 0.5) / 5734) * 1000

    assert least == pytest.approx(21.913, abs=0.001)
    assert most == pytest.approx(22.061, abs=0.001)


def test_table_5_counts_another_detector() -> None:
    assert Detector(FASTER_RCNN_R50).cost.training_flops / 1e9 > 1.5 * 691


FIGURE_6 = {
    # convolution, GEMM, batch normalisation, element-wise, pooling, memcpy, all-reduce, data arrangement (* is 0)
    "IC FP32": (35.02, 25.54, 13.47, 15.51, 0.73, 2.62, 5.63, 0.0),
    "IC mixed": (14.92, 12.86, 1.85, 7.14, 6.62, 15.61, 22.18, 8.76),
    "EWA FP32": (24.62, 8.70, 0.0, 11.42, 0.37, 14.65, 35.97, 0.0),
}


@pytest.mark.parametrize(("row", "total"), [("IC FP32", 98.52), ("IC mixed", 89.94), ("EWA FP32", 95.73)])
def test_figure_6_does_not_add_up_to_100(row: str, total: float) -> None:
    assert sum(FIGURE_6[row]) == pytest.approx(total)


def test_figure_6_has_a_shifted_mixed_row() -> None:
    """The text gives 22.18 % to convolution and 15.61 % to data arrangement."""
    convolution, *_, memcpy, all_reduce, data_arrangement = FIGURE_6["IC mixed"]

    assert (all_reduce, memcpy) == (22.18, 15.61)
    assert convolution != 22.18 and data_arrangement != 15.61
    assert FIGURE_6["EWA FP32"][5] + FIGURE_6["EWA FP32"][6] == pytest.approx(50.62), "as in the text"


TABLE_6 = {
    # milliseconds: negotiation, wait for data, wait for other data, queuing, memcpy in, NCCL all-reduce, memcpy out
    "EWA": (54.837, 1.746, 2.961, 65.863, 0.108, 66.228, 0.197),
    "IC": (22.836, 85.418, 27.036, 0.043, 1.256, 4.153, 0.993),
}


@pytest.mark.parametrize(
    ("workload", "total", "negotiation", "waits"),
    [
        ("EWA", 191.940, 0.2857, 4.707),  # printed: 28.5 %, 4.6 ms
        ("IC", 141.735, 0.1611, 112.454),  # printed: 112.4 ms
    ],
)
def test_table_6_sums_and_shares(workload: str, total: float, negotiation: float, waits: float) -> None:
    negotiating, for_data, for_other_data, *_ = TABLE_6[workload]

    assert sum(TABLE_6[workload]) == pytest.approx(total)
    assert negotiating / total == pytest.approx(negotiation, abs=5e-5)
    assert for_data + for_other_data == pytest.approx(waits)


def test_table_6_negotiates_less_than_2_5_times_as_long() -> None:
    assert TABLE_6["EWA"][0] / TABLE_6["IC"][0] == pytest.approx(2.40, abs=0.005)


@pytest.mark.parametrize(
    ("tflops", "node", "efficiency", "printed"),
    [
        (345, IC_FP32, 0.715, 0.71),
        (718, IC_MIXED, 0.681, 0.67),
        (109 / 1.5, EWA, 0.286, 0.36),  # with compression 109, which is 1.5 times as fast
    ],
)
def test_section_5_4_uses_the_products(tflops: float, node: float, efficiency: float, printed: float) -> None:
    """Efficiency of 8 nodes, 64 GPUs. That of EWA does not follow from any figure of the paper."""
    assert tflops / (8 * node) == pytest.approx(efficiency, abs=5e-4)
    assert (abs(efficiency - printed) < 0.012) == (node is not EWA)


@pytest.mark.parametrize(("with_compression", "without", "gain"), [(414, 345, 1.20), (939, 718, 1.31)])
def test_section_5_4_gains_of_compression(with_compression: int, without: int, gain: float) -> None:
    assert with_compression / without == pytest.approx(gain, abs=0.005)
