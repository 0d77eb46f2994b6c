"""SYSTEM.yaml: what is read, and the errors with rule, value and fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiperf.errors import BadConfiguration
from aiperf.hpl import model
from aiperf.hpl.system_file import SystemFile, changed, figures, parsed, read, write

EXAMPLE = Path("examples/hpl/p100.yaml")


def content(**changes: Any) -> dict[str, Any]:
    layers = [
        {"name": "memory", "ranks": 1, "latency_seconds": 1e-7, "bytes_per_second": "13e9"},
        {"name": "net", "ranks": 4, "latency_seconds": 0, "bytes_per_second": 6e9},
    ]
    return {"name": "four", "ranks": 4, "gemm_flops": 1e12, "layers": layers} | changes


def layer(**changes: Any) -> dict[str, Any]:
    return {"name": "net", "ranks": 4, "latency_seconds": 1e-6, "bytes_per_second": 6e9} | changes


def test_example_is_the_papers_platform() -> None:
    system = read(EXAMPLE).system

    assert [each.name for each in system.layers] == ["memory", "PCIe", "InfiniBand FDR"]
    assert system.gemm_flops == system.peak_flops == pytest.approx(4.76e12, rel=1e-3)
    assert system.layers[0].bytes_per_second == pytest.approx(13.075e9, rel=1e-4)
    assert system.ranks == 12


def test_written_file_reads_the_same(tmp_path: Path) -> None:
    system = parsed(content(panel_flops=5e11, swap_bytes_per_second=2e9, memory_bytes=1e9)).system
    calibration = {"intervals": {"gemm_flops": [0.9e12, 1.1e12]}, "node": "abc", "load": 0.0}
    write(tmp_path / "here.yaml", SystemFile(system, {"gemm_flops": (0.9e12, 1.1e12)}, calibration))

    found = read(tmp_path / "here.yaml")
    assert found.system == system
    assert found.intervals == {"gemm_flops": (0.9e12, 1.1e12)}
    assert found.calibration["node"] == "abc"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (content(gem_flops=1), r"no field 'gem_flops' \(did you mean 'gemm_flops'\?\)"),
        (content(layers=[layer(bytes_per_second=None)]), r"layers\[0\].bytes_per_second is missing: add"),
        (
            content(layers=[layer(bytes_per_second=-1)]),
            r"layers\[0\].bytes_per_second is a number and is between 1e-06 and .*, but found -1",
        ),
        (
            content(layers=[layer(ranks=4), layer(name="b", ranks=2)]),
            r"more ranks than the one before.*joins 2.*before 4",
        ),
        (content(ranks=8), r"the last layer joins all 8 ranks, but 'net' joins 4"),
        (content(layers=[]), "at least one entry, but found none"),
        (content(ranks=1.5), "ranks is a whole number and is between 1 and .*, but found 1.5"),
        (content(gemm_flops=True), "gemm_flops is a number and is between 1e-06 and .*, but found True"),
        (content(gemm_flops=float("inf")), "gemm_flops is a number and is between 1e-06 and .*, but found inf"),
        (content(layers=[layer(grid=[0, 1])]), r"layers\[0\].grid is a list \[p, q\].*found \[0, 1\]"),
        (content(layers=[layer(), layer(ranks=8)]), "each layer has its own name"),
        (content(accelerator={}), "gemm_flops cannot be combined with accelerator"),
        (content(calibration={"intervals": {"gemm_flops": [None, 1]}}), r"gemm_flops is a list \[low, high\]"),
        ("text", "the file is a mapping of name, ranks"),
    ],
)
def test_bad_file_names_rule_value_and_fix(bad: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parsed(bad)


def test_file_that_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: [")

    with pytest.raises(BadConfiguration, match=r"x\.yaml', which is not valid YAML"):
        read(tmp_path / "x.yaml")


def test_changed_figure_is_the_only_difference() -> None:
    system = parsed(content()).system
    for name, value in figures(system).items():
        other = figures(changed(system, name, 2 * value + 1))
        assert {each for each in other if other[each] != figures(system)[each]} == {name}


def test_unknown_figure_suggests_the_nearest() -> None:
    with pytest.raises(BadConfiguration, match=r"did you mean 'net.bytes_per_second'"):
        changed(parsed(content()).system, "net.byte_per_second", 1.0)


def test_accelerator_gives_the_equations_link() -> None:
    system = read(EXAMPLE).system
    link = system.layers[0].link

    assert link.alpha == pytest.approx(1029 / 1.328e9)
    assert link.beta == pytest.approx(model.WORD_BYTES / 13.074e9, rel=1e-4)
